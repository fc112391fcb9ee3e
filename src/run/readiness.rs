//! What must hold for a message, or a change by the API, to be taken in.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::domain::clock::Clock;
use crate::http::{Check, Fault, Readiness};
use crate::shutdown::Shutdown;
use crate::store::{Store, StoreError};

/// All looks are taken at once, and the answer is there in under a second.
const PATIENCE: Duration = Duration::from_millis(700);

/// Whoever asks makes an object be put and taken away no more often than this, while that works.
const ORIGINALS_HOLD: Duration = Duration::from_secs(30);

/// What is known of the front end.
pub(super) struct Mail {
    /// Cancelled when it has ended, whyever.
    pub(super) ended: CancellationToken,
    /// Whether there is memory for one more message.
    pub(super) has_memory: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Octets that must be free, or mail is put off.
    pub(super) least: u64,
}

/// The checks of `/readyz`.
pub(super) fn of(store: &Store, clock: &Clock, mail: Mail, shutdown: Shutdown) -> Readiness {
    let Mail { ended, has_memory, least } = mail;
    let trusted = store.clone();
    let spacious = store.clone();
    let checks = vec![
        Check::new("mail", move || {
            let found = match (shutdown.is_stopping(), ended.is_cancelled()) {
                (true, _) => Err(fault("shutting down")),
                (false, true) => Err(fault("not listening")),
                (false, false) => Ok(()),
            };
            async move { found }
        }),
        Check::new("memory", move || {
            let found = if has_memory() { Ok(()) } else { Err(fault("used up")) };
            async move { found }
        }),
        Check::new("trust", move || {
            let found = trusted.check_trust();
            async move { told(found) }
        }),
        store_check(store, "reading", |store| async move { store.ping().await }),
        store_check(store, "writing", |store| async move { store.check_commit().await }),
        store_check(store, "originals", |store| async move { store.check_originals().await })
            .holding(ORIGINALS_HOLD),
        Check::new("space", move || {
            let store = spacious.clone();
            async move {
                match store.free_space().await {
                    Some(free) if free < least => Err(fault("no space")),
                    _ => Ok(()),
                }
            }
        }),
    ];
    Readiness::new(clock.clone(), PATIENCE, checks)
}

/// A check that the store answers.
fn store_check<R>(
    store: &Store,
    name: &'static str,
    look: impl Fn(Store) -> R + Send + Sync + 'static,
) -> Check
where
    R: Future<Output = Result<(), StoreError>> + Send + 'static,
{
    let store = store.clone();
    Check::new(name, move || {
        let looking = look(store.clone());
        async move { told(looking.await) }
    })
}

fn told(found: Result<(), StoreError>) -> Result<(), Fault> {
    found.map_err(|error| Fault { cause: error.plainly(), detail: error.to_string() })
}

fn fault(cause: &'static str) -> Fault {
    Fault { cause, detail: cause.to_owned() }
}
