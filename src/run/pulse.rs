//! Whether the gateway works at all, for a watchdog that restarts it when it does not.

use std::io;

use tokio::runtime::Handle;

use super::Running;
use crate::http::Readiness;
use crate::store::Store;

/// Cheap to clone; it outlives the gateway, and then fails.
#[derive(Clone, Debug)]
pub struct Pulse {
    store: Store,
    /// Those of mail, of requests and of streams.
    threads: [Handle; 3],
    readiness: Readiness,
}

impl Running {
    /// Must be called on the threads of mail.
    pub fn pulse(&self) -> Pulse {
        let threads = [Handle::current(), self.threads.requests(), self.threads.streams()];
        Pulse { store: self.stores.mail.clone(), threads, readiness: self.readiness.clone() }
    }
}

impl Pulse {
    /// Resolves once a task ran on each group of threads, and a commit that began now has ended,
    /// with or without success. So it proves that no group of threads hangs as a whole, and that
    /// the store answers. It does not prove that mail is taken in: a database that is gone, or a
    /// full disk, is not mended by a restart, and clients are told to come back later.
    pub async fn beat(&self) -> io::Result<()> {
        for threads in &self.threads {
            threads.spawn(async {}).await?;
        }
        let store = self.store.clone();
        let [mail, ..] = &self.threads;
        let _well_or_not = mail.spawn(async move { store.check_commit().await }).await?;
        Ok(())
    }

    /// Returns `ready`, or the checks of `/readyz` that fail, each with its cause.
    pub async fn in_words(&self) -> String {
        let results = self.readiness.check(false).await;
        let failing = results.into_iter().filter_map(|result| {
            let fault = result.fault?;
            Some(format!("{} ({})", result.name, fault.cause))
        });
        let failing: Vec<_> = failing.collect();
        if failing.is_empty() {
            "ready".to_owned()
        } else {
            format!("not ready: {}", failing.join(", "))
        }
    }
}
