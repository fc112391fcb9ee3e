//! Faults around the store: a full disk, an interrupted commit, two handles at once, a store of
//! another kind or version.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use gatepost::domain::audit::{Actor, Once, Who};
use gatepost::domain::clock::TimeRange;
use gatepost::domain::domain_name::DomainName;
use gatepost::domain::event::Category;
use gatepost::domain::id::AuditId;
use gatepost::domain::policy::Mode;
use gatepost::run;
use gatepost::store::{Commit, Committed, Location, NewDestination, Store, StoreError};
use sqlx::Executor as _;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::keys::{keep, key};
use super::scene::{
    Kind, Scene, account, address, at, by, database, destination, everything, open, subtree,
};
use crate::support::process::{GATEPOST, Server};
use crate::support::{PATIENCE, letter, local_dns, signer, store_rules};

on_both! {
    what_a_ready_store_does_it_does,
    a_commit_that_is_broken_off_leaves_all_or_nothing_and_a_sane_store,
    two_handles_on_one_folder_wait_for_each_other,
}

/// Readiness is a reading, a commit and a put; none of them leaves anything.
async fn what_a_ready_store_does_it_does(kind: Kind) {
    let scene = Scene::new(kind).await;
    let rules = store_rules();
    let opening = Store::open_within(&scene.location, &rules, run::system_mint(), Duration::ZERO);
    let store = opening.await.unwrap();
    store.check_trust().unwrap();
    store.check_commit().await.unwrap();
    store.check_originals().await.unwrap();
    store.check_commit().await.unwrap();
    store.close().await;
}

/// Loses the first try of each transaction that writes to one of these tables.
const LOSING: &str = "CREATE SEQUENCE tries;
    CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN
             IF nextval(''tries'') = 1 THEN
                 RAISE EXCEPTION ''lost'' USING ERRCODE = ''deadlock_detected'';
             END IF;
             RETURN NEW;
         END';
    CREATE TRIGGER lose BEFORE INSERT ON domains FOR EACH ROW EXECUTE FUNCTION lose();
    CREATE TRIGGER lose BEFORE INSERT ON audit_entries FOR EACH ROW EXECUTE FUNCTION lose();
    CREATE TRIGGER lose BEFORE INSERT ON idempotency_keys FOR EACH ROW EXECUTE FUNCTION lose();
    CREATE TRIGGER lose BEFORE INSERT ON destinations FOR EACH ROW EXECUTE FUNCTION lose();
    CREATE TRIGGER lose BEFORE UPDATE ON keys FOR EACH ROW EXECUTE FUNCTION lose();";

#[tokio::test]
async fn a_transaction_that_loses_a_deadlock_is_run_again() {
    let scene = Scene::new(Kind::Postgres).await;
    let (store, agent) = (&scene.store, &scene.agent);
    let used = key(agent, None);
    keep(store, &used, 1).await;
    let domain = DomainName::parse("new.example").unwrap();
    let actor = Actor::of(Who::Key { key: used.id, account: agent.id, member: None });
    let once = Once { digest: [1; 32], request: [2; 32], until: at(9) };
    let hook = destination(agent.id, Category::Agent, "https://a.example/");
    scene.execute(LOSING).await;
    for step in 0..5 {
        scene.execute("SELECT setval('tries', 1, false)").await;
        match step {
            0 => {
                let owner = store.claim_domain(&domain, agent.id, by(at(0))).await.unwrap();
                assert_eq!(owner, agent.id);
            }
            1 => {
                let id = AuditId(Uuid::nil());
                store.count_denials(id, actor.at(at(0)), "GET /", 1).await.unwrap();
            }
            2 => assert!(store.keep_answer(&once, Uuid::nil(), at(0), None).await.unwrap()),
            3 => assert!(store.record_key_use(used.id, at(1), at(0)).await.unwrap()),
            _ => {
                let made = store.insert_destination(&hook, 9, by(at(0))).await.unwrap();
                assert_eq!(made, NewDestination::Created);
            }
        }
        assert!(
            scene.count("SELECT last_value FROM tries").await > 1,
            "step {step}: none was lost"
        );
    }
}

#[tokio::test]
async fn nobody_else_can_read_the_store() {
    let scene = Scene::new(Kind::Sqlite).await;
    scene.deliver(&scene.agent, 0).await;
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&scene.path()), 0o700);
    for name in ["gatepost.db", "gatepost.db-wal", "gatepost.db-shm"] {
        assert_eq!(mode(&scene.path().join(name)), 0o600, "{name}");
    }
}

/// A session gives up waiting at any moment. The one writing connection must come back sane: the
/// commit is there whole or not at all, and the next one goes through.
async fn a_commit_that_is_broken_off_leaves_all_or_nothing_and_a_sane_store(kind: Kind) {
    let scene = Scene::new(kind).await;
    let mut finished = 0;
    for number in 0..200_u64 {
        let intake = scene.intake(&scene.agent, 0).await;
        let commit = Commit { intakes: vec![intake], now: at(0) };
        let patience = Duration::from_micros(number * 25);
        let ended = tokio::time::timeout(patience, scene.store.commit(&commit)).await;
        finished += i64::from(ended.is_ok_and(|done| done.is_ok()));
        if number % 20 == 0 {
            scene.deliver(&scene.agent, 1).await;
            finished += 1;
        }
    }
    scene.deliver(&scene.agent, 2).await;
    let stored = scene.count("SELECT COUNT(*) FROM messages").await;
    assert!(stored > finished, "{stored} stored, {finished} finished: none was broken off late");
    for table in ["records", "arrivals", "contents"] {
        // In one look: what nobody waits for any more may still be written.
        let sql =
            format!("SELECT (SELECT COUNT(*) FROM messages) - (SELECT COUNT(*) FROM {table})");
        assert_eq!(scene.count(sql.leak()).await, 0, "{table}");
    }
    assert_eq!(scene.count("SELECT COUNT(*) FROM contacts").await, 1);
    scene.store.close().await;
}

/// As `gatepost policy` beside `gatepost serve`: whoever comes second waits, nobody fails.
async fn two_handles_on_one_folder_wait_for_each_other(kind: Kind) {
    let scene = Arc::new(Scene::new(kind).await);
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let scene = Arc::clone(&scene);
        tasks.spawn(async move {
            for _ in 0..50 {
                // The other handle's changes make some decisions stale; those are decided again.
                loop {
                    let intake = scene.intake(&scene.agent, 0).await;
                    let commit = Commit { intakes: vec![intake], now: at(0) };
                    if scene.store.commit(&commit).await.unwrap() != Committed::Stale {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            }
        });
    }
    let (beside, agent) = (Arc::clone(&scene), scene.agent.id);
    tasks.spawn(async move {
        for number in 0..30 {
            let other = beside.open().await;
            let sender = [address(&format!("a{number}@good.example"))];
            let added = other.allow_senders(agent, &sender, None, 100, by(at(0))).await.unwrap();
            assert_eq!(added, Some((sender.to_vec(), number + 1)));
            other.set_mode(agent, Mode::Open, by(at(0))).await.unwrap();
            other.close().await;
        }
    });
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let found = scene
        .store
        .recent_messages(&subtree(&scene.agent), TimeRange::default(), &everything())
        .await
        .unwrap();
    assert_eq!(found.len(), 200);
    assert_eq!(scene.store.policy(agent).await.unwrap().unwrap().allowlist_count, 30);
}

#[tokio::test]
async fn a_store_of_another_kind_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let location = |name: &str| Location::Folder(folder.path().join(name));
    let missing =
        Store::open(&location("none"), &store_rules(), run::system_mint()).await.unwrap_err();
    assert!(matches!(missing, StoreError::Missing { .. }), "{missing:?}");
    assert!(!folder.path().join("none").exists());

    std::fs::create_dir(folder.path().join("text")).unwrap();
    let file = folder.path().join("text/gatepost.db");
    std::fs::write(&file, "not a database, but long enough to be taken for one".repeat(99))
        .unwrap();
    let before = std::fs::read(&file).unwrap();
    let text =
        Store::open(&location("text"), &store_rules(), run::system_mint()).await.unwrap_err();
    assert!(matches!(text, StoreError::Open { .. }), "{text:?}");
    assert_eq!(std::fs::read(&file).unwrap(), before);

    std::fs::write(folder.path().join("file"), "").unwrap();
    let file =
        Store::create(&location("file"), &store_rules(), run::system_mint()).await.unwrap_err();
    assert!(matches!(file, StoreError::Open { .. }), "{file:?}");
}

#[tokio::test]
async fn a_store_of_a_newer_version_is_not_touched() {
    let scene = Scene::new(Kind::Sqlite).await;
    scene.store.close().await;
    let mut database = database(&scene.path()).await;
    let newer = "INSERT INTO _sqlx_migrations
                     (version, description, installed_on, success, checksum, execution_time)
                 VALUES (9999, 'newer', 0, 1, x'00', 0)";
    database.execute(newer).await.unwrap();
    let location = Location::Folder(scene.path());
    let refused = Store::open(&location, &store_rules(), run::system_mint()).await.unwrap_err();
    assert!(matches!(refused, StoreError::Newer { .. }), "{refused:?}");
    assert!(refused.to_string().contains("newer"), "{refused}");
}

/// A server on a disk that was mounted read-only says so at the start; reading goes on.
#[tokio::test]
async fn a_store_that_cannot_be_written_to_is_noticed_at_the_start() {
    let scene = Scene::new(Kind::Sqlite).await;
    scene.store.check_writable().await.unwrap();
    scene.deliver(&scene.agent, 0).await;
    // The superuser of a test machine writes whatever the mode says: a trigger stands in for it.
    let refuse = "CREATE TRIGGER read_only BEFORE UPDATE ON user_ids
                  BEGIN SELECT RAISE (ABORT, 'read-only'); END";
    database(&scene.path()).await.execute(refuse).await.unwrap();
    scene.store.check_writable().await.unwrap_err();
    assert_eq!(scene.store.accounts(None).await.unwrap().len(), 5);
}

#[tokio::test]
async fn an_empty_file_left_by_a_killed_init_becomes_a_store() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("gatepost.db"), "").unwrap();
    let store = open(folder.path()).await;
    account(&store, gatepost::domain::account::AccountType::Partner, None, "partner").await;
}

/// A limit on the size of files stands in for a full disk: SQLite ends its transaction by itself
/// in either case, and the writing connection must not be lost by it.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_disk_was_full_goes_on_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let helpers = gatepost::shutdown::Shutdown::default();
    let dns = local_dns(&helpers).await;
    let data = folder.path();
    let store = Store::create(&Location::Folder(data.into()), &store_rules(), run::system_mint())
        .await
        .unwrap();
    let access = Arc::new(gatepost::rules::Rules::defaults().unwrap().access);
    let tenancy = gatepost::app::tenancy::Tenancy::new(store.clone(), run::system_mint(), access);
    gatepost::testkit::fixture_accounts::FixtureAccounts::build(&tenancy).await.unwrap();
    store.close().await;
    // 2 MiB a file, by the soft limit only; without the trap the kernel would end the process.
    let limited = "trap '' XFSZ; ulimit -S -f 2048; exec \"$0\" \"$@\"";
    let server = Server::start_by(&["bash", "-c", limited, GATEPOST], data, dns.addr()).await;
    let signer = signer();
    let send = async |number: usize, size: usize| {
        let text = format!("{}{}", letter(&number.to_string()), "x y\r\n".repeat(size / 5));
        let raw = signer.sign(text.as_bytes()).unwrap();
        let to = ["support@agents.example".to_owned()];
        let helo = "client.example";
        let transaction = gatepost::testkit::smtp_client::Transaction {
            helo,
            from: "alice@good.example",
            to: &to,
            raw: &raw,
        };
        gatepost::testkit::smtp_client::deliver(server.smtp, &transaction).await.unwrap()
    };
    assert!(send(0, 1000).await.accepted());
    for number in 1..4 {
        let replies = send(number, 3_000_000).await;
        assert!(replies.settling().starts_with("45"), "{}", replies.settling());
    }
    assert!(send(4, 1000).await.accepted(), "the small one has room");
    let limits = ["--pid", &server.id().to_string(), "--fsize=unlimited"].map(ToOwned::to_owned);
    assert!(Command::new("prlimit").args(limits).status().unwrap().success());
    assert!(send(5, 3_000_000).await.accepted());
    assert_eq!(server.terminate().await, 0);
    assert_eq!(crate::support::count(data, "SELECT COUNT(*) FROM messages").await, 3);
    let whole = "SELECT COUNT(*) FROM messages JOIN contents USING (content_id)
                 JOIN records ON message_id = messages.id";
    assert_eq!(crate::support::count(data, whole).await, 3);
    assert!(helpers.finish(PATIENCE).await);
}
