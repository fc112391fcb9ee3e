//! Grouped writes: callers share a transaction, and each gets its own answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::FutureExt as _;
use gatepost::domain::event::Category;
use gatepost::domain::id::IntakeId;
use gatepost::domain::intake_record::IntakeRecord;
use gatepost::domain::policy::Mode;
use gatepost::domain::reason::Reason;
use gatepost::domain::scope::Scope;
use gatepost::domain::verdict::Verdict;
use gatepost::rules::Rules;
use gatepost::run;
use gatepost::store::{
    Commit, Committed, ErasureLimits, ErasureProgress, Finished, Intake, IntakeFilter, Store,
    StoreError,
};
use sqlx::Executor as _;
use tokio::task::JoinSet;

use crate::support::PATIENCE;

use super::scene::{DAY, Kind, Scene, at, by, database, everything, mint, record, subtree};

on_both! {
    each_of_many_that_wait_gets_its_own_answer,
    a_repeat_of_a_repeat_names_the_first,
    one_message_for_two_agents_makes_one_contact_and_two_rooms,
    letters_that_wait_together_tell_the_contact_in_their_order,
    attempts_that_end_together_are_recorded_each,
}

const MANY: i64 = 60;

/// Good ones, stale ones and ones that break a constraint, all at once.
async fn each_of_many_that_wait_gets_its_own_answer(kind: Kind) {
    let scene = Arc::new(Scene::new(kind).await);
    scene.listen(&scene.partner, Category::Incoming, "https://a.example/").await;
    let taken = record(&scene.agent, 0, Verdict::Accepted);
    let first = Intake { record: taken.clone(), accepted: None };
    assert_eq!(scene.commit(vec![first.clone()], 0).await, Committed::Done(vec![None]));
    let mut commits = Vec::new();
    for number in 0..MANY {
        let agent = if number % 3 == 1 { &scene.other } else { &scene.agent };
        let from = format!("sender{}@good.example", number % 7);
        let mut intakes = vec![scene.intake_from(agent, number, &from, None).await];
        if number % 3 == 2 {
            intakes.push(first.clone());
        }
        commits.push((number, Commit { intakes, now: at(number) }));
    }
    scene.store.set_mode(scene.other.id, Mode::Allowlist, by(at(0))).await.unwrap();
    let mut tasks = JoinSet::new();
    for (number, commit) in commits {
        let scene = Arc::clone(&scene);
        tasks.spawn(async move { (number, scene.store.commit(&commit).await) });
    }
    for (number, answer) in tasks.join_all().await {
        match number % 3 {
            0 => assert_eq!(answer.unwrap(), Committed::Done(vec![None]), "{number}"),
            1 => assert_eq!(answer.unwrap(), Committed::Stale, "{number}"),
            _ => assert!(matches!(answer, Err(StoreError::Database(_))), "{number}: {answer:?}"),
        }
    }
    for (table, count) in [
        ("messages", MANY / 3),
        ("contents", MANY / 3),
        ("deliveries", MANY / 3),
        ("records", MANY / 3 + 1),
        ("contacts", 7),
    ] {
        let sql = format!("SELECT COUNT(*) FROM {table}").leak();
        assert_eq!(scene.count(sql).await, count, "{table}");
    }
}

async fn a_repeat_of_a_repeat_names_the_first(kind: Kind) {
    let scene = Scene::new(kind).await;
    let before = scene.intake(&scene.agent, 0).await;
    let known = before.record.message;
    let mut keys = vec![before.accepted.as_ref().unwrap().arrival_keys[0]];
    scene.commit(vec![before], 0).await;
    keys.extend([[1; 32], [2; 32], [3; 32], [4; 32]]);
    let with = async |held: &[usize]| {
        let mut intake = scene.intake(&scene.agent, 1).await;
        intake.accepted.as_mut().unwrap().arrival_keys = held.iter().map(|k| keys[*k]).collect();
        intake
    };
    // In one transaction: new; the same by another key; the same by that; one that was known.
    let fresh = with(&[1, 2]).await;
    let new = fresh.record.message;
    let group = vec![fresh, with(&[2, 3]).await, with(&[3]).await, with(&[0, 4]).await];
    let done = scene.commit(group, 1).await;
    assert_eq!(done, Committed::Done(vec![None, new, new, known]));
    // The keys that the repeats brought are remembered for the first.
    let later = vec![with(&[3]).await, with(&[4]).await];
    assert_eq!(scene.commit(later, DAY).await, Committed::Done(vec![new, known]));
    assert_eq!(scene.count("SELECT COUNT(*) FROM messages").await, 2);
    assert_eq!(scene.count("SELECT COUNT(DISTINCT message_id) FROM arrivals").await, 2);
}

async fn one_message_for_two_agents_makes_one_contact_and_two_rooms(kind: Kind) {
    let scene = Scene::new(kind).await;
    for category in [Category::Contact, Category::Conversation, Category::Incoming] {
        scene.listen(&scene.organization, category, "https://a.example/").await;
    }
    let group = vec![scene.intake(&scene.agent, 0).await, scene.intake(&scene.other, 0).await];
    assert_eq!(scene.commit(group, 0).await, Committed::Done(vec![None, None]));
    let expected = [("contact.created", 1), ("conversation.started", 2), ("email.received", 2)];
    assert_eq!(told(&scene).await, expected.map(|(name, count)| (name.to_owned(), count)).into());
}

async fn letters_that_wait_together_tell_the_contact_in_their_order(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen(&scene.organization, Category::Contact, "https://a.example/").await;
    scene.listen(&scene.organization, Category::Conversation, "https://a.example/").await;
    let mut group = Vec::new();
    for (millis, name) in [(3, Some("Al")), (4, Some("Alice")), (5, None), (6, Some("Alice"))] {
        group.push(scene.intake_from(&scene.agent, millis, "al@good.example", name).await);
    }
    scene.commit(group, 6).await;
    let expected = [
        ("contact.created", 1),
        ("contact.updated", 1),
        ("conversation.started", 1),
        ("conversation.updated", 3),
    ];
    assert_eq!(told(&scene).await, expected.map(|(name, count)| (name.to_owned(), count)).into());
    let claims = scene.store.claim_deliveries(at(7 * DAY), at(8 * DAY), 100, &[]).await.unwrap();
    let contact = claims.into_iter().find_map(|claim| match claim.subject {
        gatepost::domain::delivery::Subject::Contact(contact) => Some(contact),
        _ => None,
    });
    let contact = contact.unwrap();
    assert_eq!(contact.name.as_deref(), Some("Alice"));
    assert_eq!((contact.first_seen, contact.last_seen), (at(3), at(6)));
}

/// How many deliveries there are of each event.
async fn told(scene: &Scene) -> BTreeMap<String, usize> {
    let mut told = BTreeMap::new();
    for claim in scene.store.claim_deliveries(at(DAY), at(2 * DAY), 100, &[]).await.unwrap() {
        *told.entry(claim.event.name.to_string()).or_default() += 1;
    }
    told
}

/// Delivered, to be tried again, gone: at once, and one of them told twice.
async fn attempts_that_end_together_are_recorded_each(kind: Kind) {
    use gatepost::domain::delivery::{Attempt, Outcome};
    use gatepost::domain::id::AttemptId;

    let scene = Arc::new(Scene::new(kind).await);
    for number in 0..30 {
        let url = format!("https://d{number}.example/");
        scene.listen(&scene.agent, Category::Incoming, &url).await;
    }
    scene.deliver(&scene.agent, 0).await;
    let claims = scene.store.claim_deliveries(at(1), at(DAY), 100, &[]).await.unwrap();
    assert_eq!(claims.len(), 30);
    let mut tasks = JoinSet::new();
    for (number, claim) in claims.into_iter().enumerate() {
        let scene = Arc::clone(&scene);
        tasks.spawn(async move {
            let attempt = Attempt {
                id: AttemptId(mint().uuid()),
                at: at(2),
                latency_ms: 1,
                status: None,
                response: Vec::new(),
                error: None,
            };
            let outcome = match number % 3 {
                0 => Outcome::Delivered,
                1 => Outcome::RetryAt(at(2 * DAY)),
                _ => Outcome::Gone,
            };
            let finish = || scene.store.finish_delivery(&claim, &attempt, outcome);
            let (first, second) = tokio::join!(finish(), finish());
            let recorded =
                |done: Result<Finished, StoreError>| done.is_ok_and(|done| done.recorded);
            assert!(recorded(first) ^ recorded(second), "recorded once");
        });
    }
    tasks.join_all().await;
    for (state, count) in [("delivered", 10), ("pending", 10), ("cancelled", 10)] {
        let sql = format!("SELECT COUNT(*) FROM deliveries WHERE state = '{state}'").leak();
        assert_eq!(scene.count(sql).await, count, "{state}");
    }
    assert_eq!(scene.count("SELECT COUNT(*) FROM attempts").await, 30);
    assert_eq!(scene.count("SELECT COUNT(*) FROM audit_entries WHERE actor = 'gateway'").await, 10);
}

/// Sixty-four thousand characters that cannot be packed.
fn noise(number: u32) -> Vec<u8> {
    let mut state = number;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        u8::try_from(state >> 24).unwrap()
    };
    (0..65_536).map(|_| next()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn records_of_refusals_wait_behind_their_replies_within_their_room() {
    let scene = Scene::new(Kind::Sqlite).await;
    let refusal = |number| {
        let verdict = Verdict::Refused(Reason::DkimMissing);
        let record = IntakeRecord { headers: noise(number), ..record(&scene.agent, 0, verdict) };
        let intakes = vec![Intake { record, accepted: None }];
        Commit { intakes, now: at(0) }
    };
    let refusals: Vec<Commit> = (0..256).map(refusal).collect();
    let mut writer = database(&scene.path()).await;
    writer.execute("BEGIN IMMEDIATE").await.unwrap();
    let (mut noted, mut waited) = (BTreeSet::new(), None);
    for refusal in refusals {
        let id = refusal.intakes[0].record.id;
        // A caller that finds the queue full waits for the writer.
        let Some(written) = scene.store.note(&refusal).now_or_never() else {
            waited = Some(id);
            break;
        };
        assert!(!written.unwrap());
        noted.insert(id);
    }
    // Each takes slightly more than a 256th of the queue's bytes; a slow machine takes fewer before
    // one is late.
    assert!((1..256).contains(&noted.len()), "{}", noted.len());
    drop(writer);
    let (scope, filter) = (subtree(&scene.agent), IntakeFilter::default());
    let found = async {
        loop {
            let page = everything();
            let found = scene.store.intake_records(&scope, &filter, &page).await.unwrap();
            if noted.iter().all(|id| found.iter().any(|record| record.id == *id)) {
                return found;
            }
        }
    };
    let found = tokio::time::timeout(PATIENCE, found).await.unwrap();
    let mut found: BTreeSet<_> = found.iter().map(|record| record.id).collect();
    // Dropped while it waited, it may have been on its way already.
    waited.map(|id| found.remove(&id));
    assert_eq!(found, noted);
}

/// A handle that waits a second for whoever writes.
async fn impatient(scene: &Scene) -> Store {
    let folder = tempfile::tempdir().unwrap();
    let soon = "[connections]\nacquire_seconds = 1\nprobe_seconds = 1\n";
    std::fs::write(folder.path().join("store.toml"), soon).unwrap();
    let rules = Rules::load(folder.path()).unwrap().store;
    Store::open(&scene.location, &rules, run::system_mint()).await.unwrap()
}

/// As long as the process lives nothing is lost by a store that fails for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_record_of_a_refusal_is_written_once_the_store_takes_it() {
    let scene = Scene::new(Kind::Sqlite).await;
    let store = impatient(&scene).await;
    let mut writer = database(&scene.path()).await;
    writer.execute("BEGIN IMMEDIATE").await.unwrap();
    let refused = record(&scene.agent, 0, Verdict::Refused(Reason::DkimMissing));
    let (id, scope) = (refused.id, subtree(&scene.agent));
    let intakes = vec![Intake { record: refused.clone(), accepted: None }];
    assert!(!store.note(&Commit { intakes, now: at(0) }).await.unwrap());
    // Each takes as long as the store waits for whoever writes.
    for _ in 0..3 {
        store.check_writable().await.unwrap_err();
    }
    let refused = IntakeRecord { id: IntakeId(mint().uuid()), ..refused };
    let intakes = vec![Intake { record: refused, accepted: None }];
    let next = Commit { intakes, now: at(0) };
    assert!(store.note(&next).now_or_never().is_none(), "one is late");
    assert_eq!(store.intake_record(&scope, id).await.unwrap(), None);
    drop(writer);
    let found = async { while store.intake_record(&scope, id).await.unwrap().is_none() {} };
    tokio::time::timeout(PATIENCE, found).await.unwrap();
}

/// A record that is late would come behind the place of the search, and tell of the erased contact.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_erasure_waits_for_records_that_are_late() {
    let scene = Scene::new(Kind::Sqlite).await;
    let (store, scope) = (impatient(&scene).await, subtree(&scene.organization));
    scene.deliver(&scene.agent, 0).await;
    let contact = store.list_contacts(&scope, None, None, 9).await.unwrap().remove(0).id;
    assert!(store.erase_contact(&scope, contact, by(at(9))).await.unwrap());
    let step = async || {
        let limits = ErasureLimits { rows: 9, octets: 9 };
        store.erase_some(contact.get(), limits, at(10)).await.unwrap()
    };
    assert_eq!(step().await, ErasureProgress::More, "its message");
    let mut writer = database(&scene.path()).await;
    writer.execute("BEGIN IMMEDIATE").await.unwrap();
    let refused = record(&scene.agent, 1, Verdict::Refused(Reason::DkimMissing));
    let id = refused.id;
    let intakes = vec![Intake { record: refused, accepted: None }];
    assert!(!store.note(&Commit { intakes, now: at(1) }).await.unwrap());
    assert_eq!(step().await, ErasureProgress::Held);
    drop(writer);
    let done = async { while step().await != ErasureProgress::Done {} };
    tokio::time::timeout(PATIENCE, done).await.unwrap();
    let told = store.intake_record(&scope, id).await.unwrap().unwrap();
    assert_eq!((told.sender, told.helo.as_str()), (None, ""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whoever_guesses_again_does_not_wait_and_is_counted() {
    let scene = Scene::new(Kind::Sqlite).await;
    let guess = |millis| record(&scene.agent, millis, Verdict::Refused(Reason::UnknownRecipient));
    let (first, network) = (guess(0), "192.0.2.0/24");
    assert_eq!(scene.store.count_refusal(&first, network).await.unwrap(), first.id);
    let mut writer = database(&scene.path()).await;
    writer.execute("BEGIN IMMEDIATE").await.unwrap();
    let again = guess(1);
    let counted = scene.store.count_refusal(&again, network).now_or_never().unwrap();
    assert_eq!(counted.unwrap(), first.id);
    let other = guess(0);
    let of_others = scene.store.count_refusal(&other, "198.51.100.0/24").now_or_never();
    assert!(of_others.is_none(), "the first of its kind makes the record");
    drop(writer);
    let (scope, id) = (subtree(&scene.agent), first.id);
    let counted =
        async { while scene.store.intake_record(&scope, id).await.unwrap().unwrap().count < 2 {} };
    tokio::time::timeout(PATIENCE, counted).await.unwrap();
}

/// The erased record is answered once more, as nobody waits for the count; those that follow are counted
/// in the one that takes its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_guess_is_counted_in_a_new_record_once_the_first_is_erased() {
    let scene = Scene::new(Kind::Sqlite).await;
    let guess = |millis| record(&scene.agent, millis, Verdict::Refused(Reason::UnknownRecipient));
    let network = "192.0.2.0/24";
    let (first, second, third) = (guess(0), guess(1), guess(2));
    assert_eq!(scene.store.count_refusal(&first, network).await.unwrap(), first.id);
    scene.execute("DELETE FROM intake_records").await;
    assert_eq!(scene.store.count_refusal(&second, network).await.unwrap(), first.id);
    let counted = async |scope: &Scope, id| {
        scene.store.intake_record(scope, id).await.unwrap().map_or(0, |record| record.count)
    };
    let scope = subtree(&scene.agent);
    let written = async { while counted(&scope, second.id).await < 1 {} };
    tokio::time::timeout(PATIENCE, written).await.unwrap();
    // The cache names the new record only some time after the record can be read.
    let told =
        async { while scene.store.count_refusal(&third, network).await.unwrap() != second.id {} };
    tokio::time::timeout(PATIENCE, told).await.unwrap();
    let twice = async { while counted(&scope, second.id).await < 2 {} };
    tokio::time::timeout(PATIENCE, twice).await.unwrap();
    assert_eq!(counted(&scope, first.id).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stop_waits_for_the_records_that_are_on_their_way() {
    let scene = Scene::new(Kind::Sqlite).await;
    let refused = record(&scene.agent, 0, Verdict::Refused(Reason::DkimMissing));
    let id = refused.id;
    let intakes = vec![Intake { record: refused, accepted: None }];
    assert!(!scene.store.note(&Commit { intakes, now: at(0) }).await.unwrap());
    scene.store.close().await;
    let found = scene.open().await.intake_record(&subtree(&scene.agent), id).await.unwrap();
    assert_eq!(found.unwrap().id, id);
}
