//! Whether the gateway could take a message or a change in now, as `/readyz` tells everybody: so
//! that a stranger without a key makes no work, however often it asks, all that ask share one look
//! a second, and no look is begun while the one before still lasts. A check that is slow for once is
//! not taken for one that fails. What is told are names of checks and plain causes; what is behind
//! them is in the log, once for each change.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::domain::clock::{Clock, Timestamp};

/// An answer is told again for so long. Whoever watches a gateway asks every few seconds.
const FRESH: Duration = Duration::from_secs(1);
/// A check that held so lately when a look began is believed to hold while that look lasts, but no
/// longer than this: a disk that writes much at once, or a pool that is full, delays one for a
/// moment. The first is a little more than the pause of who asks every ten seconds.
const LATELY: Duration = Duration::from_secs(15);
const BELIEVED: Duration = Duration::from_secs(3);
/// The cause where a look has not ended in time.
const SILENT: &str = "not answering";

type Looking = Pin<Box<dyn Future<Output = Result<(), Fault>> + Send>>;

/// Why a check fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// For everybody.
    pub cause: &'static str,
    /// For the log.
    pub detail: String,
}

/// One question, and how it is answered.
pub struct Check {
    look: Box<dyn Fn() -> Looking + Send + Sync>,
    /// For so long its good word is told again without a look.
    holds: Duration,
    state: Mutex<State>,
}

/// What is known of a check, and a look that still lasts.
struct State {
    told: Told,
    /// When it was last found to hold, if it was the last time.
    held: Option<Timestamp>,
    /// And when that look began.
    looking: Option<(JoinHandle<Result<(), Fault>>, Timestamp)>,
}

/// A check as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) name: &'static str,
    pub(crate) fault: Option<Fault>,
    /// Since when it is so, as far as it was asked.
    pub(crate) since: Timestamp,
}

/// An answer, when it came, and whether the gateway was stopping then.
struct Last {
    at: Timestamp,
    stopping: bool,
    told: Vec<Told>,
}

/// Whether the gateway can work at all: asked by `/readyz`.
#[derive(Clone)]
pub struct Readiness {
    checks: Arc<[Check]>,
    clock: Clock,
    patience: Duration,
    /// The last answer and when it came; locked while a look is under way.
    last: Arc<Mutex<Option<Last>>>,
}

impl Check {
    /// A check that `look` decides.
    pub fn new<F, R>(name: &'static str, look: F) -> Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), Fault>> + Send + 'static,
    {
        let told = Told { name, fault: None, since: Timestamp::from_millis(0) };
        let state = Mutex::new(State { told, held: None, looking: None });
        Self { look: Box::new(move || Box::pin(look())), holds: Duration::ZERO, state }
    }

    /// A look is dear: its good word is told again for so long.
    pub fn holding(self, holds: Duration) -> Self {
        Self { holds, ..self }
    }

    /// One look, or the one that still lasts, for so long.
    async fn ask(&self, patience: Duration, clock: &Clock) -> Told {
        let mut state = self.state.lock().await;
        let State { told, held, looking } = &mut *state;
        let now = clock.steady();
        let holds = held.is_some_and(|held| (held..held.plus(self.holds)).contains(&now));
        if holds && looking.is_none() {
            return told.clone();
        }
        let (mut look, began) =
            looking.take().unwrap_or_else(|| (tokio::spawn((self.look)()), now));
        let fault = match tokio::time::timeout(patience, &mut look).await {
            Ok(Ok(found)) => found.err(),
            Ok(Err(error)) => Some(Fault { cause: "not working", detail: error.to_string() }),
            Err(_) => {
                *looking = Some((look, began));
                let lately = held.is_some_and(|held| began < held.plus(self.holds).plus(LATELY));
                if lately && clock.steady() < began.plus(BELIEVED) {
                    return told.clone();
                }
                Some(Fault { cause: SILENT, detail: format!("no answer in {patience:?}") })
            }
        };
        *held = fault.is_none().then(|| clock.steady());
        told.note(fault, clock.now());
        told.clone()
    }
}

impl Told {
    /// The log says each change once.
    fn note(&mut self, fault: Option<Fault>, now: Timestamp) {
        let cause = |fault: &Option<Fault>| fault.as_ref().map(|fault| fault.cause);
        if cause(&self.fault) != cause(&fault) {
            match &fault {
                Some(Fault { cause, detail }) => {
                    tracing::warn!(check = self.name, cause, error = detail, "not ready");
                }
                None => tracing::info!(check = self.name, "ready again"),
            }
            self.since = now;
        }
        self.fault = fault;
    }
}

impl Readiness {
    /// All of `checks` must hold; each has so much `patience`. What they say grows old by `clock`.
    pub fn new(clock: Clock, patience: Duration, checks: Vec<Check>) -> Self {
        let (began, mut checks) = (clock.now(), checks);
        for check in &mut checks {
            check.state.get_mut().told.since = began;
        }
        Self { checks: checks.into(), clock, patience, last: Arc::default() }
    }

    /// All checks as they were within the last second, or as they are found now. An answer from
    /// before the gateway began to stop counts no more.
    pub(crate) async fn check(&self, stopping: bool) -> Vec<Told> {
        let mut last = Arc::clone(&self.last).lock_owned().await;
        let now = self.clock.steady();
        if let Some(last) = last.as_ref().filter(|last| last.stopping == stopping)
            // A clock that was set back would make it last.
            && (last.at..last.at.plus(FRESH)).contains(&now)
        {
            return last.told.clone();
        }
        let Self { checks, clock, patience, .. } = self.clone();
        // To its end, whoever has asked: one that hangs up would make the next one ask anew.
        let asking = tokio::spawn(async move {
            let told = join_all(checks.iter().map(|check| check.ask(patience, &clock))).await;
            *last = Some(Last { at: clock.steady(), stopping, told: told.clone() });
            told
        });
        asking.await.unwrap_or_else(|error| {
            let fault = Fault { cause: "not working", detail: error.to_string() };
            vec![Told { name: "checks", fault: Some(fault), since: self.clock.now() }]
        })
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Readiness")
    }
}

#[cfg(test)]
mod tests;
