use super::*;

fn servers() -> Servers {
    // Nothing listens there.
    let one = || PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(1);
    Servers::new(vec![one(), one()], true, Duration::from_millis(1))
}

#[test]
fn the_latest_timeline_wins_and_of_one_timeline_the_present_place() {
    let servers = servers();
    let prefers = |place, timeline, ahead| servers.prefers(place, timeline, ahead);
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

#[tokio::test]
async fn who_waits_makes_all_servers_be_asked_again_and_again() {
    let servers = servers();
    let waiting = servers.answer(servers.moves(), std::future::pending::<Result<(), _>>());
    let searches = async {
        for _ in 0..3 {
            servers.0.wanted.notified().await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(60), searches);
    tokio::select! {
        _ = waiting => panic!("there was no answer"),
        done = in_time => assert!(done.is_ok()),
    }
}

/// As during a search: nobody waits for the wish at that moment.
#[tokio::test]
async fn what_is_sought_while_nobody_listens_is_sought_later() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let one = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(port);
    let servers = Servers::new(vec![one], true, Duration::from_secs(60));
    servers.seek();
    let following = servers.weak().follow(Arc::clone(&servers.0.wanted));
    let asked = tokio::time::timeout(Duration::from_secs(60), listener.accept());
    tokio::select! {
        () = following => panic!("it asked nobody"),
        asked = asked => assert!(asked.unwrap().is_ok()),
    }
}
