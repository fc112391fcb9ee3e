//! Damage at rest: a damaged row hides no other, all damage can be found, and a damaged file ends
//! the server with advice.

use std::path::Path;

use gatepost::domain::clock::TimeRange;
use gatepost::run;
use gatepost::shutdown::Shutdown;
use gatepost::store::{Commit, Location, Store, StoreError, StorePlace};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::objects;
use super::scene::{Kind, Scene, at, by, database, everything, subtree};
use crate::support::process::{Server, gatepost};
use crate::support::session::Session;
use crate::support::{
    PATIENCE, TestGateway, all_messages, http, local_dns, rules, signed, store_rules,
};

on_both! {
    a_row_that_cannot_be_read_is_shown_as_such_among_the_others,
    all_that_is_damaged_is_found,
    what_is_erased_while_it_is_read_is_not_lost,
}

const DAMAGE: &str =
    "UPDATE contents SET packed = (SELECT digest FROM messages ORDER BY at LIMIT 1)
    WHERE content_id = (SELECT content_id FROM messages ORDER BY at LIMIT 1)";

async fn a_row_that_cannot_be_read_is_shown_as_such_among_the_others(kind: Kind) {
    let scene = Scene::new(kind).await;
    let damaged = scene.deliver(&scene.agent, 0).await;
    let ids = [damaged, scene.deliver(&scene.agent, 1).await, scene.deliver(&scene.agent, 2).await];
    let scope = subtree(&scene.agent);
    let whole =
        scene.store.recent_messages(&scope, TimeRange::default(), &everything()).await.unwrap();
    scene.execute(DAMAGE).await;
    let room = whole[0].room();
    let recent =
        scene.store.recent_messages(&scope, TimeRange::default(), &everything()).await.unwrap();
    let page = everything();
    let of_room = scene.store.room_messages(&scope, room, None, &page).await.unwrap();
    let named = scene.store.messages(&scope, &ids).await.unwrap();
    let none = |_: &gatepost::domain::message::Message| false;
    let found = scene.store.messages_matching(&scope, &ids, u64::MAX, none).await.unwrap().found;
    // A search cannot tell whether that one says what was looked for.
    assert_eq!(found.len(), 1);
    for list in [recent, of_room, named] {
        assert_eq!(list.len(), 3);
        for message in list {
            let before = whole.iter().find(|one| one.id == message.id).unwrap();
            assert_eq!(message.unreadable, message.id == damaged);
            assert_eq!((message.at, message.from()), (before.at, before.from()));
            assert_eq!(message.text().is_empty(), message.unreadable);
        }
    }
    assert!(found[0].unreadable && found[0].id == damaged);
    // Others go on beside it.
    let intake = scene.intake(&scene.agent, 3).await;
    scene.store.commit(&Commit { intakes: vec![intake], now: at(3) }).await.unwrap();
}

async fn all_that_is_damaged_is_found(kind: Kind) {
    let scene = Scene::new(kind).await;
    for millis in 0..4 {
        scene.deliver(&scene.agent, millis).await;
    }
    assert_eq!(scene.store.check_integrity().await.unwrap(), [""; 0]);
    let ids = scene.store.message_ids(None).await.unwrap();
    assert_eq!(ids.len(), 4);
    assert!(scene.store.message_ids(Some(ids[3])).await.unwrap().is_empty());
    // The digests of a scene are made up, so that each of its originals has another one.
    for id in &ids {
        let found = scene.store.check_message(*id).await.unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("digest of the original differs"), "{found:?}");
    }
    scene.execute(DAMAGE).await;
    scene
        .execute(
            "UPDATE contents SET original = (SELECT digest FROM messages ORDER BY at LIMIT 1)
             WHERE content_id = (SELECT content_id FROM messages ORDER BY at DESC LIMIT 1)",
        )
        .await;
    let mut tables = Vec::new();
    for id in &ids {
        for damage in scene.store.check_message(*id).await.unwrap() {
            if !damage.contains("digest of the original differs") {
                tables.push(damage.split(':').next().unwrap().to_owned());
            }
        }
    }
    tables.sort();
    let unreadable = |table: &str| format!("cannot read a row of {table}");
    // A small original is packed with what was read out of it: they are lost together.
    assert_eq!(tables, ["contents", "contents", "messages"].map(unreadable));
}

/// The original is asked for when its row was read, and the answer comes after the erasure.
async fn what_is_erased_while_it_is_read_is_not_lost(kind: Kind) {
    let scene = Scene::new(kind).await;
    let here = objects::with_blobs(&scene).await;
    let bucket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = StorePlace::new(scene.location.clone(), Some(objects::bucket_at(&bucket)));
    let elsewhere = Store::open(place, &objects::rules(), run::system_mint()).await.unwrap();
    let scope = subtree(&scene.agent);
    for (is_checked, is_erased) in [(true, false), (true, true), (false, false), (false, true)] {
        let (intake, id) = objects::large(&scene, &scene.agent, 0, 5000).await;
        objects::committed(&here, vec![intake]).await;
        let reading = async {
            match is_checked {
                true => elsewhere.check_message(id).await.unwrap().is_empty(),
                false => matches!(elsewhere.raw_message(&scope, id).await, Ok(None)),
            }
        };
        let answering = async {
            let (mut asked, _) = bucket.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                assert_ne!(asked.read_buf(&mut head).await.unwrap(), 0, "the head of a request");
            }
            if is_erased {
                assert!(here.erase_message(&scope, id, by(at(1))).await.unwrap());
            }
            let missing =
                "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            asked.write_all(missing.as_bytes()).await.unwrap();
            // Until the other end closes: a reset might overtake the answer.
            tokio::io::copy(&mut asked, &mut tokio::io::sink()).await.unwrap();
        };
        let both = async { tokio::join!(reading, answering) };
        let (is_gone, ()) = timeout(PATIENCE, both).await.unwrap();
        assert_eq!(is_gone, is_erased, "checked: {is_checked}");
    }
}

/// As a newer gateway writes beside this one: the list has the others, on all its pages.
#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_deliveries_goes_on_beside_an_event_of_another_version() {
    let gateway = TestGateway::with_rules(&[("access.toml", "[limits]\npage_step = 1")]).await;
    for subject in ["first", "second", "third"] {
        let to = ["support@agents.example"];
        let sent = gateway.send("alice@good.example", &to, &signed(subject)).await;
        assert!(sent.accepted(), "{}", sent.settling());
    }
    let webhook = gateway.get("/webhooks").await["webhooks"][0]["id"].clone();
    let list = format!("/webhooks/{}/deliveries", webhook.as_str().unwrap());
    let all = gateway.get(&list).await["deliveries"].clone();
    let ids = |deliveries: &Value| -> Vec<String> {
        let all = deliveries.as_array().unwrap().iter();
        all.map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    let [third, second, first] = &ids(&all)[..] else { panic!("{all}") };
    let renamed = "UPDATE events SET names = REPLACE(names, 'email.received', 'no.such')
                   WHERE id = (SELECT event_id FROM deliveries ORDER BY created_at, id
                               LIMIT 1 OFFSET 1)";
    let store = gateway.folder.path().join("store");
    sqlx::query(renamed).execute(&mut database(&store).await).await.unwrap();
    let page = gateway.get(&format!("{list}?limit=2")).await;
    assert_eq!(ids(&page["deliveries"]), std::slice::from_ref(third));
    let next = page["next"].as_str().unwrap();
    let page = gateway.get(&format!("{list}?limit=2&before={next}")).await;
    assert_eq!((ids(&page["deliveries"]), &page["next"]), (vec![first.clone()], &Value::Null));
    let (status, _) = gateway.request("GET", &format!("/deliveries/{second}"), None).await;
    assert_eq!(status, 404);
    gateway.finish().await;
}

/// The lists, the search and the command, from outside.
#[tokio::test(flavor = "multi_thread")]
async fn lists_go_on_beside_a_damaged_row_and_the_command_finds_it() {
    // An unreadable message that is not indexed yet might match any search.
    let rules = [("access.toml", "[search]\nindex_patience_seconds = 3600")];
    let gateway = TestGateway::with_rules(&rules).await;
    for subject in ["first", "second"] {
        let to = ["support@agents.example"];
        let sent = gateway.send("alice@good.example", &to, &signed(subject)).await;
        assert!(sent.accepted(), "{}", sent.settling());
    }
    let store = gateway.folder.path().join("store");
    let data = store.to_str().unwrap().to_owned();
    let check = async || {
        let output = gatepost(Path::new("."), &["check-store", "--data", &data, "--json"]).await;
        let lines = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (output.status.code(), lines)
    };
    let (code, lines) = check().await;
    assert_eq!((code, lines[0]["messages"].as_u64(), lines.len()), (Some(0), Some(2), 1));
    sqlx::query(DAMAGE).execute(&mut database(&store).await).await.unwrap();
    let messages = all_messages(gateway.http, &gateway.key).await;
    let status: Vec<_> = messages.iter().map(|one| one["status"].as_str().unwrap()).collect();
    assert_eq!(status, ["success", "unreadable"]);
    assert_eq!(messages[1]["metadata"]["emailFrom"], "alice@good.example");
    let found = gateway.get("/messages/search?q=hello").await;
    assert_eq!(found.as_array().unwrap().len(), 2, "{found}");
    gateway.get("/conversations").await;
    gateway.get("/events?limit=10").await;
    gateway.get("/logs").await;
    let (code, lines) = check().await;
    // The parsed mail, and the small original packed with it.
    assert_eq!((code, lines.len()), (Some(1), 3), "{lines:?}");
    for line in &lines[..2] {
        assert_eq!(line["message"], messages[1]["uuid"]);
    }
    assert_eq!((&lines[2]["messages"], &lines[2]["damaged"]), (&2.into(), &2.into()));
    gateway.finish().await;
}

/// SQLite's `malformed`: going on would answer from what may be wrong.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_ends_the_server_with_what_to_do() {
    let (folder, helpers) = (tempfile::tempdir().unwrap(), Shutdown::default());
    let data = folder.path().join("store");
    let location = Location::Folder(data.clone());
    Store::create(&location, &store_rules(), run::system_mint()).await.unwrap().close().await;
    let dns = local_dns(&helpers).await;
    let log = folder.path().join("log");
    let server = Server::start_logging(&data, dns.addr(), &[], &log).await;
    let file = data.join("gatepost.db");
    let length = usize::try_from(file.metadata().unwrap().len()).unwrap();
    std::fs::write(&file, vec![0xff; length]).unwrap();
    let ready = format!("http://{}/api/v2/account?token=gp_{:043}", server.http, 7);
    let client = reqwest::Client::new();
    // Until it listens no more.
    let asking = async { while client.get(&ready).send().await.is_ok() {} };
    timeout(PATIENCE, asking).await.unwrap();
    assert_eq!(server.ended().await, 1);
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(
        said.contains("the database file is damaged: keep a copy of the data folder"),
        "{said}"
    );
    assert!(said.contains("gatepost restore") && !said.contains("does not answer"), "{said}");
    let opened = Store::open(&location, &store_rules(), run::system_mint()).await.unwrap_err();
    assert!(matches!(opened, StoreError::Open { .. } | StoreError::Damaged(_)), "{opened:?}");
    assert!(helpers.finish(PATIENCE).await);
}

/// Threats K19: a line for each would fill what is left of the disk.
#[tokio::test(flavor = "multi_thread")]
async fn mail_that_is_put_off_again_and_again_is_one_line_of_the_log() {
    let (folder, helpers) = (tempfile::tempdir().unwrap(), Shutdown::default());
    let data = folder.path().join("store");
    let location = Location::Folder(data.clone());
    Store::create(&location, &store_rules(), run::system_mint()).await.unwrap().close().await;
    rules(folder.path(), &[("smtp.toml", "[space]\nmin_free_bytes = 4611686018427387904\n")]);
    let dns = local_dns(&helpers).await;
    let (log, policies) = (folder.path().join("log"), folder.path().join("policies"));
    let arguments = ["--policies", policies.to_str().unwrap()];
    let server = Server::start_logging(&data, dns.addr(), &arguments, &log).await;
    for _ in 0..5 {
        let mut session = Session::idle(server.smtp).await;
        for _ in 0..5 {
            let reply = session.say("MAIL FROM:<alice@good.example>").await;
            assert!(reply.starts_with("452 4.3.1"), "{reply}");
        }
    }
    let answer = http::get(&format!("http://{}/readyz", server.http)).await;
    assert_eq!(answer.status, 503);
    assert_eq!(server.terminate().await, 0);
    let said = std::fs::read_to_string(&log).unwrap();
    assert_eq!(said.matches("too little free disk space").count(), 1, "{said}");
    assert!(helpers.finish(PATIENCE).await);
}
