//! Sessions that work at the same time, and how long each of them waited.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

#[derive(Clone, Copy)]
pub struct Figures {
    pub per_second: f64,
    pub p50: Duration,
    pub p99: Duration,
}

impl Figures {
    /// Summarises waits that all ended within `time`.
    pub fn new(mut waits: Vec<Duration>, time: Duration) -> Self {
        assert!(!waits.is_empty(), "nothing was done in {time:?}");
        waits.sort_unstable();
        let at = |percent: usize| waits[(waits.len() - 1) * percent / 100];
        let count = u32::try_from(waits.len()).unwrap();
        let per_second = f64::from(count) / time.as_secs_f64();
        Self { per_second, p50: at(50), p99: at(99) }
    }
}

/// Runs `work` in so many sessions, one call after the other in each; `work` returns how long it
/// waited. Calls that end during the warm-up, or later than `time` after it, are not counted.
pub async fn measure<W, F>(sessions: usize, warm_up: Duration, time: Duration, work: W) -> Figures
where
    W: Fn() -> F + Clone + Send + 'static,
    F: Future<Output = Duration> + Send,
{
    let begin = Instant::now() + warm_up;
    let end = begin + time;
    let mut running = JoinSet::new();
    for _ in 0..sessions {
        let work = work.clone();
        running.spawn(async move {
            let mut waits = Vec::new();
            loop {
                let wait = work().await;
                let now = Instant::now();
                if now >= end {
                    return waits;
                }
                if now >= begin {
                    waits.push(wait);
                }
            }
        });
    }
    let waits = running.join_all().await.concat();
    Figures::new(waits, time)
}
