//! Memory of a session while its client is silent.

use bytes::Bytes;

use crate::domain::ports::{Client, Envelope, Intake, IntakeReply, Recipient};
use crate::domain::reason::Reason;
use crate::smtp::session::Session;

/// An Intake whose futures need much memory.
struct Roomy;

async fn wait_in_a_large_room() -> IntakeReply {
    let room = [0_u8; 1 << 16];
    tokio::task::yield_now().await;
    std::hint::black_box(&room);
    IntakeReply { reason: None, detail: None, record: None, again: false }
}

impl Intake for Roomy {
    fn turned_down(&self, _: &'static str) {}

    async fn free_space(&self) -> Result<Option<u64>, IntakeReply> {
        Err(wait_in_a_large_room().await)
    }

    async fn over_rate(&self, _: &Client, _: &str, _: &str) -> IntakeReply {
        wait_in_a_large_room().await
    }

    async fn recipient(&self, _: &Client, _: &str, _: &str) -> Result<Recipient, IntakeReply> {
        Err(wait_in_a_large_room().await)
    }

    async fn message(&self, _: Envelope, _: Bytes) -> IntakeReply {
        wait_in_a_large_room().await
    }

    async fn refused(&self, _: Envelope, _: Reason, _: String, _: Bytes, _: u64) -> IntakeReply {
        wait_in_a_large_room().await
    }
}

/// The size of the future that this function of two arguments returns.
fn size<A, B, F>(_: impl Fn(A, B) -> F) -> usize {
    size_of::<F>()
}

#[test]
fn an_idle_session_keeps_no_room_for_what_it_may_ask_later() {
    let size = size(Session::<Roomy>::run);
    assert!(size < 8 * 1024, "{size} octets");
}
