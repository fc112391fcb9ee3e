//! The end of the program as a value: passed down, never global.
//!
//! Soft stop: take in nothing new, finish what is under way. Hard stop: drop it. Whoever runs a
//! task spawns it here, so that the end waits for all of them.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Handed to every task that lives longer than a request.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    soft: CancellationToken,
    hard: CancellationToken,
    tasks: TaskTracker,
}

impl Shutdown {
    /// Runs `task` until it ends or the hard stop comes.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(self.until_the_hard_stop(task));
    }

    /// The same on other threads.
    pub fn spawn_on(&self, threads: &Handle, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(self.until_the_hard_stop(task), threads);
    }

    fn until_the_hard_stop(
        &self,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let hard = self.hard.clone();
        async move {
            tokio::select! {
                () = task => {}
                () = hard.cancelled() => {}
            }
        }
    }

    /// Resolves when nothing new may be taken in.
    pub async fn soft(&self) {
        self.soft.cancelled().await;
    }

    /// Whether the soft stop has come.
    pub fn is_stopping(&self) -> bool {
        self.soft.is_cancelled()
    }

    /// Begins the soft stop.
    pub fn begin(&self) {
        self.soft.cancel();
        self.tasks.close();
    }

    /// Begins the soft stop and waits for every task; after `grace` the hard stop ends the rest.
    /// Answers whether all of them finished by themselves.
    pub async fn finish(&self, grace: Duration) -> bool {
        self.begin();
        let in_time = tokio::time::timeout(grace, self.tasks.wait()).await.is_ok();
        if !in_time {
            self.hard.cancel();
            self.tasks.wait().await;
        }
        in_time
    }
}
