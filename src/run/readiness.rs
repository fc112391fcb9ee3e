//! The checks of `/readyz`: the conditions for taking in mail and changes.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::domain::clock::Clock;
use crate::domain::ports::MailLoad;
use crate::http::{Check, Fault, Readiness};
use crate::shutdown::Shutdown;
use crate::store::{Store, StoreError};

/// All checks run at once; the response takes less than a second.
const PATIENCE: Duration = Duration::from_millis(700);

/// Callers cannot make the check write and delete an object more often than this, while it
/// succeeds.
const ORIGINALS_HOLD: Duration = Duration::from_secs(30);

/// The state of the front end.
pub(super) struct FrontEndState {
    /// Cancelled when the front end has ended, for any reason.
    pub(super) ended: CancellationToken,
    pub(super) load: Arc<dyn Fn() -> MailLoad + Send + Sync>,
    /// Bytes that must be free on the disk; with less, mail is deferred.
    pub(super) min_free_bytes: u64,
}

/// Must be called on the threads of mail.
pub(super) fn checks(
    store: &Store,
    clock: &Clock,
    front_end: FrontEndState,
    shutdown: Shutdown,
) -> Readiness {
    let threads = Handle::current();
    let FrontEndState { ended, load, min_free_bytes } = front_end;
    let (trusted, spacious) = (store.clone(), store.clone());
    let checks = vec![
        Check::new("mail", move || {
            let found = match (shutdown.is_stopping(), ended.is_cancelled()) {
                (true, _) => Err(fault("shutting down")),
                (false, true) => Err(fault("not listening")),
                (false, false) => Ok(()),
            };
            // Asked from other threads: while those of mail hang, this does not come back.
            let passed = AbortOnDropHandle::new(threads.spawn(async {}));
            async move {
                found?;
                passed.await.map_err(|_| fault("no thread"))
            }
        }),
        Check::new("memory", move || {
            let found = if load().has_memory { Ok(()) } else { Err(fault("used up")) };
            async move { found }
        }),
        Check::new("trust", move || {
            let found = trusted.check_trust();
            async move { as_fault(found) }
        }),
        store_check(store, "reading", |store| async move { store.ping().await }),
        store_check(store, "writing", |store| async move { store.check_commit().await }),
        store_check(store, "originals", |store| async move { store.check_originals().await })
            .holding(ORIGINALS_HOLD),
        Check::new("space", move || {
            let store = spacious.clone();
            async move {
                match store.free_space().await {
                    Ok(Some(free)) if free < min_free_bytes => Err(fault("no space")),
                    found => as_fault(found.map(drop)),
                }
            }
        }),
    ];
    Readiness::new(clock.clone(), PATIENCE, checks)
}

/// A check by a call of the store.
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
        async move { as_fault(looking.await) }
    })
}

/// Shows the fault of the store in plain words.
fn as_fault(found: Result<(), StoreError>) -> Result<(), Fault> {
    found.map_err(|error| Fault { cause: error.public_cause(), detail: error.to_string() })
}

fn fault(cause: &'static str) -> Fault {
    Fault { cause, detail: cause.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::rules::Rules;
    use crate::run::system_mint;
    use crate::store::Location;

    #[tokio::test]
    async fn threads_of_mail_that_hang_are_noticed() {
        let (folder, mint) = (tempfile::tempdir().unwrap(), system_mint());
        let location = Location::Folder(folder.path().into());
        let rules = Rules::defaults().unwrap().store;
        let store = Store::create(&location, &rules, mint.clone()).await.unwrap();
        let mail = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (hold, held) = mpsc::channel::<()>();
        mail.spawn(async move { held.recv() });
        let readiness = {
            let _on_mail = mail.enter();
            let load = || MailLoad { sessions: None, memory_bytes: None, has_memory: true };
            let (ended, load) = (CancellationToken::new(), Arc::new(load));
            let state = FrontEndState { ended, load, min_free_bytes: 0 };
            checks(&store, mint.clock(), state, Shutdown::default())
        };
        let results = readiness.check(false).await;
        let of_mail = results.into_iter().find(|result| result.name == "mail").unwrap();
        assert_eq!(of_mail.fault.unwrap().cause, "not answering");
        drop(hold);
        mail.shutdown_background();
    }
}
