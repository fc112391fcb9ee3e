//! Rows past their retention time are deleted, a few at a time, and no others.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use gatepost::app::mailbox::retention::{Passed, Retention};
use gatepost::domain::account::{Account, Lineage};
use gatepost::domain::clock::{Clock, TimeRange};
use gatepost::domain::delivery::{Attempt, Claim, Outcome};
use gatepost::domain::event::Category;
use gatepost::domain::id::{AttemptId, IntakeId};
use gatepost::domain::intake_record::IntakeRecord;
use gatepost::domain::message::Digest;
use gatepost::domain::reason::Reason;
use gatepost::domain::verdict::Verdict;
use gatepost::rules::Rules;
use gatepost::store::{
    Commit, Committed, Cursor, Direction, Intake, IntakeFilter, List, Page, Redelivery, Store,
};
use sqlx::Connection as _;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::scene::{
    DAY, Kind, Scene, address, at, by, database, everything, mint, record, subtree,
};
use super::silence::until_blocked;
use crate::support::PATIENCE;

on_both! {
    what_is_old_goes_at_every_level,
    an_event_stays_while_it_is_to_be_delivered,
    a_pass_goes_on_where_the_one_before_had_to_end,
    what_is_still_to_be_delivered_holds_up_nothing_else,
    an_original_stays_while_a_message_has_it,
    what_is_stored_again_during_a_pass_is_not_lost,
    what_a_deleted_account_leaves_goes_by_and_by,
    a_clock_that_is_set_forward_for_a_moment_deletes_nothing,
    messages_without_records_are_listed_among_the_others,
    a_message_whose_contents_are_missing_goes,
}

/// At the scene's time, by the compiled-in rules with this laid over them.
fn retention(store: &Store, rules: &str) -> Retention {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("retention.toml"), rules).unwrap();
    let rules = Rules::load(folder.path()).unwrap().retention;
    Retention::new(store.clone(), Clock::new(|| at(0)), Arc::new(rules))
}

async fn a_clock_that_is_set_forward_for_a_moment_deletes_nothing(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.deliver(&scene.agent, 0).await;
    let (wall, steady) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
    let told = |source: &Arc<AtomicI64>| {
        let source = Arc::clone(source);
        move || at(source.load(Ordering::SeqCst))
    };
    let clock = Clock::beside(told(&wall), told(&steady));
    let rules = Arc::new(Rules::defaults().unwrap().retention);
    let mut retention = Retention::new(scene.store.clone(), clock, rules);
    assert_eq!(retention.pass().await.intake_records, 0);
    wall.fetch_add(365 * DAY, Ordering::SeqCst);
    let passed = retention.pass().await;
    assert_eq!((passed.intake_records, passed.arrivals, passed.batches), (0, 0, 1));
    // A clock that has gone on for a day is believed: ages are counted by it. What is to be known
    // for a week is known for a week, whatever it says.
    for source in [&wall, &steady] {
        source.fetch_add(DAY, Ordering::SeqCst);
    }
    let passed = retention.pass().await;
    assert_eq!((passed.intake_records, passed.arrivals), (1, 0));
}

/// A damaged database may have messages without contents: they go when they are old, too.
async fn a_message_whose_contents_are_missing_goes(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.deliver(&scene.agent, -400 * DAY).await;
    scene.execute("DELETE FROM contents").await;
    retention(&scene.store, "[keep]\nmessages_days = 300\n").pass().await;
    assert_eq!(count(&scene, "SELECT COUNT(*) FROM messages".to_owned()).await, 0);
}

/// Records of one Agent go after ten days, those of the other after ninety: messages with and without
/// one lie between each other, and are one list in both directions.
async fn messages_without_records_are_listed_among_the_others(kind: Kind) {
    let scene = Scene::new(kind).await;
    let mut ids = Vec::new();
    for days in (1..=12).map(|one| one * 8) {
        ids.push(scene.deliver(&scene.agent, -days * DAY).await);
        ids.push(scene.deliver(&scene.other, -days * DAY - 1).await);
    }
    let rules = format!("[accounts.{}]\nintake_records_days = 10\n", scene.agent.id);
    assert_eq!(retention(&scene.store, &rules).pass().await.intake_records, 12);
    for account in [&scene.partner, &scene.reseller, &scene.organization] {
        let (store, scope) = (&scene.store, subtree(account));
        let (mut found, mut from) = (Vec::new(), None);
        loop {
            let page = Page { limit: 5, from, until: None };
            let some = store.recent_messages(&scope, TimeRange::default(), &page).await.unwrap();
            let Some(last) = some.last() else { break };
            from = Some((Direction::Before, Cursor { at: last.at, id: last.id.0 }));
            found.extend(some.iter().map(|message| message.id));
        }
        assert_eq!(found, ids);
        let after = Some((Direction::After, Cursor { at: at(-97 * DAY), id: Uuid::nil() }));
        let page = Page { limit: 5, from: after, until: None };
        let some = store.recent_messages(&scope, TimeRange::default(), &page).await.unwrap();
        let some: Vec<_> = some.iter().map(|message| message.id).collect();
        assert_eq!(some, ids[19..]);
        let end = store
            .end_of_walk(List::Messages, &scope, &page, TimeRange::default(), 7)
            .await
            .unwrap();
        assert_eq!(end.map(|place| place.at), Some(at(-72 * DAY - 1)));
        let any = IntakeFilter::default();
        let records = store.intake_records(&scope, &any, &everything()).await.unwrap();
        let records: Vec<_> = records.iter().map(|record| record.id.0).collect();
        let kept = |place: &usize| *place == 0 || place % 2 == 1 && *place < 22;
        let wanted: Vec<_> = (0..24).filter(kept).map(|place| ids[place].0).collect();
        assert_eq!(records, wanted);
        let gone = store.intake_record(&scope, IntakeId(ids[2].0)).await.unwrap();
        assert_eq!(gone, None);
    }
}

async fn count(scene: &Scene, sql: String) -> i64 {
    scene.count(sql.leak()).await
}

/// Nothing names what is not there, and no original is there that nothing names.
async fn assert_whole(scene: &Scene) {
    for astray in
        ["SELECT COUNT(*) FROM contents WHERE content_id NOT IN (SELECT content_id FROM messages)"]
    {
        assert_eq!(scene.count(astray).await, 0, "{astray}");
    }
    if matches!(scene.location, gatepost::store::Location::Folder(_)) {
        let mut database = database(&scene.path()).await;
        let broken = sqlx::query("PRAGMA foreign_key_check").fetch_all(&mut database).await;
        assert_eq!(broken.unwrap().len(), 0);
        database.close().await.unwrap();
    }
}

/// A refusal that belongs to the lowest account of `lineage`.
async fn refuse(scene: &Scene, lineage: Lineage, millis: i64) {
    let refused = record(&scene.agent, millis, Verdict::Refused(Reason::UnknownRecipient));
    let record = IntakeRecord { lineage, agent: lineage.agent, ..refused };
    scene.commit(vec![Intake { record, accepted: None }], millis).await;
}

/// Claims what is due now, and ends every claim in this way.
async fn attempt(scene: &Scene, outcome: Outcome) -> Vec<Claim> {
    let claims = scene.store.claim_deliveries(at(0), at(1), 100, &[]).await.unwrap();
    for claim in &claims {
        let attempt = Attempt {
            id: AttemptId(mint().uuid()),
            at: at(0),
            latency_ms: 1,
            status: Some(200),
            response: Vec::new(),
            error: None,
        };
        assert!(scene.store.finish_delivery(claim, &attempt, outcome).await.unwrap().recorded);
    }
    claims
}

async fn what_is_old_goes_at_every_level(kind: Kind) {
    let scene = Scene::new(kind).await;
    let Scene { partner, reseller, organization, agent, other, .. } = &scene;
    let rules = format!(
        "[keep]\nmessages_days = 300\n\
         [accounts.{}]\nintake_records_days = 40\n\
         [accounts.{}]\nintake_records_days = 20\nevents_days = 25\n\
         [accounts.{}]\nintake_records_days = 10\nmessages_days = 0\n\
         [accounts.{}]\nmessages_days = 12\naudit_days = 3\n",
        reseller.id, organization.id, agent.id, other.id
    );
    let ages = [2, 4, 9, 11, 13, 19, 21, 24, 26, 29, 31, 39, 41, 89, 91, 299, 301];
    let owners = [partner, reseller, organization, agent, other];
    for days in ages {
        for owner in owners {
            // A moment short of the last day: what is kept so many days is still there.
            refuse(&scene, owner.lineage, 1 - days * DAY).await;
        }
        scene.deliver(agent, 1 - days * DAY).await;
        scene.deliver(other, 1 - days * DAY).await;
    }
    // Moves these events to the partner alone.
    let of_nobody = "UPDATE events SET agent_id = NULL, organization_id = 0, reseller_id = NULL
                     WHERE names LIKE '%conversation.started%'";
    scene.execute(of_nobody).await;
    let passed = retention(&scene.store, &rules).pass().await;
    let kept = |most: i64| ages.iter().filter(|days| **days <= most).count();
    let left = async |table: &str, owner: &Account| {
        let owner = owner.id;
        let lowest = "COALESCE(agent_id, NULLIF(organization_id, 0), reseller_id, partner_id)";
        let kept = if table == "records" { "recorded = 1 AND" } else { "" };
        let sql = format!("SELECT COUNT(*) FROM {table} WHERE {kept} {lowest} = {owner}");
        usize::try_from(count(&scene, sql).await).unwrap()
    };
    for (owner, days) in [(partner, 90), (reseller, 40), (organization, 20)] {
        assert_eq!(left("records", owner).await, kept(days), "{}", owner.name);
    }
    // Each message has left a record as well.
    assert_eq!(left("records", agent).await, 2 * kept(10));
    assert_eq!(left("records", other).await, 2 * kept(20));
    assert_eq!(left("messages", agent).await, ages.len());
    assert_eq!(left("messages", other).await, kept(12));
    // A message has a row; that of the first one, which has the youngest time, is the partner's
    // here. That each account was made is an event, too, and that the policies of both were opened.
    assert_eq!(left("events", agent).await, kept(25) - 1 + 2);
    assert_eq!(left("events", other).await, kept(25) - 1 + 2);
    assert_eq!(left("events", partner).await, 2 + 1);
    assert_eq!(passed.messages, u64::try_from(ages.len() - kept(12)).unwrap());
    // Arrivals are remembered for seven days.
    let remembered = ages.iter().filter(|days| **days < 8).count() * 2;
    let arrivals = usize::try_from(scene.count("SELECT COUNT(*) FROM arrivals").await).unwrap();
    assert_eq!(arrivals, remembered);
    assert_eq!(passed.arrivals, u64::try_from(2 * ages.len() - remembered).unwrap());
    assert_eq!(scene.count("SELECT COUNT(*) FROM contacts").await, 1);
    assert_whole(&scene).await;
    let again = retention(&scene.store, &rules).pass().await;
    assert_eq!(again, Passed { batches: 1, ..Passed::default() }, "the first left nothing");
}

async fn an_event_stays_while_it_is_to_be_delivered(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (incoming, conversation) = (Category::Incoming, Category::Conversation);
    scene.listen(&scene.agent, incoming, "https://a.example/").await;
    scene.listen(&scene.organization, conversation, "https://b.example/").await;
    scene.deliver(&scene.agent, -31 * DAY).await;
    let mut retention = retention(&scene.store, "");
    let events =
        "SELECT COUNT(*) FROM events WHERE names NOT IN ('account.created', 'agent.policyChanged')";
    // email.received and conversation.started wait. Nobody wants to know of the contact, whose event
    // is told with them, and goes with them.
    assert_eq!(retention.pass().await.events, 0);
    assert_eq!(scene.count(events).await, 1);
    assert_eq!(attempt(&scene, Outcome::RetryAt(at(0))).await.len(), 2);
    assert_eq!(retention.pass().await.events, 0);
    // Exhausted is not pending.
    let claims = attempt(&scene, Outcome::Exhausted).await;
    assert_eq!(claims.len(), 2);
    assert_eq!(retention.pass().await.events, 1);
    let rest = "SELECT (SELECT COUNT(*) FROM deliveries) + (SELECT COUNT(*) FROM attempts)";
    assert_eq!((scene.count(events).await, scene.count(rest).await), (0, 0));
    // The messages are the customer's.
    assert_eq!(scene.count("SELECT COUNT(*) FROM messages").await, 1);

    // Young ones stay, delivered or not; the audit log of a destination that is gone as well.
    scene.deliver(&scene.agent, -29 * DAY).await;
    attempt(&scene, Outcome::Gone).await;
    assert_eq!(retention.pass().await.events, 0);
    assert_eq!(scene.count("SELECT COUNT(*) FROM audit_entries WHERE actor = 'gateway'").await, 2);
    let age = format!("UPDATE audit_entries SET at = at - {} WHERE actor = 'gateway'", 366 * DAY);
    scene.execute(age.leak()).await;
    assert_eq!(retention.pass().await.audit, 2);
}

/// While its event is deleted, the delivery becomes pending.
#[tokio::test]
async fn a_delivery_that_is_replayed_meanwhile_stays_with_its_event() {
    let scene = Scene::new(Kind::Postgres).await;
    scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    scene.deliver(&scene.agent, -31 * DAY).await;
    let [claim] = &attempt(&scene, Outcome::Exhausted).await[..] else { panic!() };
    let (store, account, delivery) = (scene.store.clone(), scene.agent.id, claim.delivery);
    let mut beside = scene.before_audit().await;
    let replaying =
        tokio::spawn(async move { store.replay_delivery(account, delivery, by(at(0))).await });
    until_blocked(&scene, 1).await;
    let mut retention = retention(&scene.store, "");
    let passing = tokio::spawn(async move { retention.pass().await });
    until_blocked(&scene, 2).await;
    sqlx::raw_sql("COMMIT").execute(&mut beside).await.unwrap();
    assert_eq!(replaying.await.unwrap().unwrap(), Redelivery::Done);
    assert_eq!(passing.await.unwrap().events, 0);
    let left = "SELECT COUNT(*) FROM deliveries JOIN events ON events.id = event_id
                JOIN attempts ON delivery_id = deliveries.id WHERE state = 'pending'";
    assert_eq!(scene.count(left).await, 1);
}

/// Ten messages, three rows in a transaction, four transactions in a pass: others write between
/// them, and whatever a pass leaves is whole.
async fn a_pass_goes_on_where_the_one_before_had_to_end(kind: Kind) {
    let scene = Scene::new(kind).await;
    for number in 0..4 {
        let url = format!("https://a{number}.example/");
        scene.listen(&scene.agent, Category::Incoming, &url).await;
    }
    for millis in 0..10 {
        scene.deliver(&scene.agent, millis - 400 * DAY).await;
    }
    for outcome in [Outcome::RetryAt(at(0)), Outcome::Delivered] {
        assert_eq!(attempt(&scene, outcome).await.len(), 40);
        // So many failures would make the destinations rest.
        scene.execute("UPDATE destinations SET failures = 0, rests_until = 0").await;
    }
    let old = at(-200 * DAY).millis();
    let old = format!(
        "SELECT (SELECT COUNT(*) FROM messages WHERE at < {old})
            + (SELECT COUNT(*) FROM events WHERE at < {old})
            + (SELECT COUNT(*) FROM deliveries WHERE created_at < {old})
            + (SELECT COUNT(*) FROM attempts)
            + (SELECT COUNT(*) FROM records WHERE recorded = 1 AND at < {old})
            + (SELECT COUNT(*) FROM arrivals WHERE expires_at < {old})"
    );
    let small = "[keep]\nmessages_days = 100\n[pass]\nbatch_rows = 3\nbatches_per_pass = 4\n\
                 pause_millis = 1\n";
    let mut retention = retention(&scene.store, small);
    let mut left = count(&scene, old.clone()).await;
    // Messages, records, arrivals; events; deliveries and two attempts of each.
    assert_eq!(left, 3 * 10 + 10 + 40 + 80);
    let (mut passes, mut sum) = (0, Passed::default());
    while left > 0 {
        let passed = retention.pass().await;
        assert!(passed.batches <= 4, "{passed:?}");
        assert_whole(&scene).await;
        let now = count(&scene, old.clone()).await;
        // Three rows of one kind, and three of what hangs on them.
        assert!(now <= left && left - now <= 4 * 6, "{left} before, {now} after {passed:?}");
        left = now;
        passes += 1;
        sum.messages += passed.messages;
        sum.events += passed.events;
        sum.intake_records += passed.intake_records;
        sum.arrivals += passed.arrivals;
        // Somebody else's turn.
        scene.deliver(&scene.other, -DAY).await;
    }
    assert!(passes >= (30 + 10 + 40 + 80) / 24, "{passes}");
    assert_eq!((sum.messages, sum.events, sum.intake_records, sum.arrivals), (10, 10, 10, 10));
    assert_eq!(scene.count("SELECT COUNT(*) FROM messages").await, passes, "what is young stays");
}

async fn what_is_still_to_be_delivered_holds_up_nothing_else(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen(&scene.agent, Category::Incoming, "https://dead.example/").await;
    scene.listen(&scene.agent, Category::Conversation, "https://dead.example/").await;
    for millis in 0..5 {
        scene.deliver(&scene.agent, millis - 40 * DAY).await;
    }
    scene.deliver(&scene.other, -40 * DAY).await;
    // Ten events of five rows wait, the oldest of all; behind them are those that nobody waits for.
    let small = "[pass]\nbatch_rows = 2\nbatches_per_pass = 1\npause_millis = 1\n";
    let mut retention = retention(&scene.store, small);
    for _ in 0..20 {
        retention.pass().await;
    }
    let of = |agent: &Account| {
        let made = "names NOT IN ('account.created', 'agent.policyChanged')";
        format!("SELECT COUNT(*) FROM events WHERE {made} AND agent_id = {}", agent.id)
    };
    assert_eq!(count(&scene, of(&scene.agent)).await, 5);
    assert_eq!(count(&scene, of(&scene.other)).await, 0);
    assert_eq!(scene.count("SELECT COUNT(*) FROM deliveries").await, 10);
}

async fn an_original_stays_while_a_message_has_it(kind: Kind) {
    let scene = Scene::new(kind).await;
    let mut first = scene.intake(&scene.agent, -2 * DAY).await;
    let mut second = scene.intake(&scene.other, -2 * DAY).await;
    let (deleted, kept) = (first.record.message, second.record.message.unwrap());
    let raw = Bytes::from_static(b"the same");
    for intake in [&mut first, &mut second] {
        let accepted = intake.accepted.as_mut().unwrap();
        (accepted.raw, accepted.message.digest) = (raw.clone(), Digest([5; 32]));
    }
    let keys = first.accepted.as_ref().unwrap().arrival_keys.clone();
    scene.commit(vec![first, second], -2 * DAY).await;
    let of_one = format!("[accounts.{}]\nmessages_days = 1\n", scene.agent.id);
    assert_eq!(retention(&scene.store, &of_one).pass().await.messages, 1);
    let scope = subtree(&scene.other);
    assert_eq!(scene.store.raw_message(&scope, kept).await.unwrap(), Some(raw.to_vec()));
    assert_whole(&scene).await;

    // Forgotten is only the message: the same one arriving again is still a repeat.
    let mut again = scene.intake(&scene.agent, 0).await;
    again.accepted.as_mut().unwrap().arrival_keys = keys;
    assert_eq!(scene.commit(vec![again], 0).await, Committed::Done(vec![deleted]));
    assert_eq!(scene.count("SELECT COUNT(*) FROM messages").await, 1);

    let of_all = "[keep]\nmessages_days = 1\n[pass]\nbatch_bytes = 65536\n";
    assert_eq!(retention(&scene.store, of_all).pass().await.messages, 1);
    assert_eq!(scene.count("SELECT COUNT(*) FROM contents").await, 0);
}

/// Old messages of the same two originals come in on some gateways as fast as others delete them.
async fn what_is_stored_again_during_a_pass_is_not_lost(kind: Kind) {
    let scene = Arc::new(Scene::new(kind).await);
    let rules = "[keep]\nmessages_days = 1\n[pass]\nbatch_rows = 5\npause_millis = 1\n";
    let mut storing = JoinSet::new();
    for _ in 0..6 {
        let scene = Arc::clone(&scene);
        let store = scene.open().await;
        storing.spawn(async move {
            for round in 0..60_u8 {
                // The last one stays.
                let millis = if round == 59 { 0 } else { -2 * DAY };
                let commit = of_original(&scene, round % 2, millis).await;
                assert_eq!(store.commit(&commit).await.unwrap(), Committed::Done(vec![None]));
            }
            store.close().await;
        });
    }
    let mut deleted = 0;
    let mut retention = retention(&scene.store, rules);
    while !storing.is_empty() {
        deleted += retention.pass().await.messages;
        while let Some(ended) = storing.try_join_next() {
            ended.unwrap();
        }
    }
    // Messages that an earlier pass skipped, because others had locked them, are deleted now.
    deleted += retention.pass().await.messages;
    assert_eq!(deleted, 6 * 59);
    let joined = "SELECT COUNT(*) FROM messages JOIN contents USING (content_id)";
    assert_eq!(scene.count(joined).await, 6);
    assert_whole(&scene).await;
}

/// A message of one of a few originals.
async fn of_original(scene: &Scene, digest: u8, millis: i64) -> Commit {
    let mut intake = scene.intake(&scene.agent, millis).await;
    let accepted = intake.accepted.as_mut().unwrap();
    accepted.raw = Bytes::from(vec![digest; 10]);
    accepted.message.digest = Digest([digest; 32]);
    Commit { intakes: vec![intake], now: at(0) }
}

/// As if a pass on another gateway had come as far as this when the same bytes arrive: no two
/// transactions share contents, so that neither waits for the other.
#[tokio::test]
async fn a_commit_waits_for_no_pass_that_deletes_the_same_bytes() {
    let scene = Scene::new(Kind::Postgres).await;
    scene.store.commit(&of_original(&scene, 1, -2 * DAY).await).await.unwrap();
    let mut other = scene.postgres().await;
    let pass = "BEGIN; SELECT content_id FROM contents FOR UPDATE; DELETE FROM messages;
                DELETE FROM contents";
    sqlx::raw_sql(pass).execute(&mut other).await.unwrap();
    let commit = of_original(&scene, 1, 0).await;
    let committed = tokio::time::timeout(PATIENCE, scene.store.commit(&commit)).await.unwrap();
    assert_eq!(committed.unwrap(), Committed::Done(vec![None]));
    sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
    assert_eq!(scene.count("SELECT COUNT(*) FROM messages").await, 1);
    assert_whole(&scene).await;
}

/// As if a commit on another gateway were about to name the original.
#[tokio::test]
async fn a_pass_leaves_an_original_that_is_in_use() {
    let scene = Scene::new(Kind::Postgres).await;
    scene.store.commit(&of_original(&scene, 1, -2 * DAY).await).await.unwrap();
    scene.store.commit(&of_original(&scene, 2, -2 * DAY).await).await.unwrap();
    let mut other = scene.postgres().await;
    let commit = "BEGIN; SELECT octets FROM contents JOIN messages USING (content_id)
                  WHERE get_byte(digest, 0) = 1 FOR KEY SHARE OF contents";
    sqlx::raw_sql(commit).execute(&mut other).await.unwrap();
    let mut retention = retention(&scene.store, "[keep]\nmessages_days = 1\n");
    assert_eq!(retention.pass().await.messages, 1);
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
    assert_eq!(retention.pass().await.messages, 1);
    assert_whole(&scene).await;
}

/// Advisory locks are PostgreSQL's; SQLite has one writer.
#[tokio::test]
async fn one_gateway_deletes_at_a_time() {
    let scene = Scene::new(Kind::Postgres).await;
    scene.deliver(&scene.agent, -100 * DAY).await;
    let mut other = scene.postgres().await;
    let begin = "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('retention', 0))";
    sqlx::raw_sql(begin).execute(&mut other).await.unwrap();
    let mut retention = retention(&scene.store, "");
    assert_eq!(retention.pass().await, Passed::default());
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
    assert_eq!(retention.pass().await.intake_records, 1);
}

async fn what_a_deleted_account_leaves_goes_by_and_by(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, stranger) = (&scene.store, scene.stranger().await);
    for agent in [&scene.agent, &scene.other, &stranger] {
        scene.deliver(agent, 0).await;
        let senders = ["a", "b", "c"].map(|name| address(&format!("{name}@good.example")));
        store.allow_senders(agent.id, &senders, None, 9, by(at(0))).await.unwrap();
    }
    let left = async |sql: &'static str| scene.count(sql).await;
    let small = "[pass]\nbatch_rows = 2\npause_millis = 1\n";
    // A deleted Agent leaves its mail and its allowlist, which go; its organization keeps the
    // contacts.
    super::deletion::delete(store, &scene.agent, false).await;
    let passed = retention(store, small).pass().await;
    assert_eq!((passed.messages, passed.leavings), (1, 3));
    assert_eq!(left("SELECT COUNT(*) FROM messages").await, 2);
    assert_eq!(left("SELECT COUNT(*) FROM allowed_senders").await, 6);
    assert_eq!(left("SELECT COUNT(*) FROM contacts").await, 2);
    // With a deleted organization its contacts go, too.
    super::deletion::delete(store, &scene.organization, true).await;
    let passed = retention(store, small).pass().await;
    assert_eq!((passed.messages, passed.leavings), (1, 4));
    assert_eq!(left("SELECT COUNT(*) FROM messages").await, 1);
    assert_eq!(left("SELECT COUNT(*) FROM allowed_senders").await, 3);
    assert_eq!(left("SELECT COUNT(*) FROM contacts").await, 1);
    // Intake records and audit entries stay for their own time.
    assert_eq!(left("SELECT COUNT(*) FROM records WHERE recorded = 1").await, 3);
    let told = "SELECT COUNT(*) FROM audit_entries WHERE deed = 'account.deleted'";
    assert_eq!(left(told).await, 3);
    assert_whole(&scene).await;
    assert_eq!(retention(store, small).pass().await.leavings, 0);
}
