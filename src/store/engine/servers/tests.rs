use super::*;

fn servers() -> Servers {
    // Nothing listens there.
    let one = || PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(1);
    Servers::new(vec![one(), one()], true, Duration::from_millis(1))
}

#[test]
fn the_latest_timeline_wins_and_of_one_timeline_the_present_place() {
    let servers = servers();
    let prefers = |place, timeline, ahead| servers.found().prefers(place, timeline, ahead);
    assert!(prefers(0, 1, None) && !prefers(0, 1, Some(1)));
    servers.settle_at(1, 1);
    assert!(prefers(1, 1, Some(1)), "the present one was slower");
    assert!(!prefers(0, 1, Some(1)) && prefers(0, 2, Some(1)) && !prefers(1, 1, Some(2)));
}

#[test]
fn no_move_leads_to_an_earlier_timeline() {
    let servers = servers();
    servers.settle_at(0, 4);
    servers.settle_at(1, 5);
    let moves = servers.moves();
    servers.settle_at(0, 4);
    servers.settle_at(1, 5);
    assert_eq!((servers.moves(), servers.found().place), (moves, 1));
    assert!(servers.accept(0, 4).is_err() && servers.accept(0, 5).is_ok());
    assert!(!servers.is_current(Duration::from_secs(60)), "a connection from before");
}

/// The first search ends in vain, since all pools (none) are closed.
#[tokio::test]
async fn who_waits_makes_all_servers_be_asked_again_and_again() {
    let servers = servers();
    let waiting = servers.answer(servers.moves(), std::future::pending::<Result<(), _>>());
    let searches = async {
        for _ in 0..3 {
            while !servers.0.is_seeking.load(Ordering::SeqCst) {
                tokio::task::yield_now().await;
            }
            while servers.0.is_seeking.load(Ordering::SeqCst) {
                tokio::task::yield_now().await;
            }
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(60), searches);
    tokio::select! {
        _ = waiting => panic!("there was no answer"),
        done = in_time => assert!(done.is_ok()),
    }
}
