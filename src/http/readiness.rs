//! Whether the gateway can work at all, as `/readyz` tells everybody: so that a stranger without a
//! key makes no work, however often it asks, all that ask share one question to the store.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::domain::clock::{Clock, Timestamp};

/// An answer is told again for so long. Whoever watches a gateway asks every few seconds.
const FRESH: Duration = Duration::from_secs(1);

type Answering = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// When it came, and what it was.
type Answer = (Timestamp, Result<(), String>);

/// Whether the gateway can work at all: asked by `/readyz`.
#[derive(Clone)]
pub struct Readiness {
    check: Arc<dyn Fn() -> Answering + Send + Sync>,
    clock: Clock,
    /// The last answer and when it came; locked while a question is under way.
    last: Arc<Mutex<Option<Answer>>>,
}

impl Readiness {
    /// `check` answers why not, for the log; its answers grow old by `clock`.
    pub fn new<F, R>(clock: Clock, check: F) -> Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), String>> + Send + 'static,
    {
        Self { check: Arc::new(move || Box::pin(check())), clock, last: Arc::default() }
    }

    /// The answer of the last second, or of the question that is under way, or of a new one.
    pub(crate) async fn check(&self) -> Result<(), String> {
        let mut last = Arc::clone(&self.last).lock_owned().await;
        let now = self.clock.steady();
        if let Some((at, answer)) = &*last
            // A clock that was set back would make it last.
            && (*at..at.plus(FRESH)).contains(&now)
        {
            return answer.clone();
        }
        let (answering, clock) = ((self.check)(), self.clock.clone());
        // To its end, whoever has asked: one that hangs up would make the next one ask anew.
        let asking = tokio::spawn(async move {
            let answer = answering.await;
            *last = Some((clock.steady(), answer.clone()));
            answer
        });
        asking.await.unwrap_or_else(|error| Err(error.to_string()))
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Readiness")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

    use futures_util::FutureExt as _;
    use futures_util::future::join_all;
    use tokio::sync::Semaphore;

    use super::*;

    /// A store that answers when it is let, and a clock that stands until it is moved.
    struct Scene {
        readiness: Readiness,
        asked: Arc<AtomicUsize>,
        most_at_once: Arc<AtomicUsize>,
        /// One permit lets one question be answered.
        gate: Arc<Semaphore>,
        well: Arc<AtomicBool>,
        millis: Arc<AtomicI64>,
    }

    impl Scene {
        fn new() -> Self {
            let [asked, most_at_once, under_way] = [(); 3].map(|()| Arc::<AtomicUsize>::default());
            let (gate, well) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicBool::new(true)));
            let millis = Arc::new(AtomicI64::new(0));
            let read = Arc::clone(&millis);
            let clock = Clock::new(move || Timestamp::from_millis(read.load(Ordering::SeqCst)));
            let shared = (Arc::clone(&asked), Arc::clone(&most_at_once), Arc::clone(&gate));
            let state = Arc::clone(&well);
            let readiness = Readiness::new(clock, move || {
                let ((asked, most, gate), well) = (shared.clone(), Arc::clone(&state));
                let under_way = Arc::clone(&under_way);
                async move {
                    asked.fetch_add(1, Ordering::SeqCst);
                    let now = under_way.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    gate.acquire().await.unwrap().forget();
                    under_way.fetch_sub(1, Ordering::SeqCst);
                    if well.load(Ordering::SeqCst) { Ok(()) } else { Err("no answer".into()) }
                }
            });
            Self { readiness, asked, most_at_once, gate, well, millis }
        }

        /// Comes back once so many questions were asked.
        async fn until_asked(&self, times: usize) {
            let asked = async {
                while self.asked.load(Ordering::SeqCst) < times {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(Duration::from_secs(20), asked).await.expect("it is asked");
        }

        fn asked(&self) -> usize {
            assert!(self.most_at_once.load(Ordering::SeqCst) <= 1, "one question at a time");
            self.asked.load(Ordering::SeqCst)
        }
    }

    #[tokio::test]
    async fn all_who_ask_at_the_same_time_share_one_question() {
        let scene = Scene::new();
        for (round, well) in [(1, true), (2, false)] {
            scene.well.store(well, Ordering::SeqCst);
            let asking = join_all((0..50).map(|_| scene.readiness.check()));
            let (answers, ()) = tokio::join!(asking, async {
                scene.until_asked(round).await;
                scene.gate.add_permits(1);
            });
            assert!(answers.iter().all(|answer| answer.is_ok() == well), "{answers:?}");
            assert_eq!(scene.asked(), round);
            scene.millis.fetch_add(1000, Ordering::SeqCst);
        }
    }

    #[tokio::test]
    async fn an_answer_is_told_again_for_a_second() {
        let scene = Scene::new();
        scene.gate.add_permits(9);
        for (millis, well, told, asked) in [
            (0, true, true, 1),
            (0, false, true, 1),
            (999, false, true, 1),
            (1000, false, false, 2),
            (1999, true, false, 2),
            (2000, true, true, 3),
            // Set back.
            (1999, false, false, 4),
        ] {
            scene.millis.store(millis, Ordering::SeqCst);
            scene.well.store(well, Ordering::SeqCst);
            assert_eq!(scene.readiness.check().await.is_ok(), told, "{millis}");
            assert_eq!(scene.asked(), asked, "{millis}");
        }
    }

    /// A client that asks and hangs up, again and again, makes one question.
    #[tokio::test]
    async fn a_question_goes_on_without_who_has_asked_it() {
        let scene = Scene::new();
        for _ in 0..20 {
            assert!(scene.readiness.check().now_or_never().is_none());
            scene.until_asked(1).await;
        }
        assert_eq!(scene.asked(), 1);
        let (answer, ()) = tokio::join!(scene.readiness.check(), async {
            scene.gate.add_permits(1);
        });
        assert_eq!((answer, scene.asked()), (Ok(()), 1));
    }
}
