//! `kill -9` at any moment loses no acknowledged message, doubles none, and announces none that
//! is not stored (contract §2.2; threats §3.7 K1 to K4).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gatepost::app::tenancy::Tenancy;
use gatepost::rules::Rules;
use gatepost::run;
use gatepost::shutdown::Shutdown;
use gatepost::store::{Location, Store};
use gatepost::testkit::house::House;
use gatepost::testkit::receiver::Receiver;
use gatepost::testkit::smtp_client::{Transaction, deliver};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::support::process::Server;
use crate::support::{PATIENCE, all_messages, letter, listen, local_dns, signer, store_rules};

const MESSAGES: usize = 2_000;
const SENDERS: usize = 8;
/// The server dies whenever this many more messages have been acknowledged, with messages of the
/// other senders at every stage of their way.
const KILL_EVERY: usize = 180;

/// What the senders share.
struct Mailers {
    letters: Vec<Vec<u8>>,
    next: AtomicUsize,
    /// Where the server is now; `None` while it is dead.
    server: watch::Receiver<Option<SocketAddr>>,
    acknowledged: watch::Sender<usize>,
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let helpers = Shutdown::default();
    let dns = local_dns(&helpers).await;
    let mint = run::system_mint();
    let receiver = Receiver::start(mint.clock().clone()).await.unwrap();
    let store =
        Store::create(&Location::Folder(folder.path().into()), &store_rules(), mint.clone())
            .await
            .unwrap();
    let access = Arc::new(Rules::defaults().unwrap().access);
    let tenancy = Tenancy::new(store.clone(), mint, Arc::clone(&access));
    let house = House::build(&tenancy).await.unwrap();
    let key = tenancy.create_key(house.organization.id, "test").await.unwrap().token;
    receiver.trust(&listen(&store, access, &house, &receiver).await);
    store.close().await;

    let (server_now, server) = watch::channel(None);
    let signer = signer();
    let letters = (0..MESSAGES)
        .map(|number| signer.sign(letter(&format!("message {number}")).as_bytes()).unwrap())
        .collect();
    let acknowledged = watch::Sender::new(0);
    let mut progress = acknowledged.subscribe();
    let mailers = Arc::new(Mailers { letters, next: AtomicUsize::new(0), server, acknowledged });
    let mut senders = JoinSet::new();
    for _ in 0..SENDERS {
        senders.spawn(send_all(Arc::clone(&mailers)));
    }

    let mut kills = 0;
    let mut goal = KILL_EVERY;
    let last = loop {
        let server = Server::start(folder.path(), dns.addr()).await;
        server_now.send_replace(Some(server.smtp));
        let wanted = goal.min(MESSAGES);
        // A sender that failed would otherwise be waited for in silence.
        let reached = timeout(PATIENCE, progress.wait_for(|count| *count >= wanted)).await;
        // What it borrows would keep the senders from counting.
        let reached = reached.map(drop);
        assert!(reached.is_ok(), "{wanted} messages were not acknowledged in time");
        if wanted == MESSAGES {
            break server;
        }
        server_now.send_replace(None);
        server.kill().await;
        kills += 1;
        goal += KILL_EVERY;
    };
    while let Some(done) = senders.join_next().await {
        done.unwrap();
    }
    assert!(kills >= 10, "killed {kills} times only");

    let stored = all_messages(last.http, &key).await;
    assert_stored_exactly_once(&stored);
    let uuids: BTreeSet<String> = stored.iter().map(|m| text(m, "uuid")).collect();
    let announced = everything_announced(&receiver, &uuids).await;
    assert_eq!(announced, uuids, "an event without its message, or a message without its event");
    assert_eq!(last.terminate().await, 0);
    assert!(helpers.finish(PATIENCE).await);
}

/// Takes the next message until there is none, and sends it until it is acknowledged.
async fn send_all(mailers: Arc<Mailers>) {
    let mut server = mailers.server.clone();
    let to = ["support@agents.example".to_owned()];
    loop {
        let number = mailers.next.fetch_add(1, Ordering::SeqCst);
        let Some(raw) = mailers.letters.get(number) else { return };
        loop {
            let address = server.wait_for(Option::is_some).await.unwrap().unwrap();
            let transaction =
                Transaction { helo: "client.example", from: "alice@good.example", to: &to, raw };
            // A connection that broke tells nothing: the message may be stored or not.
            match deliver(address, &transaction).await {
                Ok(replies) if replies.accepted() => break,
                Ok(replies) => assert!(
                    replies.settling().starts_with('4'),
                    "refused for good: {}",
                    replies.settling()
                ),
                Err(_) => {}
            }
        }
        mailers.acknowledged.send_modify(|count| *count += 1);
    }
}

fn assert_stored_exactly_once(stored: &[Value]) {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for message in stored {
        *times.entry(text(&message["metadata"], "emailSubject")).or_default() += 1;
    }
    for number in 0..MESSAGES {
        let subject = format!("message {number}");
        assert_eq!(times.get(&subject), Some(&1), "{subject} was acknowledged");
    }
    assert_eq!(stored.len(), MESSAGES);
}

/// Waits until every stored message has been announced, and answers all that were.
async fn everything_announced(receiver: &Receiver, wanted: &BTreeSet<String>) -> BTreeSet<String> {
    let mut requests = wanted.len();
    loop {
        let arrived = receiver.wait_for(requests, PATIENCE).await.unwrap();
        let mut announced = BTreeSet::new();
        for request in &arrived {
            assert!(request.verified, "a signature is wrong");
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            announced.insert(text(&body, "messageUuid"));
        }
        if announced.is_superset(wanted) {
            return announced;
        }
        // Some came twice: wait for at least one more.
        requests = arrived.len() + 1;
    }
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}
