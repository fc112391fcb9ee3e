//! Whether the gateway works at all, for a watchdog that restarts it when it does not.

use std::io;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::Running;
use crate::http::Readiness;
use crate::shutdown::Shutdown;
use crate::store::Store;

/// Cheap to clone; it outlives the gateway, and then fails.
#[derive(Clone, Debug)]
pub struct Pulse {
    store: Store,
    /// Those of mail, of requests and of streams.
    threads: [Handle; 3],
    readiness: Readiness,
    /// Cancelled when mail is no longer taken in, for any reason.
    mail_ended: CancellationToken,
    shutdown: Shutdown,
}

impl Running {
    /// Must be called on the threads of mail.
    pub fn pulse(&self) -> Pulse {
        let threads = [Handle::current(), self.threads.requests(), self.threads.streams()];
        Pulse {
            store: self.stores.mail.clone(),
            threads,
            readiness: self.readiness.clone(),
            mail_ended: self.mail_ended.clone(),
            shutdown: self.shutdown.clone(),
        }
    }
}

impl Pulse {
    /// Resolves once a task ran on each group of threads, and a commit that began now has ended,
    /// with or without success. So it proves that no group of threads hangs as a whole, and that
    /// the store answers. Fails, too, if the front end for mail has ended although nobody asked it
    /// to. It does not prove that mail is accepted: a database that is gone, or a full disk, is not
    /// mended by a restart, and clients are told to come back later.
    pub async fn beat(&self) -> io::Result<()> {
        if self.mail_ended.is_cancelled() && !self.shutdown.is_stopping() {
            return Err(io::Error::other("the front end for mail has ended"));
        }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rules::Rules;
    use crate::run::system_mint;
    use crate::store::Location;

    #[tokio::test]
    async fn it_fails_once_mail_has_ended_unless_a_stop_ended_it() {
        let (folder, mint) = (tempfile::tempdir().unwrap(), system_mint());
        let location = Location::Folder(folder.path().into());
        let rules = Rules::defaults().unwrap().store;
        let pulse = Pulse {
            store: Store::create(&location, &rules, mint.clone()).await.unwrap(),
            threads: [(); 3].map(|()| Handle::current()),
            readiness: Readiness::new(mint.clock().clone(), Duration::from_secs(1), Vec::new()),
            mail_ended: CancellationToken::new(),
            shutdown: Shutdown::default(),
        };
        pulse.beat().await.unwrap();
        pulse.mail_ended.cancel();
        assert!(pulse.beat().await.unwrap_err().to_string().contains("mail has ended"));
        pulse.shutdown.begin();
        pulse.beat().await.unwrap();
    }
}
