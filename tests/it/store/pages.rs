//! How much of the embedded database an accepted message changes: pages in the log for each.

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

async fn commit_group(scene: &Scene, group: u64) {
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
        intakes.push(intake);
    }
    scene.commit(intakes, 0).await;
}

/// What is keyed by a digest, or sorted anew by each message, costs each of them a page or two;
/// what rises with time shares its pages with the rest of its group. Among 4,000 messages there were
/// 16 pages for each while contents were keyed by their digest, each message had two arrival keys,
/// and a room its place in four indexes; without these there were 11, and 9 since a message has its
/// record in its row.
#[tokio::test]
async fn a_message_changes_few_pages() {
    let scene = Scene::new(Kind::Sqlite).await;
    let (filled, measured) = (80, 20);
    for group in 0..filled {
        commit_group(&scene, group).await;
    }
    let mut database = database(&scene.path()).await;
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)").await.unwrap();
    for group in filled..filled + measured {
        commit_group(&scene, group).await;
    }
    let log = scene.path().join("gatepost.db-wal").metadata().unwrap().len();
    let tenths = 10 * log / FRAME / (measured * GROUP);
    assert!((1..=92).contains(&tenths), "{tenths} tenths of a page for each message");
    // Beside its own ids, by account, and in its room; those of a first message are its own.
    let indexes = "SELECT COUNT(*) FROM pragma_index_list('messages') WHERE partial = 0";
    assert_eq!(scene.count(indexes).await, 6);
    assert_eq!(scene.count("SELECT COUNT(*) FROM intake_records").await, 0);
}
