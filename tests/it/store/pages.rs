//! How much of the embedded database an accepted message changes: pages in the log for each, in its commit
//! and behind it, when it is indexed.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use gatepost::domain::message::Digest;
use gatepost::domain::thread::{ThreadKey, ThreadKeys};
use sqlx::Executor as _;

use super::scene::{Kind, Scene, database};

/// Messages of one commit.
const GROUP: u64 = 15;
const SENDERS: u64 = 700;
/// Each with its header (<https://sqlite.org/fileformat2.html>, 4.1).
const FRAME: u64 = 2048 + 24;

/// Commits one group of messages; `text` makes the text of each message from its number.
async fn commit_group(scene: &Scene, group: u64, text: impl Fn(u64) -> String) {
    let mut intakes = Vec::new();
    for number in (1..=GROUP).map(|place| group * GROUP + place) {
        let hash = |of: &str| {
            let mut octets = [0; 32];
            octets.copy_from_slice(digest(&SHA256, format!("{of} {number}").as_bytes()).as_ref());
            octets
        };
        let sender = number * 7919 % SENDERS;
        let from = format!("sender{sender}@good.example");
        let millis = i64::try_from(number * 10).unwrap();
        let agent = if sender.is_multiple_of(2) { &scene.agent } else { &scene.other };
        let mut intake = scene.intake_from(agent, millis, &from, Some("Alice")).await;
        let accepted = intake.accepted.as_mut().unwrap();
        accepted.raw = (0..32).flat_map(|part| hash(&part.to_string())).collect();
        accepted.message.digest = Digest(hash("raw"));
        accepted.arrival_keys = vec![hash("signature")];
        let own = ThreadKey(*hash("thread").first_chunk().unwrap());
        accepted.message.thread = ThreadKeys { own: Some(own), named: Vec::new() };
        Arc::make_mut(&mut accepted.message.mail).text = text(number);
        intakes.push(intake);
    }
    scene.commit(intakes, 0).await;
}

/// As people write: of the words of a language few are frequent, and most are rare.
fn prose(number: u64) -> String {
    let mut dice = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    let words = (0..600).map(|_| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The smaller of ever more numbers: a tenth of the words makes most of a text.
        let range = 1_u64 << (4 + (dice >> 60) % 13);
        let word = (dice >> 33) % range;
        let letters =
            [7, 5, 3].map(|prime| char::from(b'a' + u8::try_from(word / prime % 26).unwrap()));
        format!("{}{word}", letters.iter().collect::<String>())
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The log so far, in tenths of a page for each of so many messages.
fn tenths(scene: &Scene, messages: u64) -> u64 {
    let log = scene.path().join("gatepost.db-wal").metadata().unwrap().len();
    10 * log / FRAME / messages
}

async fn empty_the_log(scene: &Scene) {
    let mut database = database(&scene.path()).await;
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)").await.unwrap();
}

/// A row whose key is a digest, or whose place in an index changes with each message, costs that
/// message a page or two. Rows whose keys rise with time share their pages with the rest of the
/// group. Measured among 4,000 messages: 16 pages for each while contents were keyed by digest, a
/// message had two arrival keys, and a room had its place in four indexes; 11 without these, with
/// the search index written in the commit; fewer since the intake record is part of the message's
/// row.
#[tokio::test]
async fn a_message_changes_few_pages() {
    let scene = Scene::new(Kind::Sqlite).await;
    let hello = |_| "hello".to_owned();
    let (filled, measured) = (80, 20);
    for group in 0..filled {
        commit_group(&scene, group, hello).await;
    }
    scene.index().await;
    empty_the_log(&scene).await;
    for group in filled..filled + measured {
        commit_group(&scene, group, hello).await;
    }
    scene.index().await;
    let tenths = tenths(&scene, measured * GROUP);
    assert!((1..=92).contains(&tenths), "{tenths} tenths of a page for each message");
    // Beside its own ids, by account, and in its room; those of a first message are its own.
    let indexes = "SELECT COUNT(*) FROM pragma_index_list('messages') WHERE partial = 0";
    assert_eq!(scene.count(indexes).await, 6);
    assert_eq!(scene.count("SELECT COUNT(*) FROM intake_records").await, 0);
}

/// A mail as people write has hundreds of words, each of which is to be found: in the commit they took
/// 11 pages, as many as everything else together. Behind it, many messages at a time, they take 3.
#[tokio::test]
async fn words_of_a_mail_change_few_pages_behind_its_commit() {
    let scene = Scene::new(Kind::Sqlite).await;
    let (filled, measured) = (40, 20);
    for group in 0..filled {
        commit_group(&scene, group, prose).await;
    }
    let index = async || while scene.store.index_messages(250, 262_144).await.unwrap() > 0 {};
    index().await;
    empty_the_log(&scene).await;
    for group in filled..filled + measured {
        commit_group(&scene, group, prose).await;
    }
    let in_commits = tenths(&scene, measured * GROUP);
    empty_the_log(&scene).await;
    index().await;
    let behind = tenths(&scene, measured * GROUP);
    assert!((1..=120).contains(&in_commits), "{in_commits} tenths of a page for each message");
    assert!(
        (1..=45).contains(&behind),
        "{behind} tenths of a page behind the commit of each message"
    );
}
