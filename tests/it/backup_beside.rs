//! A restored server is the same one to those who know it: by the key of its certificate, which
//! DANE pins, and by the keys that open its secrets; or the restore says what is missing for that.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gatepost::rules::Rules;
use gatepost::run;
use gatepost::store::Location;
use gatepost::testkit::receiver::Receiver;
use gatepost::testkit::smtp_client::{Transaction, deliver};
use gatepost::tls::Pair;
use serde_json::{Value, json};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::timeout;

use crate::support::authority::HOST;
use crate::support::process::{Server, failing, gatepost};
use crate::support::site::Site;
use crate::support::{PATIENCE, canary, http, signed};

const TOKEN: &str = "Bearer of-the-relay";

/// A server whose organization has a relay with a secret header.
struct Scene {
    folder: TempDir,
    site: Site,
    relay: Receiver,
    server: Server,
    /// The data of a TLSA record for the key of its certificate.
    pin: String,
}

impl Scene {
    async fn build() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let site = Site::build(&Location::Folder(data.clone()), &Rules::defaults().unwrap()).await;
        site.leave_store().await;
        let server = Server::start(&data, site.dns.addr()).await;
        let relay = Receiver::start(run::system_mint().clock().clone()).await.unwrap();
        let url = format!("http://{}/api/v2/webhookRelay/smtp?token={}", server.http, site.key);
        let body = json!({ "url": relay.url("/ask"), "headers": [{ "Authorization": TOKEN }] })
            .to_string();
        let request = reqwest::Client::new().post(url).timeout(PATIENCE);
        let request = request.header("content-type", "application/json").body(body);
        let answer = http::read("POST", request.send().await.unwrap()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let answer: Value = serde_json::from_slice(&answer.body).unwrap();
        canary::note(answer["secret"].as_str().unwrap().as_bytes());
        let own = std::fs::read(data.join("tls/self-signed.pem")).unwrap();
        let pin = Pair::from_pem(&own, &own).unwrap().tlsa();
        Self { folder, site, relay, server, pin }
    }

    fn here(&self) -> &Path {
        self.folder.path()
    }

    /// Whether a message is accepted because the relay is asked with its secret header.
    async fn opens_its_secrets(&self, server: &Server, subject: &str) {
        let (seen, to) = (self.relay.received().len(), ["support@agents.example".to_owned()]);
        let (helo, from) = ("client.example", "alice@good.example");
        let transaction = Transaction { helo, from, to: &to, raw: &signed(subject) };
        let replies = deliver(server.smtp, &transaction).await.unwrap();
        assert!(replies.accepted(), "{}", replies.settling());
        let asked = self.relay.wait_for(seen + 1, PATIENCE).await.unwrap();
        assert_eq!(asked[seen].headers["authorization"], TOKEN);
    }
}

/// Whether OpenSSL, by STARTTLS, finds the key that this TLSA record names (RFC 7672).
async fn is_pinned(server: SocketAddr, pin: &str) -> bool {
    let mut client = Command::new("openssl");
    client.args(["s_client", "-starttls", "smtp", "-connect", &server.to_string()]);
    client.args(["-servername", HOST, "-dane_tlsa_domain", HOST, "-dane_tlsa_rrdata", pin]);
    client.arg("-verify_return_error").stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(PATIENCE, client.output()).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_verified = output.status.success() && said.contains("Verification: OK");
    let is_other = said.contains("Verification error: no matching DANE TLSA records");
    assert!(is_verified != is_other, "{output:?}");
    is_verified
}

/// All files below, with their modes and contents.
fn tree(folder: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let (mut files, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(one) = folders.pop() {
        for entry in std::fs::read_dir(one).unwrap() {
            let path = entry.unwrap().path();
            let mode = path.metadata().unwrap().permissions().mode() & 0o777;
            let name = path.strip_prefix(folder).unwrap().to_owned();
            if path.is_dir() {
                files.insert(name, (mode, Vec::new()));
                folders.push(path);
            } else {
                files.insert(name, (mode, std::fs::read(path).unwrap()));
            }
        }
    }
    files
}

async fn done(here: &Path, arguments: &[&str]) -> String {
    let output = gatepost(here, arguments).await;
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The messages of a restore about what is missing.
async fn missing(here: &Path, to: &str) -> Vec<String> {
    let said = done(here, &["restore", "--from", "copy", "--data", to, "--json"]).await;
    let said: Value = serde_json::from_str(&said).unwrap();
    serde_json::from_value(said["missing"].clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_server_has_the_same_key_for_dane_and_opens_its_secrets() {
    let scene = Scene::build().await;
    let here = scene.here();
    assert!(is_pinned(scene.server.smtp, &scene.pin).await);
    let backup = ["backup", "--data", "data", "--to", "copy", "--with-secrets-key"];
    let said = done(here, &backup).await;
    assert!(said.contains("anyone who has this backup can open the sealed secrets"), "{said}");
    let (tls, key) = (tree(&here.join("data/tls")), here.join("data/secrets.key"));
    let key = (key.metadata().unwrap().permissions().mode(), std::fs::read(key).unwrap());
    assert_eq!(tree(&here.join("copy/tls")), tls);
    assert!(tls.values().all(|(mode, _)| *mode == 0o600), "{tls:?}");
    let mut sums = Command::new("sha256sum");
    sums.args(["-c", "gatepost.db.sha256"]).current_dir(here.join("copy"));
    let sums = sums.output().await.unwrap();
    assert!(sums.status.success(), "{sums:?}");
    assert!(String::from_utf8_lossy(&sums.stdout).contains("tls/self-signed.pem: OK"), "{sums:?}");

    // The machine is lost.
    let Scene { folder, site, relay, server, pin } = scene;
    server.kill().await;
    std::fs::remove_dir_all(folder.path().join("data")).unwrap();
    let here = folder.path();
    let said = done(here, &["restore", "--from", "copy", "--data", "new"]).await;
    assert!(said.contains("with secrets.key") && !said.contains("missing"), "{said}");
    assert_eq!(tree(&here.join("new/tls")), tls);
    let restored = here.join("new/secrets.key");
    let mode = restored.metadata().unwrap().permissions().mode();
    assert_eq!((mode, std::fs::read(restored).unwrap()), key);
    let server = Server::start(&here.join("new"), site.dns.addr()).await;
    assert!(is_pinned(server.smtp, &pin).await);
    let scene = Scene { folder, site, relay, server, pin };
    scene.opens_its_secrets(&scene.server, "after the restore").await;
    assert_eq!(scene.server.terminate().await, 0);
    scene.site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_says_what_is_missing_to_be_the_same_server() {
    let scene = Scene::build().await;
    let here = scene.here();
    scene.opens_its_secrets(&scene.server, "before the backup").await;
    let said = done(here, &["backup", "--data", "data", "--to", "copy"]).await;
    assert!(
        said.contains("data/secrets.key is not part of the backup: keep a copy elsewhere"),
        "{said}"
    );
    assert!(said.contains("--with-secrets-key"), "{said}");
    assert!(!here.join("copy/secrets.key").exists());
    // As a backup was before certificates were part of it.
    std::fs::remove_dir_all(here.join("copy/tls")).unwrap();
    let sums = std::fs::read_to_string(here.join("copy/gatepost.db.sha256")).unwrap();
    let (first, _) = sums.split_once('\n').unwrap();
    std::fs::write(here.join("copy/gatepost.db.sha256"), format!("{first}\n")).unwrap();
    let [keys, tls] = <[String; 2]>::try_from(missing(here, "new").await).unwrap();
    assert!(keys.starts_with("new/secrets.key, which opens the secrets"), "{keys}");
    assert!(keys.contains("(relays: 1)") && keys.contains("before you serve, copy"), "{keys}");
    assert!(tls.starts_with("new/tls, because") && tls.contains("TLSA"), "{tls}");

    let serve = ["serve", "--data", "new", "--smtp", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let said = failing(here, &serve).await;
    assert!(said.contains("new/secrets.key is missing, but the store holds secrets"), "{said}");
    let dns = scene.site.dns.addr().to_string();
    let checked = gatepost(here, &[&serve[..], &["--check", "--dns", &dns]].concat()).await;
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert_eq!(checked.status.code(), Some(1), "{said}");
    assert!(said.contains("new/secrets.key is missing, but the store holds secrets"), "{said}");
    std::fs::copy(here.join("data/secrets.key"), here.join("new/secrets.key")).unwrap();
    let server = Server::start(&here.join("new"), scene.site.dns.addr()).await;
    assert!(!is_pinned(server.smtp, &scene.pin).await, "the old key cannot be known");
    scene.opens_its_secrets(&server, "after the restore").await;
    assert_eq!(server.terminate().await, 0);

    // A key that lies elsewhere by the settings is looked for there.
    let settings = ["--secrets-key-file", "elsewhere.key", "--json"];
    let restore = [&["restore", "--from", "copy", "--data", "third"], &settings[..]].concat();
    let said = done(here, &restore).await;
    assert!(said.contains("elsewhere.key, which opens the secrets"), "{said}");
    std::fs::rename(here.join("data/secrets.key"), here.join("elsewhere.key")).unwrap();
    std::fs::remove_dir_all(here.join("third")).unwrap();
    let said = done(here, &restore).await;
    assert!(!said.contains("elsewhere.key"), "{said}");
    assert_eq!(scene.server.terminate().await, 0);
    scene.site.finish().await;
}

/// The line of a key, and what the vault puts before all that the key seals.
fn key(octet: u8) -> (String, Vec<u8>) {
    let key = [octet; 32];
    let name = digest(&SHA256, &key).as_ref()[..4].to_vec();
    (format!("{}\n", STANDARD.encode(key)), [vec![1], name, vec![0; 20]].concat())
}

async fn open(data: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(data.join("gatepost.db"));
    options.connect().await.unwrap()
}

/// A folder with a store in `data` that has a relay sealed by this key, which is beside it.
async fn with_relay(sealed: &[u8], line: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    done(here, &["init", "--data", "data"]).await;
    relay(here, "smtp", [sealed, sealed]).await;
    std::fs::write(here.join("data/secrets.key"), line).unwrap();
    folder
}

async fn relay(here: &Path, kind: &str, [headers, secret]: [&[u8]; 2]) {
    let mut live = open(&here.join("data")).await;
    let relay = "INSERT INTO relays SELECT randomblob(16), id, $1, 'https://a.example/', 1000,
                        $2, $3, '[]', 1, 0, 0 FROM accounts LIMIT 1";
    sqlx::query(relay).bind(kind).bind(headers).bind(secret).execute(&mut live).await.unwrap();
    live.close().await.unwrap();
}

#[tokio::test]
async fn keys_that_open_nothing_of_the_store_are_refused() {
    let ((own, sealed), (other, _)) = (key(1), key(2));
    let folder = with_relay(&sealed, &own).await;
    let here = folder.path();
    std::fs::write(here.join("other.key"), &other).unwrap();
    std::fs::write(here.join("no.key"), "hunter2\n").unwrap();
    let backup = ["backup", "--data", "data", "--to", "copy", "--with-secrets-key"];
    for (file, words) in [
        ("other.key", "other.key opens none of the secrets in the store (relays: 1)"),
        ("no.key", "no.key: line 1 is not a key"),
        ("gone.key", "gone.key is missing: name the file with --secrets-key-file"),
    ] {
        let said = failing(here, &[&backup[..], &["--secrets-key-file", file]].concat()).await;
        assert!(said.contains(words) && !said.contains("hunter2"), "{said}");
        assert!(!here.join("copy").exists(), "{file}");
    }
    done(here, &backup).await;
    let restore = ["restore", "--from", "copy", "--data", "new"];
    for (text, words) in [
        (other.as_str(), "copy/secrets.key opens none of the secrets"),
        ("hunter2\n", "copy/secrets.key: line 1 is not a key"),
    ] {
        std::fs::write(here.join("copy/secrets.key"), text).unwrap();
        let said = failing(here, &restore).await;
        assert!(said.contains(words) && !said.contains("hunter2"), "{said}");
        assert!(!here.join("new").exists(), "{words}: something is left");
    }
    // It goes on without them, and with those that were put beside the backup.
    std::fs::remove_file(here.join("copy/secrets.key")).unwrap();
    assert!(done(here, &restore).await.contains("missing: new/secrets.key"));
    assert!(!here.join("new/secrets.key").exists());
    std::fs::write(here.join("copy/secrets.key"), &own).unwrap();
    let said = done(here, &["restore", "--from", "copy", "--data", "next"]).await;
    assert!(!said.contains("opens the secrets"), "{said}");
    assert_eq!(std::fs::read_to_string(here.join("next/secrets.key")).unwrap(), own);
}

#[tokio::test]
async fn secrets_of_a_key_that_is_lost_are_counted() {
    let ((own, sealed), (_, lost)) = (key(1), key(2));
    let folder = with_relay(&sealed, &own).await;
    let here = folder.path();
    relay(here, "ses", [&sealed, &lost]).await;
    relay(here, "mailgun", [&lost, &lost]).await;
    let backup = ["backup", "--data", "data", "--to", "copy", "--with-secrets-key"];
    let copied = gatepost(here, &backup).await;
    assert!(copied.status.success(), "{copied:?}");
    let said = String::from_utf8_lossy(&copied.stderr).into_owned();
    assert!(said.contains("does not open all sealed secrets (relays: 2)"), "{said}");
    let missing = missing(here, "new").await;
    let keys = missing.iter().find(|one| one.contains("new/secrets.key")).unwrap();
    assert!(keys.contains("(relays: 2): add the key that sealed them"), "{keys}");
}

#[tokio::test]
async fn a_certificate_that_was_changed_in_a_backup_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    done(here, &["init", "--data", "data"]).await;
    std::fs::create_dir(here.join("data/tls")).unwrap();
    let own = here.join("data/tls/self-signed.pem");
    std::fs::write(&own, "a key and its certificate").unwrap();
    // No file of the server's own: the operator keeps it.
    std::fs::write(here.join("data/tls/mine.pem"), "mine").unwrap();
    done(here, &["backup", "--data", "data", "--to", "copy"]).await;
    let copy = here.join("copy/tls/self-signed.pem");
    assert_eq!(tree(&here.join("copy/tls")).len(), 1);
    assert_eq!(std::fs::read(&copy).unwrap(), std::fs::read(&own).unwrap());
    for damage in [Some("another key"), None] {
        match damage {
            Some(text) => std::fs::write(&copy, text).unwrap(),
            None => std::fs::remove_file(&copy).unwrap(),
        }
        let said = failing(here, &["restore", "--from", "copy", "--data", "new"]).await;
        assert!(said.contains("copy/tls/self-signed.pem is damaged"), "{said}");
        assert!(said.contains("remove the file and its line in gatepost.db.sha256"), "{said}");
        assert!(!here.join("new").exists());
    }
    // Nor is one taken that the backup did not write.
    std::fs::copy(&own, &copy).unwrap();
    std::fs::create_dir(here.join("copy/tls/acme")).unwrap();
    std::fs::write(here.join("copy/tls/acme/key.pem"), "another key").unwrap();
    let said = failing(here, &["restore", "--from", "copy", "--data", "new"]).await;
    assert!(
        said.contains("tls/acme/key.pem is damaged: the file is not part of the backup"),
        "{said}"
    );
    assert!(!here.join("new").exists());
}

#[tokio::test]
async fn files_that_lie_elsewhere_are_said_to_be_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    done(here, &["init", "--data", "data"]).await;
    let elsewhere = ["--acme-folder", "acme", "--blobs", "originals"];
    let backup = [&["backup", "--data", "data", "--to", "copy"], &elsewhere[..]].concat();
    let copied = gatepost(here, &backup).await;
    let said = String::from_utf8_lossy(&copied.stderr).into_owned();
    assert!(said.contains("certificates in acme are not part of the backup"), "{said}");
    let restore = [&["restore", "--from", "copy", "--data", "new"], &elsewhere[..]].concat();
    let said = done(here, &restore).await;
    assert!(said.contains("missing: acme (acme-folder)"), "{said}");
    assert!(!said.contains("large originals"), "there are none: {said}");
    // The folder that is the default is part of the backup, however it is named.
    let named = ["backup", "--data", "data", "--to", "other", "--acme-folder", "./data/tls/acme"];
    let copied = gatepost(here, &named).await;
    assert!(copied.status.success() && copied.stderr.is_empty(), "{copied:?}");
}
