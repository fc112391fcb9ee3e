//! Clients that connect and then send nothing, or almost nothing.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::TO;
use crate::support::authority::{Secured, opportunistic};
use crate::support::session::Session;

/// Clients that connect at the same time.
const AT_ONCE: usize = 50;
/// Pause between two bytes of a dribbling client.
const PAUSE: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Clear,
    Encrypted,
    /// A byte now and then: half of these clients in a command, half in a message.
    Dribbling,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Clear, Self::Encrypted, Self::Dribbling];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Clear => "idle, in clear",
            Self::Encrypted => "idle, STARTTLS",
            Self::Dribbling => "dribbling",
        }
    }

    /// Number of clients of this kind for `clients` idle ones.
    pub const fn share_of(self, clients: usize) -> usize {
        match self {
            Self::Clear | Self::Encrypted => clients,
            Self::Dribbling => clients / 10,
        }
    }
}

/// Clients that have been greeted and have said EHLO.
pub enum Crowd {
    Clear(Vec<Session>),
    Encrypted(Vec<Secured>),
    Dribbling(JoinSet<()>),
}

impl Crowd {
    pub async fn gather(kind: Kind, server: SocketAddr, clients: usize) -> Self {
        match kind {
            Kind::Clear => Self::Clear(come(clients, move |_| Session::idle(server)).await),
            Kind::Encrypted => {
                let connector = opportunistic();
                let secured = move |_| {
                    let connector = connector.clone();
                    async move {
                        let mut session = Secured::open(server, &connector).await.unwrap();
                        let reply = session.say("EHLO client.example\r\n").await;
                        assert!(reply.starts_with("250"), "{reply}");
                        session
                    }
                };
                Self::Encrypted(come(clients, secured).await)
            }
            Kind::Dribbling => {
                let begun = come(clients, move |number| begin(server, number % 2 == 0)).await;
                Self::Dribbling(begun.into_iter().map(dribble).collect())
            }
        }
    }

    /// Fails if a client has been disconnected or gets no reply.
    pub async fn expect_answers(self) {
        match self {
            Self::Clear(sessions) => {
                for mut session in sessions {
                    let reply = session.say("NOOP").await;
                    assert!(reply.starts_with("250"), "{reply}");
                }
            }
            Self::Encrypted(sessions) => {
                for mut session in sessions {
                    let reply = session.say("NOOP\r\n").await;
                    assert!(reply.starts_with("250"), "{reply}");
                }
            }
            // A client that could not send any more has ended.
            Self::Dribbling(mut clients) => assert!(clients.try_join_next().is_none()),
        }
    }
}

/// Opens so many clients, a few at the same time.
async fn come<S, F>(clients: usize, open: impl Fn(usize) -> F + Clone + Send + 'static) -> Vec<S>
where
    S: Send + 'static,
    F: Future<Output = S> + Send,
{
    let mut coming = JoinSet::new();
    for first in 0..AT_ONCE.min(clients) {
        let open = open.clone();
        coming.spawn(async move {
            let mut sessions = Vec::new();
            for number in (first..clients).step_by(AT_ONCE) {
                sessions.push(open(number).await);
            }
            sessions
        });
    }
    coming.join_all().await.into_iter().flatten().collect()
}

async fn begin(server: SocketAddr, in_message: bool) -> Session {
    if !in_message {
        return Session::idle(server).await;
    }
    let mut session = Session::with_recipient(server, TO).await;
    assert!(session.say("DATA").await.starts_with("354"));
    session
}

async fn dribble(mut session: Session) {
    loop {
        session.send("x").await;
        sleep(PAUSE).await;
    }
}
