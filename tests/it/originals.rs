//! The originals of large messages, end to end: taken in by SMTP, kept apart, read over HTTP.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gatepost::app::tenancy::Tenancy;
use gatepost::rules::Rules;
use gatepost::run;
use gatepost::shutdown::Shutdown;
use gatepost::store::{Location, Store, StoreError, StorePlace, SweepCounts};
use gatepost::testkit::fixture_accounts::FixtureAccounts;
use gatepost::testkit::smtp_client::{Replies, Transaction, deliver};
use serde_json::Value;
use sqlx::Executor as _;
use tokio::process::Command;
use tokio::time::timeout;

use crate::store::objects::{committed, files, hours, large, rules};
use crate::store::scene::{Kind, Scene, database, subtree};
use crate::support::bucket::Bucket;
use crate::support::process::{self, GATEPOST, Server};
use crate::support::{
    PATIENCE, TestGateway, all_messages, http, letter, local_dns, signer, store_rules,
};

const FROM: &str = "alice@good.example";
const TO: [&str; 1] = ["support@agents.example"];

/// A signed message of about 1 MB; answers its attachment too.
fn with_attachment(subject: &str) -> (Vec<u8>, Vec<u8>) {
    let octets: Vec<u8> =
        (0..750_000_u32).map(|n| n.wrapping_mul(0x9e37_79b9).to_be_bytes()[0]).collect();
    let encoded = STANDARD.encode(&octets);
    let lines: Vec<&str> =
        encoded.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap()).collect();
    let (head, text) = letter(subject).split_once("\r\n\r\n").map(own).unwrap();
    let head = head.replace("text/plain; charset=utf-8", "multipart/mixed; boundary=b");
    let message = format!(
        "{head}\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\n{text}\r\n--b\r\n\
         Content-Type: image/png; name=a.png\r\nContent-Transfer-Encoding: base64\r\n\
         Content-Disposition: attachment; filename=a.png\r\n\r\n{}\r\n--b--\r\n",
        lines.join("\r\n")
    );
    (signer().sign(message.as_bytes()).unwrap(), octets)
}

fn own((one, other): (&str, &str)) -> (String, String) {
    (one.to_owned(), other.to_owned())
}

async fn octets(gateway: &TestGateway, path: &str) -> Vec<u8> {
    let url = format!("http://{}{path}?token={}", gateway.http, gateway.key);
    let answer = http::get(&url).await;
    assert_eq!(answer.status, 200, "{path}");
    answer.body
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_message_is_read_back_octet_by_octet_or_said_to_be_lost() {
    let gateway = TestGateway::start().await;
    let blobs = gateway.folder.path().join("store/blobs");
    let (raw, attachment) = with_attachment("large");
    assert!(raw.len() > 1_000_000);
    assert!(gateway.send(FROM, &TO, &raw).await.accepted());
    let file = files(&blobs).remove(0);
    assert_eq!(std::fs::read(&file).unwrap(), raw);
    let message = gateway.messages().await.remove(0);
    let original = text(&message["metadata"], "emailRawUrl");
    assert_eq!(octets(&gateway, original).await, raw);
    let media = text(&message["attachments"][0], "content-url");
    assert_eq!(octets(&gateway, media).await, attachment);

    std::fs::remove_file(&file).unwrap();
    for path in [original, media] {
        let path = path.strip_prefix("/api/v2").unwrap();
        let (status, problem) = gateway.request("GET", path, None).await;
        assert_eq!((status, text(&problem, "code")), (500, "original_lost"), "{problem}");
        assert!(text(&problem, "detail").contains("blob store"), "{problem}");
        assert!(!problem.to_string().contains("raw/"), "{problem}");
    }
    assert_eq!(gateway.messages().await.remove(0), message);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_message_is_deferred_while_its_folder_cannot_be_written() {
    let gateway = TestGateway::start().await;
    let (blobs, aside) =
        (gateway.folder.path().join("store/blobs"), gateway.folder.path().join("aside"));
    std::fs::rename(&blobs, &aside).unwrap();
    std::fs::write(&blobs, "").unwrap();
    let (raw, _) = with_attachment("later");
    let deferred = gateway.send(FROM, &TO, &raw).await;
    assert!(deferred.settling().starts_with("451 4.3.0"), "{}", deferred.settling());
    let small = signer().sign(letter("small").as_bytes()).unwrap();
    assert!(gateway.send(FROM, &TO, &small).await.accepted());
    std::fs::remove_file(&blobs).unwrap();
    std::fs::rename(&aside, &blobs).unwrap();
    assert!(gateway.send(FROM, &TO, &raw).await.accepted());
    assert_eq!(gateway.messages().await.len(), 2);
    gateway.finish().await;
}

/// An embedded store with the house of the fixtures; answers the organization's key.
async fn set_up(data: &Path) -> String {
    let location = Location::Folder(data.into());
    let store = Store::create(&location, &store_rules(), run::system_mint()).await.unwrap();
    let access = Arc::new(Rules::defaults().unwrap().access);
    let tenancy = Tenancy::new(store.clone(), run::system_mint(), access);
    let accounts = FixtureAccounts::build(&tenancy).await.unwrap();
    let key = tenancy.create_key(accounts.organization.id, "test").await.unwrap().token;
    store.close().await;
    key
}

async fn send(server: &Server, raw: &[u8]) -> std::io::Result<Replies> {
    let to = TO.map(ToOwned::to_owned);
    let transaction = Transaction { helo: "client.example", from: FROM, to: &to, raw };
    deliver(server.smtp, &transaction).await
}

/// A limit on the size of files stands in for a full disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_said_so() {
    let folder = tempfile::tempdir().unwrap();
    let helpers = Shutdown::default();
    let dns = local_dns(&helpers).await;
    set_up(folder.path()).await;
    let limited = "trap '' XFSZ; ulimit -S -f 800; exec \"$0\" \"$@\"";
    let command = ["bash", "-c", limited, GATEPOST];
    let server = Server::start_by(&command, folder.path(), dns.addr()).await;
    let (raw, _) = with_attachment("too much");
    let deferred = send(&server, &raw).await.unwrap();
    assert!(deferred.settling().starts_with("452 4.3.1"), "{}", deferred.settling());
    assert_eq!(files(&folder.path().join("blobs")).len(), 0, "half of it was left");
    assert_eq!(server.terminate().await, 0);
    assert!(helpers.finish(PATIENCE).await);
}

/// A lock on the database keeps the commit from beginning; the object is put before that.
#[tokio::test(flavor = "multi_thread")]
async fn killed_between_the_put_and_the_commit_it_leaves_an_orphan() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let helpers = Shutdown::default();
    let dns = local_dns(&helpers).await;
    let key = set_up(data).await;
    let (raw, _) = with_attachment("killed");
    let server = Server::start(data, dns.addr()).await;
    let mut holder = database(data).await;
    holder.execute("BEGIN IMMEDIATE").await.unwrap();
    let blobs = data.join("blobs");
    let written = async {
        loop {
            let finished = |path: &Path| path.metadata().is_ok_and(|f| f.len() == raw.len() as u64);
            match files(&blobs).as_slice() {
                [one] if !one.to_str().unwrap().contains('#') && finished(one) => return,
                _ => tokio::task::yield_now().await,
            }
        }
    };
    tokio::select! {
        () = async { timeout(PATIENCE, written).await.unwrap() } => {}
        ended = send(&server, &raw) => panic!("answered without a commit: {}", ended.is_ok()),
    }
    server.kill().await;
    drop(holder);
    let server = Server::start(data, dns.addr()).await;
    assert!(all_messages(server.http, &key).await.is_empty());
    assert!(send(&server, &raw).await.unwrap().accepted());
    assert_eq!(files(&blobs).len(), 2);
    assert_eq!(server.terminate().await, 0);

    let location = Location::Folder(data.into());
    let store = Store::open(&location, &store_rules(), run::system_mint()).await.unwrap();
    let swept = store.sweep_objects(hours(25)).await.unwrap();
    assert_eq!(swept, Some(SweepCounts { seen: 2, removed: 1 }));
    store.close().await;
    assert_eq!(std::fs::read(&files(&blobs)[0]).unwrap(), raw);
    assert!(helpers.finish(PATIENCE).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_keeps_the_same_promises() {
    let bucket = Bucket::start().await;
    let scene = Scene::new(Kind::Postgres).await;
    let place = |prefix| StorePlace::new(scene.location.clone(), Some(bucket.place(prefix)));
    let store = Store::open(place("a/b"), &rules(), run::system_mint()).await.unwrap();
    store.check_writable().await.unwrap();
    assert!(bucket.keys().await.is_empty(), "a probe was left behind");
    let (one, id) = large(&scene, &scene.agent, 0, 1_000_000).await;
    let (two, lost) = large(&scene, &scene.agent, 1, 5000).await;
    let raw = one.accepted.as_ref().unwrap().raw.clone();
    committed(&store, vec![one]).await;
    let first = bucket.keys().await;
    assert!(first.len() == 1 && first[0].starts_with("a/b/raw/"), "{first:?}");
    committed(&store, vec![two]).await;
    let scope = subtree(&scene.agent);
    assert_eq!(store.raw_message(&scope, id).await.unwrap().unwrap(), raw);

    let swept = store.sweep_objects(hours(25)).await.unwrap();
    assert_eq!(swept, Some(SweepCounts { seen: 2, removed: 0 }));
    let second = bucket.keys().await.into_iter().find(|key| *key != first[0]).unwrap();
    bucket.remove(&second).await;
    let missing = store.raw_message(&scope, lost).await.unwrap_err();
    assert!(matches!(missing, StoreError::Lost { .. }), "{missing:?}");
    // Erased, the first one is an orphan when a day has passed.
    scene.execute("DELETE FROM messages").await;
    scene.execute("DELETE FROM contents").await;
    for (hour, removed) in [(23, 0), (25, 1)] {
        let swept = store.sweep_objects(hours(hour)).await.unwrap();
        assert_eq!(swept, Some(SweepCounts { seen: 1, removed }));
    }
    assert!(bucket.keys().await.is_empty());

    let (three, id) = large(&scene, &scene.agent, 2, 5000).await;
    committed(&store, vec![three]).await;
    bucket.stop().await;
    let down = store.raw_message(&scope, id).await.unwrap_err();
    assert!(matches!(down, StoreError::Objects(_)), "{down:?}");
    let (four, _) = large(&scene, &scene.agent, 3, 5000).await;
    let commit = gatepost::store::Commit { intakes: vec![four], now: crate::store::scene::at(3) };
    let down = store.commit(&commit).await.unwrap_err();
    assert!(matches!(down, StoreError::Objects(_)), "{down:?}");
    let refused = store.check_writable().await.unwrap_err();
    assert!(matches!(refused, StoreError::Blobs { .. }), "{refused:?}");
}

/// Settings by variables, by the file and by flags; an unusable bucket is said at the start.
#[tokio::test(flavor = "multi_thread")]
async fn commands_take_the_bucket_and_show_no_key() {
    let bucket = Bucket::start().await;
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let run = async |arguments: &[&str], endpoint: &str| {
        let mut command = Command::new(GATEPOST);
        command.args(arguments).current_dir(here).stdin(Stdio::null()).kill_on_drop(true);
        command.env("GATEPOST_BLOBS", "s3://mail/x").env("GATEPOST_S3_ENDPOINT", endpoint);
        command.env("GATEPOST_S3_ACCESS_KEY", "HUSHACCESS");
        command.env("GATEPOST_S3_SECRET_KEY", "HUSHSECRET").env("GATEPOST_LOG", "trace");
        let output = timeout(PATIENCE, command.output()).await.unwrap().unwrap();
        process::keep(arguments, &output);
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(!said.contains("HUSH"), "{said}");
        (output.status.code().unwrap(), said)
    };
    assert_eq!(run(&["init"], &bucket.endpoint).await.0, 0);
    assert!(!here.join("gatepost-data/blobs").exists());
    assert_eq!(run(&["serve", "--help"], &bucket.endpoint).await.0, 0);
    let nobody = "http://127.0.0.1:9";
    let serve = ["serve", "--smtp", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let (code, said) = run(&serve, nobody).await;
    assert!(code == 1 && said.contains("cannot use the blob store at s3://mail/x"), "{said}");
    let (code, said) = run(&["account", "list"], "ftp://me:HUSH@h").await;
    assert!(code == 1 && said.contains("endpoint"), "{said}");
    let listed = run(&["account", "list", "--blobs", "elsewhere"], nobody).await;
    assert_eq!(listed.0, 0, "{}", listed.1);
    assert!(here.join("elsewhere/raw/ff").is_dir());
}
