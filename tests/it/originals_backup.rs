//! Large originals in backups: those beside the database go along, those elsewhere do not and the
//! command says so.

use std::path::Path;

use gatepost::rules::Rules;
use gatepost::store::Location;
use gatepost::testkit::smtp_client::{Transaction, deliver};

use crate::support::process::{GATEPOST, Server, failing, gatepost};
use crate::support::site::Site;
use crate::support::{all_messages, http, letter, signer};

/// A signed message of about half a megabyte.
fn large() -> Vec<u8> {
    let text = format!("{}{}", letter("large"), "some more\r\n".repeat(50_000));
    signer().sign(text.as_bytes()).unwrap()
}

/// Sends a large message to a server on `data`; `more` are words before the server's own.
async fn take_in(data: &Path, site: &Site, more: &[&str], raw: &[u8]) {
    let server = Server::start_by(&[more, &[GATEPOST]].concat(), data, site.dns.addr()).await;
    let to = ["support@agents.example".to_owned()];
    let (helo, from) = ("client.example", "alice@good.example");
    let transaction = Transaction { helo, from, to: &to, raw };
    assert!(deliver(server.smtp, &transaction).await.unwrap().accepted());
    assert_eq!(server.terminate().await, 0);
}

/// The original of the only message, as a server on `data` serves it.
async fn original(data: &Path, site: &Site, more: &[&str]) -> Vec<u8> {
    let server = Server::start_by(&[more, &[GATEPOST]].concat(), data, site.dns.addr()).await;
    let message = all_messages(server.http, &site.key).await.remove(0);
    let path = message["metadata"]["emailRawUrl"].as_str().unwrap().to_owned();
    let url = format!("http://{}{path}?token={}", server.http, site.key);
    let answer = http::get(&url).await;
    assert_eq!(answer.status, 200);
    assert_eq!(server.terminate().await, 0);
    answer.body
}

#[tokio::test(flavor = "multi_thread")]
async fn originals_beside_the_database_go_along() {
    let folder = tempfile::tempdir().unwrap();
    let (here, data) = (folder.path(), folder.path().join("data"));
    let site = Site::build(&Location::Folder(data.clone()), &Rules::defaults().unwrap()).await;
    site.leave_store().await;
    let raw = large();
    take_in(&data, &site, &[], &raw).await;
    let copied = gatepost(here, &["backup", "--data", "data", "--to", "copy"]).await;
    assert!(copied.status.success(), "{copied:?}");
    assert!(copied.stderr.is_empty(), "{copied:?}");
    let owner = std::fs::read(data.join("blobs/owner")).unwrap();
    assert!(!here.join("copy/blobs/owner").exists());
    // Another spelling of the path of the originals is beside the database, too.
    let named = ["backup", "--data", "data", "--blobs", "./data/../data/blobs", "--to", "named"];
    assert!(gatepost(here, &named).await.stderr.is_empty());
    assert!(here.join("named/blobs/raw").is_dir());
    // A restore with a setting for another place is refused: it would pass over the originals in
    // the copy.
    let aside = ["restore", "--from", "copy", "--data", "new", "--blobs", "aside"];
    let said = failing(here, &aside).await;
    assert!(said.contains("restore without `blobs`"), "{said}");
    assert!(!here.join("new").exists());
    std::fs::remove_dir_all(&data).unwrap();
    let restored = gatepost(here, &["restore", "--from", "copy", "--data", "new"]).await;
    assert!(restored.status.success(), "{restored:?}");
    // It is the same database, with originals that are known to be its own.
    assert_eq!(std::fs::read(here.join("new/blobs/owner")).unwrap(), owner);
    assert_eq!(original(&here.join("new"), &site, &[]).await, raw);
    site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn originals_elsewhere_are_said_to_be_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let (here, data) = (folder.path(), folder.path().join("data"));
    let site = Site::build(&Location::Folder(data.clone()), &Rules::defaults().unwrap()).await;
    site.leave_store().await;
    let raw = large();
    let (blobs, elsewhere) = (here.join("blobs"), format!("GATEPOST_BLOBS={}", here.display()));
    let elsewhere = ["env", &format!("{elsewhere}/blobs")];
    take_in(&data, &site, &elsewhere, &raw).await;
    let blobs = blobs.to_str().unwrap();
    let backup = ["backup", "--data", "data", "--blobs", blobs, "--to", "copy"];
    let copied = gatepost(here, &backup).await;
    assert!(copied.status.success(), "{copied:?}");
    let said = String::from_utf8_lossy(&copied.stderr).into_owned();
    assert!(said.contains("not part of the backup") && said.contains(blobs), "{said}");
    assert!(!here.join("copy/blobs").exists());
    // Without the setting it is looked for beside the database, and its absence is no backup.
    let wrong = gatepost(here, &["backup", "--data", "data", "--to", "wrong"]).await;
    assert_eq!(wrong.status.code(), Some(1), "{wrong:?}");
    let restore = ["restore", "--from", "copy", "--data", "new", "--blobs", blobs];
    let restored = gatepost(here, &restore).await;
    assert!(restored.status.success(), "{restored:?}");
    assert_eq!(original(&here.join("new"), &site, &elsewhere).await, raw);
    site.finish().await;
}
