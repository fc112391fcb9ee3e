//! The end of the program as a value: passed down, never global.
//!
//! Soft stop: take in nothing new, finish work under way. Hard stop: drop it, after a last word
//! where the protocol has one. All long-lived tasks are spawned here, so that the end waits for
//! them.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Passed to every task that lives longer than a request. A panic ends its own task alone; that of a
/// [`Shutdown::vital`] one is told to the program.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    soft: CancellationToken,
    hard: CancellationToken,
    failed: CancellationToken,
    tasks: TaskTracker,
}

/// Cancels its token where it is dropped by a panic.
struct Vital(CancellationToken);

impl Drop for Vital {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.cancel();
        }
    }
}

impl Shutdown {
    /// Runs `task` until it ends or the hard stop comes.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn_with_last_word(Duration::ZERO, task);
    }

    /// Runs `task` until it ends or the soft stop comes.
    pub fn spawn_until_soft_stop(&self, task: impl Future<Output = ()> + Send + 'static) {
        let soft = self.soft.clone();
        self.spawn(async move {
            tokio::select! {
                () = task => {}
                () = soft.cancelled() => {}
            }
        });
    }

    /// Runs `task` on other threads until it ends or the hard stop comes.
    pub fn spawn_on(&self, threads: &Handle, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(self.until_the_hard_stop(Duration::ZERO, task), threads);
    }

    /// Runs `task`, which may take `patience` to end by itself after the hard stop. It learns of
    /// the stop by [`Shutdown::hard`].
    pub fn spawn_with_last_word(
        &self,
        patience: Duration,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        self.tasks.spawn(self.until_the_hard_stop(patience, task));
    }

    fn until_the_hard_stop(
        &self,
        patience: Duration,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let hard = self.hard.clone();
        async move {
            let over = async {
                hard.cancelled().await;
                if !patience.is_zero() {
                    tokio::time::sleep(patience).await;
                }
            };
            tokio::select! {
                () = task => {}
                () = over => {}
            }
        }
    }

    /// A task without which the process must not go on: mail that nobody delivers, for example, would
    /// only pile up. None that reads what strangers wrote: they must not end the process.
    pub fn vital<F: Future>(&self, task: F) -> impl Future<Output = F::Output> + use<F> {
        let vital = Vital(self.failed.clone());
        // Boxed, as some are large: else each call on the way to the runtime has them on its stack.
        let task = Box::pin(task);
        async move {
            let _vital = vital;
            task.await
        }
    }

    /// Resolves when a vital task has panicked.
    pub async fn failed(&self) {
        self.failed.cancelled().await;
    }

    /// Resolves at the hard stop.
    pub async fn hard(&self) {
        self.hard.cancelled().await;
    }

    /// Resolves at the soft stop.
    pub async fn soft(&self) {
        self.soft.cancelled().await;
    }

    pub fn is_stopping(&self) -> bool {
        self.soft.is_cancelled()
    }

    pub fn begin(&self) {
        self.soft.cancel();
        self.tasks.close();
    }

    /// Begins the soft stop and waits for every task, those spawned meanwhile too. After `grace`,
    /// the hard stop drops the rest. Returns whether all tasks ended before it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_panic_of_a_vital_task_is_told_and_that_of_another_is_not() {
        let shutdown = Shutdown::default();
        shutdown.spawn(async { panic!("of a session") });
        shutdown.spawn(shutdown.vital(async {}));
        shutdown.begin();
        shutdown.tasks.wait().await;
        assert!(!shutdown.failed.is_cancelled());
        shutdown.spawn(shutdown.vital(async { panic!("of the deliveries") }));
        shutdown.failed().await;
    }
}
