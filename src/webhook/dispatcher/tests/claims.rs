//! Claims: when the dispatcher asks for them, how many wait, and which are given back.

use super::*;

/// A backlog is worked off by as many attempts at a time as the rules allow.
#[tokio::test]
async fn a_backlog_of_one_destination_is_bounded_and_drains() {
    let rules = "[dispatcher]\nconcurrency_per_destination = 3\npoll_millis = 60000\n";
    let scene = Scene::new(rules).await;
    let destination = scene.destination(1);
    let ids: Vec<_> = (1..=300).map(|n| scene.queue.add(n, &destination)).collect();
    scene.run();
    for id in ids {
        scene.queue.until(id, |row| row.state == State::Delivered).await;
    }
    let received = scene.receiver.received();
    assert_eq!(received.len(), 300);
    assert!(received.iter().all(|request| request.verified));
}

/// There are more deliveries than may wait; the clock stands still, so no lease ends.
#[tokio::test]
async fn backlogs_beside_each_other_leave_no_claim_to_its_lease() {
    let scene =
        Scene::new("[dispatcher]\nconcurrency = 80\nconcurrency_per_destination = 2\n").await;
    let to = |n| scene.destination(1 + n % 10);
    let ids: Vec<_> = (1..=600).map(|n| scene.queue.add(n, &to(n))).collect();
    scene.run();
    for id in ids {
        scene.queue.until(id, |row| row.state == State::Delivered).await;
    }
    assert_eq!(scene.receiver.received().len(), 600);
}

/// A slow queue delays nothing that was claimed before.
#[tokio::test]
async fn attempts_go_on_while_the_queue_is_asked() {
    let rules = "[dispatcher]\nclaim_batch = 4\nconcurrency_per_destination = 1\n";
    let scene = Scene::new(rules).await;
    let ids: Vec<_> = (1..=8).map(|n| scene.queue.add(n, &scene.destination(1))).collect();
    scene.queue.answers.send_replace(1);
    scene.run();
    for id in &ids[..4] {
        scene.queue.until(*id, |row| row.state == State::Delivered).await;
    }
    assert_eq!(scene.queue.read(ids[4], |row| row.state), State::Pending);
    scene.queue.answers.send_replace(usize::MAX);
    for id in &ids[4..] {
        scene.queue.until(*id, |row| row.state == State::Delivered).await;
    }
}

#[tokio::test]
async fn a_failing_queue_is_asked_again_and_costs_no_event() {
    let scene = Scene::new("[dispatcher]\npoll_millis = 10\n").await;
    scene.queue.failing_claims.store(3, Ordering::SeqCst);
    scene.queue.failing_finishes.store(2, Ordering::SeqCst);
    let id = scene.queue.add(1, &scene.destination(1));
    scene.run();
    scene.queue.until(id, |row| row.state == State::Delivered).await;
    assert_eq!(scene.receiver.received().len(), 1);
}

/// The process is to end, and no attempt to record anything keeps it.
#[tokio::test]
async fn a_queue_that_is_lost_is_not_waited_for() {
    let scene = Scene::new("[dispatcher]\nlease_seconds = 120\n").await;
    scene.queue.is_lost.store(true, Ordering::SeqCst);
    let id = scene.queue.add(1, &scene.destination(1));
    scene.run();
    scene.arrived(1).await;
    assert!(scene.shutdown.finish(SOON).await);
    assert_eq!(scene.queue.read(id, |row| row.state), State::Pending);
}

#[tokio::test]
async fn a_soft_stop_gives_back_what_was_not_begun() {
    let scene = Scene::new("").await;
    scene.receiver.otherwise(Reply::status(200).after(Duration::from_secs(2)));
    let ids: Vec<_> = (1..=20).map(|n| scene.queue.add(n, &scene.destination(1))).collect();
    scene.run();
    scene.arrived(1).await;
    scene.shutdown.begin();
    assert!(scene.shutdown.finish(SOON).await);
    for id in &ids[1..] {
        let (state, leased) = scene.queue.read(*id, |row| (row.state, row.leased_until.is_some()));
        assert_eq!((state, leased), (State::Pending, false));
    }
}

#[tokio::test]
async fn a_soft_stop_gives_back_what_is_on_its_way_from_the_queue() {
    let scene = Scene::new("").await;
    let id = scene.queue.add(1, &scene.destination(1));
    scene.queue.answers.send_replace(0);
    scene.run();
    scene.queue.until(id, |row| row.leased_until.is_some()).await;
    scene.shutdown.begin();
    scene.queue.answers.send_replace(usize::MAX);
    assert!(scene.shutdown.finish(SOON).await);
    let (state, leased) = scene.queue.read(id, |row| (row.state, row.leased_until.is_some()));
    assert_eq!((state, leased), (State::Pending, false));
    assert!(scene.receiver.received().is_empty());
}

/// The next delivery of a room, and those that wait for a probe, do not wait for the poll.
#[tokio::test]
async fn what_an_end_lets_go_is_claimed_at_once() {
    for ordered in [true, false] {
        let scene = Scene::new("[dispatcher]\npoll_millis = 60000\n").await;
        let mut destination = scene.destination(1);
        destination.wants.ordered = ordered;
        destination.health.rests_until = (!ordered).then(|| scene.hands.clock().now());
        let ids: Vec<_> = (1..=3).map(|n| scene.queue.add(n, &destination)).collect();
        scene.run();
        for id in ids {
            scene.queue.until(id, |row| row.state == State::Delivered).await;
        }
    }
}

/// A claim that arrives late is not begun: its lease may end before its attempt does.
#[tokio::test]
async fn claims_that_come_too_late_are_given_back() {
    let rules = "[attempt]\ntimeout_seconds = 1\n\
                 [dispatcher]\nlease_seconds = 2\npoll_millis = 100\n";
    let scene = Scene::new(rules).await;
    *scene.queue.first_claim_takes.lock().unwrap() = Duration::from_millis(1100);
    let id = scene.queue.add(1, &scene.destination(1));
    scene.run();
    scene.queue.until(id, |row| row.state == State::Delivered).await;
    assert!(scene.queue.read(id, |row| row.claim.fence) > 1);
    assert_eq!(scene.receiver.received().len(), 1);
}

/// A queue that is slow to take claims back delays no other destination.
#[tokio::test]
async fn claims_are_given_back_beside_the_attempts() {
    let scene = Scene::new("[dispatcher]\npoll_millis = 60000\n").await;
    scene.receiver.script([Reply::status(410)]);
    scene.queue.takes_back.send_replace(false);
    scene.queue.halts.store(true, Ordering::SeqCst);
    let gone: Vec<_> = (1..=3).map(|n| scene.queue.add(n, &scene.destination(1))).collect();
    scene.run();
    scene.queue.until(gone[0], |row| row.attempts.len() == 1).await;
    scene.queue.halts.store(false, Ordering::SeqCst);
    let other = scene.queue.add(4, &scene.destination(2));
    scene.bell.wake();
    scene.queue.until(other, |row| row.state == State::Delivered).await;
    scene.queue.takes_back.send_replace(true);
}

/// Waiting claims of a destination that begins to rest are given back: they lose no attempt.
#[tokio::test]
async fn what_was_claimed_for_one_that_rests_is_given_back() {
    let scene = Scene::new("[dispatcher]\npoll_millis = 60000\n").await;
    scene.receiver.otherwise(Reply::status(500));
    scene.queue.halts.store(true, Ordering::SeqCst);
    let ids: Vec<_> = (1..=20).map(|n| scene.queue.add(n, &scene.destination(1))).collect();
    scene.run();
    for id in &ids {
        scene.queue.until(*id, |row| row.leased_until.is_none() && row.claim.fence == 1).await;
    }
    let attempts = ids.iter().map(|id| scene.queue.read(*id, |row| row.attempts.len()));
    assert_eq!(attempts.sum::<usize>(), 1);
    assert_eq!(scene.receiver.received().len(), 1);
}

/// Claims on their way from the queue at that moment lose no attempt either.
#[tokio::test]
async fn claims_under_way_for_one_that_begins_to_rest_are_given_back() {
    let rules = "[dispatcher]\nclaim_batch = 6\nconcurrency_per_destination = 1\n\
                 poll_millis = 60000\n";
    let scene = Scene::new(rules).await;
    // When two of six are left, the next six are claimed; the fifth fails.
    scene.receiver.script(std::iter::repeat_with(|| Reply::status(200)).take(4));
    scene.receiver.otherwise(Reply::status(500));
    let ids: Vec<_> = (1..=12).map(|n| scene.queue.add(n, &scene.destination(1))).collect();
    // The second claim passes the destination over, because its pace is not known yet.
    scene.queue.claims_before_halt.store(3, Ordering::SeqCst);
    scene.queue.answers.send_replace(2);
    scene.queue.halts.store(true, Ordering::SeqCst);
    scene.run();
    scene.queue.until(ids[5], |row| row.leased_until.is_none() && row.claim.fence == 1).await;
    scene.queue.answers.send_replace(usize::MAX);
    for id in &ids[6..] {
        scene.queue.until(*id, |row| row.leased_until.is_none() && row.claim.fence == 1).await;
    }
    assert_eq!(scene.receiver.received().len(), 5);
}

/// A gateway without a recent beat begins nothing that it had claimed: others may have taken over.
/// Claims under a former name are given back.
#[tokio::test]
async fn what_was_claimed_is_begun_under_the_same_name_alone() {
    let scene = Scene::new("[dispatcher]\npoll_millis = 10\n").await;
    scene.receiver.script([Reply::status(200).after(Duration::from_millis(500))]);
    let ids: Vec<_> = (1..=20).map(|n| scene.queue.add(n, &scene.destination(1))).collect();
    scene.run();
    scene.arrived(1).await;
    assert!(ids.iter().all(|id| scene.queue.read(*id, |row| row.leased_until.is_some())));
    scene.queue.holder.store(0, Ordering::SeqCst);
    scene.queue.until(ids[0], |row| row.state == State::Delivered).await;
    let looks = scene.queue.looks.load(Ordering::SeqCst);
    let looking = async {
        while scene.queue.looks.load(Ordering::SeqCst) < looks + 9 {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, looking).await.expect("it asks under which name it may go on");
    assert_eq!(scene.receiver.received().len(), 1);
    scene.queue.holder.store(2, Ordering::SeqCst);
    for id in &ids[1..] {
        scene.queue.until(*id, |row| row.state == State::Delivered).await;
        assert_eq!(scene.queue.read(*id, |row| row.claim.fence), 2, "claimed anew");
    }
    assert_eq!(scene.receiver.received().len(), ids.len());
}

#[tokio::test]
async fn an_idle_dispatcher_does_not_spin() {
    let scene = Scene::new("[dispatcher]\npoll_millis = 60000\n").await;
    let slow = scene.destination(1);
    scene.receiver.otherwise(Reply::status(200).after(Duration::from_secs(600)));
    scene.queue.add(1, &slow);
    scene.run();
    scene.arrived(1).await;
    // Due, but its destination is busy.
    scene.queue.add(2, &slow);
    scene.bell.wake();
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert!(scene.queue.claims.load(Ordering::SeqCst) <= 3);
}
