//! A PostgreSQL that falls silent: the connections stay open, and no answer comes.

use gatepost::domain::domain_name::DomainName;
use gatepost::rules::{Rules, StoreRules};
use gatepost::run;
use gatepost::store::{Location, Store, StoreError};
use sqlx::postgres::PgConnection;
use sqlx::{Connection as _, Executor as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::scene::{Kind, Scene, address, at, by};
use crate::support::proxy::Proxy;
use crate::support::{PATIENCE, postgres};

/// As many connections as `quick` allows.
const PLACES: i64 = 4;

/// During an upgrade, another version adds a column. PostgreSQL reports that by the SQLSTATE of a
/// replica, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_changed_meanwhile_is_no_read_only_server() {
    let mut direct = postgres::connect(&postgres::new_database().await).await;
    let changing = "CREATE TABLE one (a INT); PREPARE plan AS TABLE one; \
                    ALTER TABLE one ADD COLUMN b INT";
    direct.execute(changing).await.unwrap();
    let error = direct.execute("EXECUTE plan").await.unwrap_err();
    assert_eq!(error.as_database_error().unwrap().code().as_deref(), Some("0A000"));
    let error = StoreError::from(error);
    assert!(matches!(error, StoreError::Database(_)), "{error:?}");
}

/// Rules that give a server up soon.
fn quick() -> StoreRules {
    let folder = tempfile::tempdir().unwrap();
    let text = "[connections]\npostgres = 4\nacquire_seconds = 2\nprobe_seconds = 1\n\
                statement_seconds = 3\nlock_seconds = 3\nsilence_seconds = 1\n\
                deadline_seconds = 4\n";
    std::fs::write(folder.path().join("store.toml"), text).unwrap();
    Rules::load(folder.path()).unwrap().store
}

/// Opens a store by these rules.
async fn open(location: &Location) -> Result<Store, StoreError> {
    let rules = quick();
    let opening = Store::open(location, &rules, run::system_mint());
    timeout(PATIENCE, opening).await.expect("opening has an end")
}

/// A scene, another handle on its store by way of a proxy, and the way past both.
async fn beside_a_proxy() -> (Scene, Store, Proxy, PgConnection) {
    let scene = Scene::new(Kind::Postgres).await;
    let Location::Postgres(url) = &scene.location else { panic!("no PostgreSQL") };
    let proxy = Proxy::start(url.expose()).await;
    let location = Location::parse(None, Some(&proxy.url(url.expose()))).unwrap();
    let store = open(&location).await.unwrap();
    let direct = scene.postgres().await;
    (scene, store, proxy, direct)
}

/// Waits until so many connections wait for a lock in the server.
pub async fn until_blocked(scene: &Scene, count: i64) {
    // Not the connection that holds the lock: in a transaction the answer stays the same.
    let mut direct = scene.postgres().await;
    let blocked = "SELECT COUNT(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let waiting = async {
        while sqlx::query_scalar::<_, i64>(blocked).fetch_one(&mut direct).await.unwrap() < count {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap();
}

/// Reads and writes, over and over, that end only when the table is free.
fn readers_and_writers(store: &Store, scene: &Scene) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for place in 0..PLACES {
        let (store, account) = (store.clone(), scene.organization.id);
        tasks.spawn(async move {
            let domain = DomainName::parse(&format!("d{place}.example")).unwrap();
            loop {
                let _read_or_not = if place % 2 == 0 {
                    store.domains(None).await.map(drop)
                } else {
                    store.claim_domain(&domain, account, by(at(0))).await.map(drop)
                };
            }
        });
    }
    tasks
}

/// Every place of the pool was taken by a statement when the server fell silent. sqlx would wait
/// for each of them until TCP gives up.
#[tokio::test(flavor = "multi_thread")]
async fn the_places_of_a_silent_server_are_free_again() {
    let (scene, store, mut proxy, mut direct) = beside_a_proxy().await;
    let mut locking = direct.begin().await.unwrap();
    locking.execute("LOCK TABLE domains IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let mut tasks = readers_and_writers(&store, &scene);
    until_blocked(&scene, PLACES).await;
    proxy.fall_silent();
    tasks.shutdown().await;
    locking.rollback().await.unwrap();
    store.ping().await.unwrap_err();

    proxy.recover();
    // All places at the same time, on connections that answer.
    let mut locking = direct.begin().await.unwrap();
    locking.execute("LOCK TABLE domains IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let mut tasks = readers_and_writers(&store, &scene);
    until_blocked(&scene, PLACES).await;
    tasks.shutdown().await;
    locking.rollback().await.unwrap();
    timeout(PATIENCE, async { while store.ping().await.is_err() {} }).await.unwrap();
    store.close().await;
}

/// A statement that is stuck half-way, because nobody takes its bytes in any more, is not asked
/// to end: neither its transaction nor its connection could be ended in an orderly way.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_statement_that_is_stuck_half_way_gives_its_place_back() {
    let (scene, store, mut proxy, mut direct) = beside_a_proxy().await;
    let agent = scene.agent.id;
    let mut tasks = JoinSet::new();
    let mut locking = direct.begin().await.unwrap();
    let gate = "SELECT pg_advisory_xact_lock(hashtextextended('account', $1))";
    sqlx::query(gate).bind(agent.get()).execute(&mut *locking).await.unwrap();
    for place in 0..PLACES {
        let store = store.clone();
        tasks.spawn(async move {
            // More than the buffers of two sockets hold.
            let note = "x".repeat(32 << 20);
            let sender = [address(&format!("a{place}@good.example"))];
            store.allow_senders(agent, &sender, Some(&note), 100, by(at(0))).await
        });
    }
    until_blocked(&scene, PLACES).await;
    proxy.go_deaf();
    locking.rollback().await.unwrap();
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap().unwrap_err();
    }
    proxy.recover();
    let mut locking = direct.begin().await.unwrap();
    locking.execute("LOCK TABLE domains IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let mut tasks = readers_and_writers(&store, &scene);
    until_blocked(&scene, PLACES).await;
    tasks.shutdown().await;
    locking.rollback().await.unwrap();
    assert_eq!(scene.store.policy(agent).await.unwrap().unwrap().allowlist_count, 0);
}

/// Somebody listens and says nothing.
#[tokio::test]
async fn a_server_that_never_answers_is_given_up_at_the_start() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("postgres://me@127.0.0.1:{port}/mail");
    let location = Location::parse(None, Some(&url)).unwrap();
    let refused = open(&location).await.unwrap_err();
    let StoreError::Open { at, source } = &refused else { panic!("{refused:?}") };
    assert!(at.contains(&port.to_string()), "{at}");
    assert!(source.to_string().contains("did not answer within 2 s"), "{source}");
}

/// Nobody listens: that is what is said, not that the time is up.
#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = nobody.local_addr().unwrap().port();
    drop(nobody);
    let location = Location::parse(None, Some(&format!("postgres://me@127.0.0.1:{port}/mail")));
    let opening = open(&location.unwrap()).await;
    let Err(StoreError::Open { source, .. }) = opening else { panic!("{opening:?}") };
    assert!(source.to_string().contains("refused"), "{source}");
}

/// It answers, and then no more: looking at the schema has a deadline too.
#[tokio::test]
async fn a_server_that_falls_silent_at_the_start_is_given_up() {
    let scene = Scene::new(Kind::Postgres).await;
    let mut direct = scene.postgres().await;
    let mut locking = direct.begin().await.unwrap();
    locking.execute("LOCK TABLE _sqlx_migrations IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let opening = open(&scene.location).await;
    let Err(StoreError::Open { source, .. }) = opening else { panic!("{opening:?}") };
    assert!(source.to_string().contains("did not answer within 4 s"), "{source}");
    locking.rollback().await.unwrap();
    open(&scene.location).await.unwrap();
}

/// A store of this version is opened without the lock; one that is not waits for it.
#[tokio::test]
async fn a_gateway_waits_for_the_migration_of_another() {
    let lock = "SELECT pg_advisory_lock(hashtextextended('gatepost migration', 0))";
    let url = postgres::new_database().await;
    let location = Location::parse(None, Some(&url)).unwrap();
    let mut other = postgres::connect(&url).await;
    other.execute(lock).await.unwrap();
    let making = tokio::spawn({
        let location = location.clone();
        async move { Store::create(&location, &quick(), run::system_mint()).await }
    });
    let asked = "SELECT COUNT(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND query LIKE '%gatepost migration%'
                   AND pid <> pg_backend_pid()";
    let waiting = async {
        while sqlx::query_scalar::<_, i64>(asked).fetch_one(&mut other).await.unwrap() == 0 {}
    };
    timeout(PATIENCE, waiting).await.unwrap();
    let tables = "SELECT COUNT(*) FROM pg_tables WHERE schemaname = 'public'";
    let made: i64 = sqlx::query_scalar(tables).fetch_one(&mut other).await.unwrap();
    assert_eq!(made, 0);
    other.close().await.unwrap();
    making.await.unwrap().unwrap().ping().await.unwrap();

    let mut other = postgres::connect(&url).await;
    other.execute(lock).await.unwrap();
    open(&location).await.unwrap().ping().await.unwrap();
}
