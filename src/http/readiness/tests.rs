use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tokio::sync::Semaphore;

use crate::http::readiness::*;

/// A check whose results the test permits, and a clock that the test moves.
struct Scene {
    readiness: Readiness,
    asked: Arc<AtomicUsize>,
    most_at_once: Arc<AtomicUsize>,
    /// Each permit lets one check finish.
    gate: Arc<Semaphore>,
    well: Arc<AtomicBool>,
    millis: Arc<AtomicI64>,
}

impl Scene {
    fn new() -> Self {
        Self::patient(Duration::from_secs(60))
    }

    /// A check with this patience.
    fn patient(patience: Duration) -> Self {
        let [asked, most_at_once, under_way] = [(); 3].map(|()| Arc::<AtomicUsize>::default());
        let (gate, well) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicBool::new(true)));
        let millis = Arc::new(AtomicI64::new(0));
        let read = Arc::clone(&millis);
        let clock = Clock::new(move || Timestamp::from_millis(read.load(Ordering::SeqCst)));
        let shared = (Arc::clone(&asked), Arc::clone(&most_at_once), Arc::clone(&gate));
        let state = Arc::clone(&well);
        let check = Check::new("reading", move || {
            let ((asked, most, gate), well) = (shared.clone(), Arc::clone(&state));
            let under_way = Arc::clone(&under_way);
            async move {
                asked.fetch_add(1, Ordering::SeqCst);
                let now = under_way.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                gate.acquire().await.unwrap().forget();
                under_way.fetch_sub(1, Ordering::SeqCst);
                let fault = || Fault { cause: "no space", detail: "inside".into() };
                if well.load(Ordering::SeqCst) { Ok(()) } else { Err(fault()) }
            }
        });
        let readiness = Readiness::new(clock, patience, vec![check]);
        Self { readiness, asked, most_at_once, gate, well, millis }
    }

    /// The reported cause of the check, and since when.
    async fn told(&self) -> (Option<&'static str>, i64) {
        let told = self.readiness.check(false).await;
        let [told] = &told[..] else { panic!("{told:?}") };
        assert_eq!(told.name, "reading");
        (told.fault.as_ref().map(|fault| fault.cause), told.since.millis())
    }

    async fn is_ready(&self) -> bool {
        self.told().await.0.is_none()
    }

    /// Returns once this many checks were started.
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
        let asking = join_all((0..50).map(|_| scene.is_ready()));
        let (answers, ()) = tokio::join!(asking, async {
            scene.until_asked(round).await;
            scene.gate.add_permits(1);
        });
        assert!(answers.iter().all(|answer| *answer == well), "{answers:?}");
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
        // The clock is set back.
        (1999, false, false, 4),
    ] {
        scene.millis.store(millis, Ordering::SeqCst);
        scene.well.store(well, Ordering::SeqCst);
        assert_eq!(scene.is_ready().await, told, "{millis}");
        assert_eq!(scene.asked(), asked, "{millis}");
    }
}

/// A client that asks and disconnects again and again starts one check.
#[tokio::test]
async fn a_question_goes_on_without_who_has_asked_it() {
    let scene = Scene::new();
    for _ in 0..20 {
        assert!(scene.readiness.check(false).now_or_never().is_none());
        scene.until_asked(1).await;
    }
    assert_eq!(scene.asked(), 1);
    let (answer, ()) = tokio::join!(scene.is_ready(), async {
        scene.gate.add_permits(1);
    });
    assert_eq!((answer, scene.asked()), (true, 1));
}

/// A check without a result is reported as such, is not started twice, and its result counts once
/// it comes.
#[tokio::test]
async fn what_does_not_answer_is_said_so_and_waited_for_by_one() {
    let scene = Scene::patient(Duration::from_millis(1));
    for millis in [1000, 2000, 3000] {
        scene.millis.store(millis, Ordering::SeqCst);
        assert_eq!(scene.told().await, (Some(SILENT), 1000));
        assert_eq!(scene.asked(), 1);
    }
    scene.gate.add_permits(1);
    let mut millis = 3000;
    let answered = async {
        loop {
            millis += 1000;
            scene.millis.store(millis, Ordering::SeqCst);
            match scene.told().await {
                (Some(SILENT), 1000) => tokio::task::yield_now().await,
                told => break told,
            }
        }
    };
    let told = tokio::time::timeout(Duration::from_secs(20), answered).await.unwrap();
    assert_eq!((told, scene.asked()), ((None, millis), 1));
}

/// `since` stays as long as the cause does; a new pass is a change, too.
#[tokio::test]
async fn each_check_says_since_when() {
    let scene = Scene::new();
    scene.gate.add_permits(9);
    for (millis, well, since) in [
        (1000, true, 0),
        (2000, false, 2000),
        (3000, false, 2000),
        (4000, true, 4000),
        (5000, true, 4000),
        (6000, false, 6000),
    ] {
        scene.millis.store(millis, Ordering::SeqCst);
        scene.well.store(well, Ordering::SeqCst);
        assert_eq!(scene.told().await, ((!well).then_some("no space"), since), "{millis}");
    }
}

/// Passes at `millis`; later checks never finish.
async fn held(millis: i64) -> Scene {
    let mut scene = Scene::new();
    scene.gate.add_permits(1);
    scene.millis.store(millis, Ordering::SeqCst);
    assert!(scene.is_ready().await);
    scene.readiness.patience = Duration::from_millis(1);
    scene
}

#[tokio::test]
async fn a_check_that_held_lately_is_believed_for_a_moment_while_it_is_slow() {
    // The time when a run begins, and the time of the last request.
    for (begins, last, cause) in [
        (2000, 2000, None),
        (2000, 4999, None),
        (2000, 5000, Some(SILENT)),
        (15_999, 18_998, None),
        (15_999, 18_999, Some(SILENT)),
        (16_000, 16_000, Some(SILENT)),
    ] {
        let scene = held(1000).await;
        let mut told = (None, 0);
        for millis in [begins, last] {
            scene.millis.store(millis, Ordering::SeqCst);
            told = scene.told().await;
        }
        let since = if cause.is_some() { last } else { 0 };
        assert_eq!((told, scene.asked()), ((cause, since), 2), "{begins} {last}");
    }
}

/// A good result is kept only while the run has none: a failure is reported at once.
#[tokio::test]
async fn a_check_that_held_lately_and_fails_is_said_at_once() {
    let scene = Scene::new();
    scene.gate.add_permits(2);
    assert!(scene.is_ready().await);
    scene.well.store(false, Ordering::SeqCst);
    scene.millis.store(1000, Ordering::SeqCst);
    assert_eq!(scene.told().await, (Some("no space"), 1000));
    // A check that has failed since then no longer counts as passed.
    let mut scene = scene;
    scene.readiness.patience = Duration::from_millis(1);
    scene.millis.store(2000, Ordering::SeqCst);
    assert_eq!(scene.told().await, (Some(SILENT), 2000));
}

#[tokio::test]
async fn a_good_word_that_is_dear_holds_and_a_bad_one_does_not() {
    let mut scene = Scene::new();
    let checks = Arc::get_mut(&mut scene.readiness.checks).unwrap();
    checks[0].holds = Duration::from_secs(30);
    scene.gate.add_permits(9);
    for (millis, well, told, asked) in [
        (0, true, true, 1),
        (29_999, false, true, 1),
        (31_000, false, false, 2),
        (32_000, false, false, 3),
        (33_000, true, true, 4),
        (62_999, false, true, 4),
        (64_000, false, false, 5),
    ] {
        scene.millis.store(millis, Ordering::SeqCst);
        scene.well.store(well, Ordering::SeqCst);
        assert_eq!((scene.is_ready().await, scene.asked()), (told, asked), "{millis}");
    }
}
