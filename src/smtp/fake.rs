//! An Intake that decides by names and records its calls; used by the transcripts and by the socket
//! tests.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, Semaphore};

use crate::domain::address::Address;
use crate::domain::id::{AccountId, IntakeId};
use crate::domain::ports::{Client, Envelope, Intake, IntakeReply, Recipient};
use crate::domain::reason::Reason;

/// The id of every record.
pub(super) const RECORD: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

#[derive(Clone, Debug)]
pub(super) enum Call {
    Recipient { from: String, path: String },
    Message { envelope: Envelope, raw: Bytes },
    Refused { reason: Reason, open_for: Duration, head: Bytes, size: u64 },
    OverRate { path: String },
}

/// Decides by the local part: `openN` is an Agent that shares a transaction, `listN` one that does
/// not, `postmaster` is `open1`, the name of a reason is refused for that reason, `panic` panics,
/// and anything else is unknown.
#[derive(Debug, Default)]
pub(super) struct Fake {
    pub(super) calls: Mutex<Vec<Call>>,
    /// The labels of replies that refused, and of connections turned away.
    pub(super) turned_down: Mutex<Vec<&'static str>>,
    /// Reason and detail for the next messages; None accepts them.
    pub(super) message: Mutex<Option<(Reason, Option<String>)>>,
    /// Accepted messages count as repeats.
    pub(super) again: AtomicBool,
    /// The reason why the next records cannot be stored.
    pub(super) refused: Mutex<Option<Reason>>,
    /// Free bytes on disk.
    pub(super) free: Mutex<Option<u64>>,
    /// The disk does not tell.
    pub(super) hangs: AtomicBool,
    /// If set, each message waits for a permit before its answer.
    pub(super) gate: Option<Semaphore>,
    /// Notified when a message waits at the gate.
    pub(super) arrived: Notify,
}

impl Fake {
    pub(super) fn decide_recipient(
        &self,
        from: &str,
        path: &str,
    ) -> Result<Recipient, IntakeReply> {
        let call = Call::Recipient { from: from.into(), path: path.into() };
        self.calls.lock().unwrap().push(call);
        let local = path.rsplit_once('@').map_or(path, |(local, _)| local).to_ascii_lowercase();
        let refuse = |reason| {
            Err(IntakeReply { reason: Some(reason), detail: None, record: None, again: false })
        };
        let (agent, shares) = match (local.strip_prefix("open"), local.strip_prefix("list")) {
            _ if local == "postmaster" => (1, true),
            _ if local == "panic" => panic!("a recipient that panics"),
            (Some(number), _) => (number.parse().unwrap_or(1), true),
            (_, Some(number)) => (100 + number.parse().unwrap_or(1), false),
            _ => return refuse(local.parse().unwrap_or(Reason::UnknownRecipient)),
        };
        Ok(Recipient {
            agent: Some(AccountId::new(agent).unwrap()),
            address: Address::parse("agent@gatepost.example").unwrap(),
            tag: None,
            as_sent: path.into(),
            shares: AccountId::new(1).filter(|_| shares),
        })
    }

    pub(super) fn decide_message(&self, envelope: Envelope, raw: Bytes) -> IntakeReply {
        self.calls.lock().unwrap().push(Call::Message { envelope, raw });
        let record = Some(IntakeId(RECORD.parse().unwrap()));
        match self.message.lock().unwrap().clone() {
            None => {
                let again = self.again.load(Ordering::Relaxed);
                IntakeReply { reason: None, detail: None, record, again }
            }
            // Our own failures leave no record (contract §2.3).
            Some((reason @ (Reason::StoreUnavailable | Reason::TooBusy), detail)) => {
                IntakeReply { reason: Some(reason), detail, record: None, again: false }
            }
            Some((reason, detail)) => {
                IntakeReply { reason: Some(reason), detail, record, again: false }
            }
        }
    }

    pub(super) fn decide_refused(
        &self,
        open_for: Duration,
        reason: Reason,
        head: Bytes,
        size: u64,
    ) -> IntakeReply {
        self.calls.lock().unwrap().push(Call::Refused { reason, open_for, head, size });
        match *self.refused.lock().unwrap() {
            Some(reason) => {
                IntakeReply { reason: Some(reason), detail: None, record: None, again: false }
            }
            None => {
                let record = Some(IntakeId(RECORD.parse().unwrap()));
                IntakeReply { reason: Some(reason), detail: None, record, again: false }
            }
        }
    }

    /// Raw bytes of all messages, in order.
    pub(super) fn messages(&self) -> Vec<Bytes> {
        let raw = |call: &Call| match call {
            Call::Message { raw, .. } => Some(raw.clone()),
            Call::Recipient { .. } | Call::Refused { .. } | Call::OverRate { .. } => None,
        };
        self.calls.lock().unwrap().iter().filter_map(raw).collect()
    }
}

impl Intake for Fake {
    fn turned_down(&self, label: &'static str) {
        self.turned_down.lock().unwrap().push(label);
    }

    async fn free_space(&self) -> Result<Option<u64>, IntakeReply> {
        let reason = Some(Reason::StoreUnavailable);
        match self.hangs.load(Ordering::Relaxed) {
            false => Ok(*self.free.lock().unwrap()),
            true => Err(IntakeReply { reason, detail: None, record: None, again: false }),
        }
    }

    async fn over_rate(&self, _: &Client, _: &str, path: &str) -> IntakeReply {
        self.calls.lock().unwrap().push(Call::OverRate { path: path.into() });
        let record = Some(IntakeId(RECORD.parse().unwrap()));
        IntakeReply { reason: Some(Reason::RateLimited), detail: None, record, again: false }
    }

    async fn recipient(
        &self,
        _: &Client,
        from: &str,
        path: &str,
    ) -> Result<Recipient, IntakeReply> {
        self.decide_recipient(from, path)
    }

    async fn message(&self, envelope: Envelope, raw: Bytes) -> IntakeReply {
        if let Some(gate) = &self.gate {
            self.arrived.notify_one();
            gate.acquire().await.unwrap().forget();
        }
        self.decide_message(envelope, raw)
    }

    async fn refused(
        &self,
        envelope: Envelope,
        reason: Reason,
        _: String,
        head: Bytes,
        size: u64,
    ) -> IntakeReply {
        self.decide_refused(envelope.open_for, reason, head, size)
    }
}
