//! Readiness: whether the gateway can accept mail and changes now, as `/readyz` says. Asking needs
//! no key and causes no work: all requests within a second share one round of checks, and no check
//! runs twice at a time. A check that is slow once does not count as failed. Clients see names of
//! checks and plain causes; details are in the log, once per change.
//!
//! Locks, in this order, held while checks run: the last results, then each check's state.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::domain::clock::{Clock, Timestamp};

/// How long a result is reused. Monitors ask every few seconds.
const FRESH: Duration = Duration::from_secs(1);
/// A run without a result counts as passed until it is BELIEVED old, if it began at most LATELY
/// after the last pass or the end of its reuse: heavy disk writes or a full pool delay a check for
/// a moment. LATELY is a little more than the interval of a monitor that asks every ten seconds.
const LATELY: Duration = Duration::from_secs(15);
const BELIEVED: Duration = Duration::from_secs(3);
/// The cause of a check that gave no result in time.
const SILENT: &str = "not answering";

type PendingCheck = Pin<Box<dyn Future<Output = Result<(), Fault>> + Send>>;

/// Why a check fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// For everybody.
    pub cause: &'static str,
    /// For the log.
    pub detail: String,
}

pub struct Check {
    look: Box<dyn Fn() -> PendingCheck + Send + Sync>,
    /// How long a pass is reused without a new check.
    holds: Duration,
    state: Mutex<State>,
}

/// The last result of a check, and a run still under way.
struct State {
    result: CheckResult,
    /// When the check last passed; None if it failed the last time.
    passed_at: Option<Timestamp>,
    /// The run under way, and when it began.
    running: Option<(JoinHandle<Result<(), Fault>>, Timestamp)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckResult {
    pub(crate) name: &'static str,
    pub(crate) fault: Option<Fault>,
    /// When the cause last changed, as far as checks have noticed.
    pub(crate) since: Timestamp,
}

/// The last results, when they came, and whether the gateway was stopping.
struct Last {
    at: Timestamp,
    stopping: bool,
    results: Vec<CheckResult>,
}

#[derive(Clone)]
pub struct Readiness {
    checks: Arc<[Check]>,
    clock: Clock,
    patience: Duration,
    last: Arc<Mutex<Option<Last>>>,
}

impl Check {
    pub fn new<F, R>(name: &'static str, look: F) -> Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), Fault>> + Send + 'static,
    {
        let result = CheckResult { name, fault: None, since: Timestamp::from_millis(0) };
        let state = Mutex::new(State { result, passed_at: None, running: None });
        Self { look: Box::new(move || Box::pin(look())), holds: Duration::ZERO, state }
    }

    /// Reuses a pass for this long, because the check is expensive.
    pub fn holding(self, holds: Duration) -> Self {
        Self { holds, ..self }
    }

    /// Runs the check, or waits for the run under way, for at most `patience`; a slow run goes on.
    /// A panic of the check is a fault.
    async fn ask(&self, patience: Duration, clock: &Clock) -> CheckResult {
        let mut state = self.state.lock().await;
        let State { result, passed_at, running } = &mut *state;
        let now = clock.steady();
        let holds = passed_at
            .is_some_and(|passed_at| (passed_at..passed_at.plus(self.holds)).contains(&now));
        if holds && running.is_none() {
            return result.clone();
        }
        let (mut look, began) =
            running.take().unwrap_or_else(|| (tokio::spawn((self.look)()), now));
        let fault = match tokio::time::timeout(patience, &mut look).await {
            Ok(Ok(found)) => found.err(),
            Ok(Err(error)) => Some(Fault { cause: "not working", detail: error.to_string() }),
            Err(_) => {
                *running = Some((look, began));
                let lately = passed_at
                    .is_some_and(|passed_at| began < passed_at.plus(self.holds).plus(LATELY));
                if lately && clock.steady() < began.plus(BELIEVED) {
                    return result.clone();
                }
                Some(Fault { cause: SILENT, detail: format!("no answer in {patience:?}") })
            }
        };
        *passed_at = fault.is_none().then(|| clock.steady());
        result.note(fault, clock.now());
        result.clone()
    }
}

impl CheckResult {
    /// Stores a result, and logs it if the cause changed.
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
    /// All `checks` must pass, each within `patience`. `clock` measures the age of results.
    pub fn new(clock: Clock, patience: Duration, checks: Vec<Check>) -> Self {
        let (began, mut checks) = (clock.now(), checks);
        for check in &mut checks {
            check.state.get_mut().result.since = began;
        }
        Self { checks: checks.into(), clock, patience, last: Arc::default() }
    }

    /// Returns all results, at most a second old. Results from before the stop began do not count.
    pub(crate) async fn check(&self, stopping: bool) -> Vec<CheckResult> {
        let mut last = Arc::clone(&self.last).lock_owned().await;
        let now = self.clock.steady();
        if let Some(last) = last.as_ref().filter(|last| last.stopping == stopping)
            // A clock that was set back must not extend its life.
            && (last.at..last.at.plus(FRESH)).contains(&now)
        {
            return last.results.clone();
        }
        let Self { checks, clock, patience, .. } = self.clone();
        // Runs to its end even if the client disconnects: otherwise the next request would start
        // over.
        let asking = tokio::spawn(async move {
            let results = join_all(checks.iter().map(|check| check.ask(patience, &clock))).await;
            *last = Some(Last { at: clock.steady(), stopping, results: results.clone() });
            results
        });
        asking.await.unwrap_or_else(|error| {
            let fault = Fault { cause: "not working", detail: error.to_string() };
            vec![CheckResult { name: "checks", fault: Some(fault), since: self.clock.now() }]
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
