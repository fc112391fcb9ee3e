//! A backup of a store on which a server runs, and what is restored from it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use aws_lc_rs::digest::{SHA256, digest};
use gatepost::rules::Rules;
use gatepost::store::Location;
use gatepost::testkit::receiver::{Receiver, Reply};
use gatepost::testkit::smtp_client::{Transaction, deliver};
use serde_json::Value;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Executor as _};
use tokio::process::{Child, Command};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::support::mailers::NO_RATES;
use crate::support::process::{GATEPOST, Server, failing, gatepost};
use crate::support::site::Site;
use crate::support::{PATIENCE, all_messages, count, http, letter, signed, signer};

const SENDERS: usize = 6;

/// Messages of several senders, and those of them that were acknowledged, by subject.
struct Load {
    server: SocketAddr,
    next: AtomicUsize,
    sent: Mutex<BTreeMap<String, Vec<u8>>>,
    acknowledged: watch::Sender<BTreeSet<String>>,
    enough: AtomicBool,
}

impl Load {
    async fn send(self: Arc<Self>) {
        let (signer, to) = (signer(), ["support@agents.example".to_owned()]);
        while !self.enough.load(Ordering::SeqCst) {
            let subject = format!("message {}", self.next.fetch_add(1, Ordering::SeqCst));
            let raw = signer.sign(letter(&subject).as_bytes()).unwrap();
            self.sent.lock().await.insert(subject.clone(), raw.clone());
            let (helo, from) = ("client.example", "alice@good.example");
            let transaction = Transaction { helo, from, to: &to, raw: &raw };
            let replies = deliver(self.server, &transaction).await.unwrap();
            assert!(replies.accepted(), "{}", replies.settling());
            self.acknowledged.send_modify(|all| {
                all.insert(subject);
            });
        }
    }

    /// Waits until so many are acknowledged; answers all that are.
    async fn reaches(&self, wanted: usize) -> BTreeSet<String> {
        let mut progress = self.acknowledged.subscribe();
        let reached = timeout(PATIENCE, progress.wait_for(|all| all.len() >= wanted)).await;
        reached.unwrap().unwrap().clone()
    }
}

fn subject(message: &Value) -> String {
    message["metadata"]["emailSubject"].as_str().unwrap().to_owned()
}

fn uuid(message: &Value) -> String {
    message["uuid"].as_str().unwrap().to_owned()
}

/// `gatepost serve` that tries a webhook again soon, also what another server has claimed.
async fn serve(here: &Path, data: &Path, dns: SocketAddr) -> Server {
    let policies = here.join("policies");
    if !policies.exists() {
        std::fs::create_dir(&policies).unwrap();
        let waits = vec!["1"; 99].join(", ");
        let text = format!(
            "[schedule]\nwait_seconds = [0, {waits}]\n[attempt]\ntimeout_seconds = 4\n\
             [dispatcher]\nlease_seconds = 5\n"
        );
        std::fs::write(policies.join("webhooks.toml"), text).unwrap();
        let (name, text) = NO_RATES;
        std::fs::write(policies.join(name), text).unwrap();
    }
    let variable = format!("GATEPOST_POLICIES={}", policies.display());
    Server::start_by(&["env", &variable, GATEPOST], data, dns).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_server_under_load_is_a_store_with_all_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let (here, data) = (folder.path(), folder.path().join("data"));
    let location = Location::Folder(data.clone());
    let site = Site::build(&location, &Rules::defaults().unwrap()).await;
    let (dns, receiver, key) = (&site.dns, &site.receiver, &site.key);
    receiver.otherwise(Reply::status(503));
    site.leave_store().await;

    let server = serve(here, &data, dns.addr()).await;
    let load = Arc::new(Load {
        server: server.smtp,
        next: AtomicUsize::new(0),
        sent: Mutex::default(),
        acknowledged: watch::Sender::default(),
        enough: AtomicBool::new(false),
    });
    let senders: JoinSet<()> = (0..SENDERS).map(|_| Arc::clone(&load).send()).collect();
    let before = load.reaches(150).await;
    let output = gatepost(here, &["backup", "--data", "data", "--to", "copy", "--json"]).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let after = load.acknowledged.borrow().len();
    load.reaches(after + 50).await;
    load.enough.store(true, Ordering::SeqCst);
    senders.join_all().await;

    let copied: Value = serde_json::from_slice(&output.stdout).unwrap();
    let copy = here.join("copy");
    let size = copy.join("gatepost.db").metadata().unwrap().len();
    assert_eq!((&copied["to"], &copied["octets"]), (&"copy".into(), &size.into()));
    for (path, mode) in [
        ("", 0o700),
        ("gatepost.db", 0o600),
        ("gatepost.db.sha256", 0o600),
        ("tls", 0o700),
        ("tls/self-signed.pem", 0o600),
    ] {
        let found = copy.join(path).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{path}");
    }
    let live: BTreeMap<String, Value> =
        all_messages(server.http, key).await.into_iter().map(|one| (uuid(&one), one)).collect();
    server.kill().await;
    let delivered_in_vain = receiver.received();
    // The files that the killed server left do not hinder the next backup.
    let later = gatepost(here, &["backup", "--data", "data", "--to", "later", "--json"]).await;
    let later: Value = serde_json::from_slice(&later.stdout).unwrap();
    assert_eq!(later["messages"], live.len());

    let restored = gatepost(here, &["restore", "--from", "copy", "--data", "new"]).await;
    let said = String::from_utf8_lossy(&restored.stdout).into_owned();
    assert!(said.starts_with("restored copy to new: "), "{said}");
    receiver.otherwise(Reply::status(200));
    let server = serve(here, &here.join("new"), dns.addr()).await;
    let messages = all_messages(server.http, key).await;
    assert_eq!(copied["messages"], messages.len());
    assert!(messages.len() < live.len(), "the load ended before the backup did");
    let subjects: BTreeSet<String> = messages.iter().map(subject).collect();
    assert_eq!(subjects.len(), messages.len(), "one is there twice");
    assert!(subjects.is_superset(&before), "acknowledged before the backup, and not in it");
    let (sent, client) = (load.sent.lock().await, reqwest::Client::new());
    for message in &messages {
        assert_eq!(message, &live[&uuid(message)]);
        let path = format!("/api/v2/messages/{}/raw?token={key}", uuid(message));
        let raw = client.get(format!("http://{}{path}", server.http)).send().await.unwrap();
        assert_eq!(http::read("GET", raw).await.body, sent[&subject(message)]);
    }
    let uuids: BTreeSet<String> = messages.iter().map(uuid).collect();
    all_announced(receiver, delivered_in_vain.len(), &uuids).await;
    goes_on(&server, &here.join("new"), messages.len(), key).await;
    assert_eq!(server.terminate().await, 0);
    site.finish().await;
}

/// Waits until the restored store has delivered all that was pending at the backup, and checks that
/// each delivery keeps its former id.
async fn all_announced(receiver: &Receiver, before: usize, wanted: &BTreeSet<String>) {
    let mut requests = before + wanted.len();
    loop {
        let arrived = receiver.wait_for(requests, PATIENCE).await.unwrap();
        let mut ids: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut announced = BTreeSet::new();
        for (place, request) in arrived.iter().enumerate() {
            assert!(request.verified, "a signature is wrong");
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let message = body["messageUuid"].as_str().unwrap().to_owned();
            ids.entry(message.clone()).or_default().insert(request.headers["webhook-id"].clone());
            if place >= before {
                announced.insert(message);
            }
        }
        assert!(ids.values().all(|ids| ids.len() == 1), "{ids:?}");
        if announced.is_superset(wanted) {
            assert_eq!(&announced, wanted, "announced, and not stored");
            return;
        }
        requests = arrived.len() + 1;
    }
}

/// The restored server takes mail; a new sender gets an id that the lost store cannot have given.
async fn goes_on(server: &Server, data: &Path, messages: usize, key: &str) {
    let last = count(data, "SELECT last FROM user_ids").await;
    assert!(last > 1_000_000, "{last}");
    let (helo, from, to) =
        ("client.example", "alice@good.example", ["support@agents.example".to_owned()]);
    let transaction = Transaction { helo, from, to: &to, raw: &signed("after the restore") };
    assert!(deliver(server.smtp, &transaction).await.unwrap().accepted());
    let now = all_messages(server.http, key).await;
    assert_eq!(now.len(), messages + 1);
    assert_eq!(subject(&now[0]), "after the restore");
}

/// A store whose originals with these contents are in its folder of originals.
async fn with_originals(here: &Path, contents: &[&[u8]]) -> Vec<String> {
    assert!(gatepost(here, &["init", "--data", "data"]).await.status.success());
    std::fs::create_dir_all(here.join("data/blobs")).unwrap();
    let mut database = database(&here.join("data")).await;
    let mut names = Vec::new();
    for content in contents {
        let digest = digest(&SHA256, content);
        let hexadecimal = digest.as_ref().iter().map(|octet| format!("{octet:02x}"));
        let name: String = hexadecimal.collect();
        std::fs::write(here.join("data/blobs").join(&name), content).unwrap();
        let insert = "INSERT INTO contents (content_id, object_digest, octets, packed, object,
                                        organization_id)
                      VALUES (randomblob(16), $1, 0, x'', $2, 3)";
        let insert = sqlx::query(insert).bind(digest.as_ref()).bind(&name);
        insert.execute(&mut database).await.unwrap();
        names.push(name);
    }
    names.sort();
    names
}

async fn database(data: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(data.join("gatepost.db")).connect().await.unwrap()
}

/// Puts a pipe in the place of the first original, on which a backup waits after its snapshot.
fn hold(here: &Path, name: &str) -> (std::path::PathBuf, Vec<u8>) {
    let path = here.join("data/blobs").join(name);
    let content = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    (path, content)
}

fn begin_backup(here: &Path) -> Child {
    let mut command = Command::new(GATEPOST);
    command.args(["backup", "--data", "data", "--to", "copy", "--json"]).current_dir(here);
    command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap()
}

/// Opens the pipe for writing, which succeeds once the command reads it.
pub(super) async fn reached(pipe: &Path) -> std::fs::File {
    let pipe = pipe.to_owned();
    let opening = tokio::task::spawn_blocking(move || {
        std::fs::File::options().write(true).open(pipe).unwrap()
    });
    timeout(PATIENCE, opening).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_was_killed_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let names = with_originals(here, &[b"one", b"two"]).await;
    let (pipe, _) = hold(here, &names[0]);
    let mut backup = begin_backup(here);
    let _writing = reached(&pipe).await;
    backup.kill().await.unwrap();

    assert!(here.join("copy/gatepost.db.part").exists());
    let said = failing(here, &["restore", "--from", "copy", "--data", "new"]).await;
    assert!(said.contains("no finished backup in copy"), "{said}");
    assert!(!here.join("new").exists());
    let said = failing(here, &["account", "list", "--data", "copy"]).await;
    assert!(said.contains("there is no store at copy"), "{said}");
    let said = failing(here, &["backup", "--data", "data", "--to", "copy"]).await;
    assert!(said.contains("holds an unfinished backup or restore: remove that"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_erased_during_a_backup_is_not_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let names = with_originals(here, &[b"one", b"two", b"three"]).await;
    let (pipe, content) = hold(here, &names[0]);
    let backup = begin_backup(here);
    let mut writing = reached(&pipe).await;
    // The snapshot names all; the second is erased now, and the first can be read once only.
    let erase = sqlx::query("DELETE FROM contents WHERE object = $1").bind(&names[1]);
    erase.execute(&mut database(&here.join("data")).await).await.unwrap();
    std::fs::remove_file(here.join("data/blobs").join(&names[1])).unwrap();
    std::io::Write::write_all(&mut writing, &content).unwrap();
    drop(writing);
    let output = timeout(PATIENCE, backup.wait_with_output()).await.unwrap().unwrap();
    assert!(ExitStatus::success(&output.status));

    let copied: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(copied["objects"], 2);
    let copy = here.join("copy");
    let listed = std::fs::read_dir(copy.join("blobs")).unwrap();
    let mut kept: Vec<_> =
        listed.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    kept.sort();
    assert_eq!(kept, [names[0].clone(), names[2].clone()]);
    assert!(!copy.join("blobs.before").exists());
    assert_eq!(count(&copy, "SELECT COUNT(*) FROM contents").await, 2);
    let octets = copy.join("gatepost.db").metadata().unwrap().len() + 3;
    let third = here.join("data/blobs").join(&names[2]).metadata().unwrap().len();
    assert_eq!(copied["octets"], octets + third - 3 + u64::try_from(content.len()).unwrap());
    assert!(gatepost(here, &["restore", "--from", "copy", "--data", "new"]).await.status.success());
    assert_eq!(std::fs::read(here.join("new/blobs").join(&names[0])).unwrap(), content);
    let mode = here.join("new/blobs").metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700);
}

#[tokio::test]
async fn an_original_that_is_lost_is_named_and_leaves_no_backup() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let names = with_originals(here, &[b"one", b"two"]).await;
    let path = here.join("data/blobs").join(&names[1]);
    for damage in [None, Some("other content")] {
        match damage {
            None => std::fs::remove_file(&path).unwrap(),
            Some(text) => std::fs::write(&path, text).unwrap(),
        }
        let said = failing(here, &["backup", "--data", "data", "--to", "copy"]).await;
        assert!(said.contains("1 originals of the store are missing or damaged below"), "{said}");
        assert!(said.contains(&names[1]), "{said}");
        assert!(!here.join("copy").exists());
    }
    // A name that leads out of the folder is never followed.
    let mut database = database(&here.join("data")).await;
    database.execute("UPDATE contents SET object = '../gatepost.db'").await.unwrap();
    let said = failing(here, &["backup", "--data", "data", "--to", "copy"]).await;
    assert!(said.contains("2 originals") && said.contains("../gatepost.db"), "{said}");
}

#[tokio::test]
async fn a_backup_goes_where_nothing_is() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let said = failing(here, &["backup", "--data", "data", "--to", "copy"]).await;
    assert!(said.contains("gatepost init"), "{said}");
    assert!(gatepost(here, &["init", "--data", "data"]).await.status.success());
    for (target, words) in
        [("data", "data is not empty: name a folder"), ("gatepost.toml", "Not a directory")]
    {
        let said = failing(here, &["backup", "--data", "data", "--to", target]).await;
        assert!(said.contains(words), "{target}: {said}");
    }
    // An empty folder will do, as will one below folders that are not there.
    std::fs::create_dir(here.join("empty")).unwrap();
    for target in ["empty", "not/there/yet"] {
        let output = gatepost(here, &["backup", "--data", "data", "--to", target]).await;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.starts_with(&format!("backed up to {target}: 0 messages, ")), "{said}");
        let sum = std::process::Command::new("sha256sum")
            .args(["-c", "gatepost.db.sha256"])
            .current_dir(here.join(target))
            .output();
        assert!(sum.unwrap().status.success());
    }
}
