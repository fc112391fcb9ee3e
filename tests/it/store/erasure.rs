//! Erased content is unreadable once the erasure is answered, and in the end no row shows it, even
//! if gateways die in between or others write meanwhile.

use std::io::Read as _;

use gatepost::app::mailbox::Mailbox;
use gatepost::app::mailbox::erasure::Erasures;
use gatepost::domain::account::Account;
use gatepost::domain::clock::TimeRange;
use gatepost::domain::condition::LogFilter;
use gatepost::domain::delivery::Outcome;
use gatepost::domain::event::Category;
use gatepost::domain::formula::Formula;
use gatepost::domain::id::{ContactId, IntakeId, MessageId};
use gatepost::domain::intake_record::IntakeRecord;
use gatepost::domain::log_field::LogField;
use gatepost::domain::message::Mail;
use gatepost::domain::metric::Interval;
use gatepost::domain::reason::Reason;
use gatepost::domain::source::Inbox;
use gatepost::domain::verdict::Verdict;
use gatepost::rules::Rules;
use gatepost::run;
use gatepost::store::{
    Bucketing, Commit, Committed, DeliveryFilter, ErasureLimits, ErasureProgress, Intake,
    IntakeFilter, Receipt, RoomFilter, RoomPage, Store,
};
use zstd::stream::read::Decoder;

use super::objects;
use super::received::handed;
use super::scene::{DAY, Kind, Scene, address, at, attempt, by, everything, mint, record, subtree};

on_both! {
    a_message_goes_with_its_original_and_what_its_record_told,
    a_contact_goes_step_by_step_whoever_takes_it_up,
    who_writes_while_it_is_erased_is_somebody_new,
    a_deleted_account_is_unreadable_at_once,
    records_of_others_cost_no_transaction,
    of_two_who_ask_at_once_one_is_told_that_it_was_there,
    what_receivers_answered_is_not_shown_from_the_ask_on,
    one_that_fails_does_not_hold_up_the_others,
    a_list_ends_early_while_it_may_pass_over_what_is_erased,
    an_object_that_cannot_be_taken_away_ends_it,
}

const MARKER: &str = "mallory@planted.example";

async fn shown(store: &Store, account: &Account) -> usize {
    store
        .recent_messages(&subtree(account), TimeRange::default(), &everything())
        .await
        .unwrap()
        .len()
}

/// Runs every statement of what is handed in and erased.
pub async fn exercise(scene: &Scene) {
    let Scene { store, partner, reseller, agent, organization, .. } = scene;
    for account in [partner, reseller, organization, agent] {
        let nobody = MessageId(uuid::Uuid::nil());
        for scope in [subtree(account), subtree(account).only(vec![agent.id])] {
            store.agents_called(&scope, "desk", 2).await.unwrap();
            store.original(&scope, nobody).await.unwrap();
            assert!(!store.erase_message(&scope, nobody, by(at(3))).await.unwrap());
        }
    }
    store.receive(&handed(agent, 2, "+15551231234")).await.unwrap();
    let scope = subtree(organization);
    let message = scene.deliver(agent, 3).await;
    store.erase_message(&scope, message, by(at(3))).await.unwrap();
    let text = handed(agent, 2, "+15550001111");
    let Receipt::Stored(contact) = store.receive(&text).await.unwrap() else { panic!() };
    assert!(store.erase_contact(&scope, contact, by(at(3))).await.unwrap());
    for _ in 0..9 {
        store.erase_some(contact.get(), limits(1, 9), at(4)).await.unwrap();
    }
}

pub const fn limits(rows: usize, octets: u64) -> ErasureLimits {
    ErasureLimits { rows, octets }
}

/// Goes on with all that is being erased.
pub async fn finish(store: &Store) {
    for subject in store.erasures(0, 99).await.unwrap() {
        store.erase_some(subject, limits(9, 9), at(9)).await.unwrap();
    }
}

/// Rows of any table that hold the marker.
const MARKED: &str = "SELECT
    (SELECT COUNT(*) FROM contacts WHERE address LIKE '%planted%' OR name LIKE '%Planted%')
    + (SELECT COUNT(*) FROM messages WHERE sender LIKE '%planted%')
    + (SELECT COUNT(*) FROM rooms WHERE preview LIKE '%planted%')
    + (SELECT COUNT(*) FROM records WHERE recorded = 1
       AND (sender LIKE '%planted%' OR envelope_from LIKE '%planted%'))
    + (SELECT COUNT(*) FROM intake_records WHERE counted_as LIKE '%planted%')
    + (SELECT COUNT(*) FROM search_entries WHERE id NOT IN (SELECT id FROM messages))
    + (SELECT COUNT(*) FROM erasures WHERE handle LIKE '%planted%')
    + (SELECT COUNT(*) FROM audit_entries WHERE changes LIKE '%planted%' OR object LIKE '%planted%')";

const DICTIONARY: &[u8] = include_bytes!("../../../src/store/engine/dictionary.txt");

/// Everything that is packed.
const PACKED: &str = "SELECT packed FROM contents
    UNION ALL SELECT original FROM contents WHERE original IS NOT NULL
    UNION ALL SELECT evidence FROM records WHERE recorded = 1 AND LENGTH(evidence) > 0";

/// Rows, packed contents and evidence, and words of full-text search that hold the marker.
async fn marked(scene: &Scene, kind: Kind) -> [i64; 3] {
    let words = match kind {
        Kind::Sqlite => "SELECT COUNT(*) FROM search_words WHERE search_words MATCH 'planted'",
        Kind::Postgres => "SELECT COUNT(*) FROM search_entries WHERE tokens @@ 'planted'::tsquery",
    };
    let packed = scene.octets(PACKED).await.into_iter().filter(|packed| {
        let mut text = String::new();
        let read = Decoder::with_dictionary(packed.as_slice(), DICTIONARY);
        read.unwrap().read_to_string(&mut text).unwrap();
        text.contains("planted") || text.contains("Planted")
    });
    let packed = i64::try_from(packed.count()).unwrap();
    [scene.count(MARKED).await, packed, scene.count(words).await]
}

/// How many records in a scope are told, by each way of reading them.
async fn told(store: &Store, account: &Account, one: IntakeId) -> [usize; 5] {
    let scope = subtree(account);
    let (page, any) = (everything(), IntakeFilter::default());
    let records = store.intake_records(&scope, &any, &page);
    let all = LogFilter { conditions: Vec::new(), since: None, before: None };
    let logs = store.logs(&scope, &all, &page, &[LogField::Sender]);
    let formula = Formula::Field(LogField::Count);
    let by = Bucketing { interval: Interval::Day, grouping: None };
    let tallies = store.log_tallies(&scope, &all, &formula, by, 99);
    let past = store.past_verdicts(&scope, &page, at(-DAY));
    let tallies = tallies.await.unwrap();
    [
        records.await.unwrap().len(),
        logs.await.unwrap().len(),
        tallies.iter().map(|bucket| usize::try_from(bucket.tally.events).unwrap()).sum(),
        past.await.unwrap().len(),
        usize::from(store.intake_record(&scope, one).await.unwrap().is_some()),
    ]
}

/// Mail from the marker for both Agents, and a refusal.
async fn planted(scene: &Scene, count: i64) -> ContactId {
    for millis in 0..count {
        let agent = if millis % 2 == 0 { &scene.agent } else { &scene.other };
        let mut intake = scene.intake_from(agent, millis, MARKER, Some("Planted")).await;
        intake.record.sender = Some(gatepost::domain::contact::Handle::Mailbox(address(MARKER)));
        intake.record.envelope_from = MARKER.into();
        intake.record.headers = format!("From: {MARKER}\r\n").into_bytes();
        let message = &mut intake.accepted.as_mut().unwrap().message;
        let mut mail = Mail::clone(&message.mail);
        (mail.text, mail.stripped_text) = ("planted".into(), "planted".into());
        message.mail = mail.into();
        assert_eq!(scene.commit(vec![intake], millis).await, Committed::Done(vec![None]));
    }
    let mut refused = record(&scene.agent, 5, Verdict::Refused(Reason::SenderNotAllowed));
    refused.sender = Some(gatepost::domain::contact::Handle::Mailbox(address(MARKER)));
    refused.headers = format!("From: {MARKER}\r\n").into_bytes();
    let step = serde_json::json!([{ "name": "a", "result": "b", "inputs": { "sender": MARKER } }]);
    refused.evidence = serde_json::from_value(step).unwrap();
    let intakes = vec![Intake { record: refused, accepted: None }];
    scene.store.commit(&Commit { intakes, now: at(5) }).await.unwrap();
    let found = scene
        .store
        .recent_messages(&subtree(&scene.agent), TimeRange::default(), &everything())
        .await
        .unwrap();
    let of_marker = |one: &&gatepost::domain::message::Message| {
        one.mailed().is_some_and(|mailed| mailed.mail.from.address == address(MARKER))
    };
    found.iter().find(of_marker).unwrap().contact
}

async fn a_message_goes_with_its_original_and_what_its_record_told(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = &scene.store;
    let intake = scene.intake(&scene.agent, 0).await;
    let (id, record) = (intake.record.message.unwrap(), intake.record.id);
    scene.commit(vec![intake.clone()], 0).await;
    let kept = scene.deliver(&scene.agent, 1).await;
    assert!(!store.erase_message(&subtree(&scene.other), id, by(at(2))).await.unwrap());
    assert!(store.erase_message(&subtree(&scene.organization), id, by(at(2))).await.unwrap());
    assert!(!store.erase_message(&subtree(&scene.agent), id, by(at(3))).await.unwrap());
    let scope = subtree(&scene.agent);
    let left = store.recent_messages(&scope, TimeRange::default(), &everything()).await.unwrap();
    assert_eq!(left.iter().map(|one| one.id).collect::<Vec<_>>(), [kept]);
    assert_eq!(store.raw_message(&scope, id).await.unwrap(), None);
    for table in ["contents", "messages"] {
        let count = format!("SELECT COUNT(*) FROM {table}");
        assert_eq!(scene.count(count.leak()).await, 1, "{table}");
    }
    let told = store.intake_record(&scope, record).await.unwrap().unwrap();
    assert_eq!((told.at, told.message, told.size), (at(0), Some(id), 9));
    assert_eq!((told.sender, told.digest, told.verdict), (None, None, Verdict::Accepted));
    assert!(told.headers.is_empty() && told.envelope_from.is_empty() && told.helo.is_empty());
    // The erased message, sent once more, is recognised and does not come back.
    let mut again = intake;
    again.record.id = super::scene::record(&scene.agent, 4, Verdict::Accepted).id;
    let new = mint().message();
    again.record.message = Some(new);
    again.accepted.as_mut().unwrap().message.id = new;
    assert_eq!(scene.commit(vec![again], 4).await, Committed::Done(vec![Some(id)]));
    assert_eq!(shown(store, &scene.agent).await, 1);
}

async fn a_contact_goes_step_by_step_whoever_takes_it_up(kind: Kind) {
    let scene = Scene::new(kind).await;
    let contact = planted(&scene, 7).await;
    scene.deliver(&scene.agent, 9).await;
    let (partner, agent) = (subtree(&scene.partner), subtree(&scene.agent));
    scene.index().await;
    let found = marked(&scene, kind).await;
    assert!(found[0] > 10 && found[1..].iter().all(|count| *count >= 7), "{found:?}");
    let some =
        scene.store.recent_messages(&agent, TimeRange::default(), &everything()).await.unwrap();
    let some = some.iter().find(|one| one.contact == contact).unwrap().id;
    let any = IntakeFilter::default();
    let its = scene.store.intake_records(&agent, &any, &everything()).await.unwrap();
    let its = its.iter().find(|one| one.message == Some(some)).unwrap().id;
    assert_eq!(told(&scene.store, &scene.partner, its).await, [9, 9, 9, 9, 1]);
    let stranger = scene.stranger().await;
    for scope in [subtree(&stranger), agent.clone(), partner.clone().only(vec![scene.agent.id])] {
        assert!(!scene.store.erase_contact(&scope, contact, by(at(9))).await.unwrap());
    }
    assert!(scene.store.erase_contact(&partner, contact, by(at(9))).await.unwrap());
    assert!(!scene.store.erase_contact(&partner, contact, by(at(9))).await.unwrap(), "once");
    assert_eq!(shown(&scene.store, &scene.partner).await, 1, "at once");
    for account in [&scene.partner, &scene.reseller, &scene.organization, &scene.agent] {
        assert_eq!(told(&scene.store, account, its).await, [1, 1, 1, 1, 0], "at once");
    }
    assert_eq!(scene.store.erasures(0, 9).await.unwrap(), [contact.get()]);
    // Each step by another gateway: the one before has died.
    let mut steps = 0;
    while scene.open().await.erase_some(contact.get(), limits(2, 1 << 20), at(10)).await.unwrap()
        == ErasureProgress::More
    {
        steps += 1;
    }
    assert!((4..=5).contains(&steps), "records are not a step each: {steps}");
    assert_eq!(marked(&scene, kind).await, [0; 3]);
    assert_eq!(told(&scene.store, &scene.partner, its).await, [9, 9, 9, 9, 1], "that they were");
    assert_eq!(scene.store.erasures(0, 9).await.unwrap(), Vec::<i64>::new());
    assert_eq!(scene.count("SELECT COUNT(*) FROM contacts").await, 1);
    assert_eq!(
        scene.count("SELECT COUNT(*) FROM records WHERE recorded = 1").await,
        9,
        "that they were"
    );
    assert_eq!(
        scene.count("SELECT COUNT(*) FROM records WHERE recorded = 1 AND erased_at > 0").await,
        8
    );
    assert_eq!(shown(&scene.store, &scene.partner).await, 1);
}

async fn who_writes_while_it_is_erased_is_somebody_new(kind: Kind) {
    let scene = Scene::new(kind).await;
    let contact = planted(&scene, 4).await;
    let partner = subtree(&scene.partner);
    let mut writing = Vec::new();
    for millis in 0..8 {
        writing.push(scene.intake_from(&scene.agent, DAY + millis, MARKER, None).await);
    }
    let erase = async {
        assert!(scene.store.erase_contact(&partner, contact, by(at(9))).await.unwrap());
    };
    let write = async {
        for intake in writing {
            scene.commit(vec![intake], DAY).await;
        }
    };
    tokio::join!(erase, write);
    let after = scene.intake_from(&scene.agent, DAY + 9, MARKER, None).await;
    scene.commit(vec![after.clone()], DAY + 9).await;
    while scene.store.erase_some(contact.get(), limits(3, 1 << 20), at(10)).await.unwrap()
        != ErasureProgress::Done
    {}
    let found =
        scene.store.recent_messages(&partner, TimeRange::default(), &everything()).await.unwrap();
    assert!(found.iter().all(|message| message.contact != contact));
    assert_eq!(found[0].id, after.record.message.unwrap(), "what came later survives");
    let told = scene.store.intake_record(&partner, after.record.id).await.unwrap();
    assert_eq!(told, Some(after.record));
    // By another way of the same spelling nobody is mistaken for it.
    let text = handed(&scene.agent, DAY + 10, MARKER);
    assert!(matches!(scene.store.receive(&text).await.unwrap(), Receipt::Stored(_)));
}

/// Records that tell of nobody.
const BLANK: &str = "SELECT COUNT(*) FROM records
    WHERE recorded = 1 AND erased_at > 0 AND recipient = '' AND sender IS NULL AND envelope_from = ''
      AND remote_address = '0.0.0.0' AND helo = '' AND digest IS NULL AND LENGTH(evidence) = 0";

async fn a_deleted_account_is_unreadable_at_once(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.deliver(&scene.agent, 0).await;
    scene.deliver(&scene.other, 1).await;
    let unknown = record(&scene.agent, 2, Verdict::Refused(Reason::UnknownRecipient));
    let unknown = IntakeRecord { agent: None, ..unknown };
    scene.commit(vec![Intake { record: unknown.clone(), accepted: None }], 2).await;
    super::deletion::delete(&scene.store, &scene.agent, false).await;
    assert_eq!(shown(&scene.store, &scene.partner).await, 1);
    assert_eq!(told(&scene.store, &scene.partner, unknown.id).await, [2, 2, 2, 2, 1]);
    let subject = scene.agent.id.get();
    while scene.store.erase_some(subject, limits(1, 1), at(10)).await.unwrap()
        == ErasureProgress::More
    {}
    assert_eq!(scene.count("SELECT COUNT(*) FROM messages").await, 1);
    assert_eq!(scene.count("SELECT COUNT(*) FROM erasures").await, 0);
    assert_eq!(scene.count(BLANK).await, 1);
    assert_eq!(told(&scene.store, &scene.partner, unknown.id).await, [3, 3, 3, 3, 1]);
    super::deletion::delete(&scene.store, &scene.organization, true).await;
    assert_eq!(told(&scene.store, &scene.partner, unknown.id).await, [1, 1, 1, 1, 0]);
    for scope in [subtree(&scene.partner), subtree(&scene.reseller)] {
        assert_eq!(scene.store.list_contacts(&scope, None, None, 9).await.unwrap(), []);
    }
    let subjects = scene.store.erasures(0, 9).await.unwrap();
    assert_eq!(subjects, [scene.organization.id.get(), scene.other.id.get()]);
    assert_eq!(
        scene.store.erase_some(subjects[0], limits(9, 9), at(10)).await.unwrap(),
        ErasureProgress::Held
    );
    for subject in [subjects[1], subjects[0]] {
        while scene.store.erase_some(subject, limits(9, 9), at(10)).await.unwrap()
            == ErasureProgress::More
        {}
    }
    for table in ["messages", "contents", "contacts", "erasures"] {
        let count = format!("SELECT COUNT(*) FROM {table}");
        assert_eq!(scene.count(count.leak()).await, 0, "{table}");
    }
    assert_eq!(scene.count(BLANK).await, 3);
}

async fn records_of_others_cost_no_transaction(kind: Kind) {
    let scene = Scene::new(kind).await;
    let contact = planted(&scene, 1).await;
    let mut others = Vec::new();
    for millis in 10..90 {
        let record = record(&scene.agent, millis, Verdict::Refused(Reason::SenderNotAllowed));
        others.push(Intake { record, accepted: None });
    }
    scene.commit(others, 90).await;
    let partner = subtree(&scene.partner);
    assert!(scene.store.erase_contact(&partner, contact, by(at(99))).await.unwrap());
    let mut steps = 0;
    while scene.store.erase_some(contact.get(), limits(2, 1 << 20), at(100)).await.unwrap()
        == ErasureProgress::More
    {
        steps += 1;
    }
    // Its message; then twice as many records as are looked at before the place is kept.
    assert!((2..=3).contains(&steps), "{steps}");
    assert_eq!(marked(&scene, kind).await, [0; 3]);
}

async fn of_two_who_ask_at_once_one_is_told_that_it_was_there(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (other, partner) = (scene.open().await, subtree(&scene.partner));
    for number in 0..8 {
        let text = handed(&scene.agent, number, &format!("+1555123000{number}"));
        let Receipt::Stored(_) = scene.store.receive(&text).await.unwrap() else { panic!() };
    }
    for contact in scene.store.list_contacts(&partner, None, None, 9).await.unwrap() {
        let (one, two) = tokio::join!(
            scene.store.erase_contact(&partner, contact.id, by(at(9))),
            other.erase_contact(&partner, contact.id, by(at(9))),
        );
        assert_ne!(one.unwrap(), two.unwrap());
    }
    assert_eq!(scene.count("SELECT COUNT(*) FROM erasures").await, 8);
}

async fn what_receivers_answered_is_not_shown_from_the_ask_on(kind: Kind) {
    let scene = Scene::new(kind).await;
    let mut listening = Vec::new();
    for category in [Category::Incoming, Category::Contact] {
        listening.push(scene.listen(&scene.agent, category, "https://a.example/").await);
    }
    let contact = planted(&scene, 1).await;
    for claim in scene.store.claim_deliveries(at(1), at(9), 9, &[]).await.unwrap() {
        let one = attempt(2, 200);
        let done = scene.store.finish_delivery(&claim, &one, Outcome::Delivered).await.unwrap();
        assert!(done.recorded);
    }
    let erased = async || {
        let mut erased = Vec::new();
        for one in &listening {
            let filter = DeliveryFilter::default();
            let found = scene.store.deliveries(one.id, &filter, &everything(), 5).await.unwrap();
            erased.extend(found.iter().map(|delivery| delivery.erased));
        }
        erased
    };
    assert_eq!(erased().await, [false, false]);
    let partner = subtree(&scene.partner);
    assert!(scene.store.erase_contact(&partner, contact, by(at(9))).await.unwrap());
    assert_eq!(erased().await, [true, true]);
}

async fn one_that_fails_does_not_hold_up_the_others(kind: Kind) {
    let scene = Scene::new(kind).await;
    let partner = subtree(&scene.partner);
    for number in 0..3 {
        let text = handed(&scene.agent, number, &format!("+1555123000{number}"));
        let Receipt::Stored(contact) = scene.store.receive(&text).await.unwrap() else { panic!() };
        assert!(scene.store.erase_contact(&partner, contact, by(at(9))).await.unwrap());
    }
    scene
        .execute(
            "UPDATE messages SET size = -1
             WHERE contact_id = (SELECT MIN(subject) FROM erasures)",
        )
        .await;
    let rules = Rules::defaults().unwrap().retention;
    let erasures = Erasures::new(scene.store.clone(), run::system_mint().clock().clone(), &rules);
    while erasures.round().await.unwrap() {}
    let left = scene.store.erasures(0, 9).await.unwrap();
    assert_eq!(left.len(), 1, "{left:?}");
}

async fn a_list_ends_early_while_it_may_pass_over_what_is_erased(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, partner) = (&scene.store, subtree(&scene.partner));
    let contact = planted(&scene, 6).await;
    for number in 0..2 {
        let text = handed(&scene.agent, number, &format!("+1555123000{number}"));
        store.receive(&text).await.unwrap();
    }
    let mailbox = Mailbox::new(store.clone());
    let filter = RoomFilter { inbox: Inbox::Priority, unread: false };
    let rooms = RoomPage { before: None, skip: 0, limit: 9 };
    let ends = async || {
        let records = IntakeFilter::default();
        let page = everything();
        [
            mailbox
                .end_of_recent(&partner, TimeRange::default(), &page, 2)
                .await
                .unwrap()
                .is_some(),
            mailbox.end_of_intake_records(&partner, &records, &page, 2).await.unwrap().is_some(),
            store.list_rooms(&partner, filter, rooms, 2).await.unwrap().next.is_some(),
            store.end_of_contacts(&partner, None, 2).await.unwrap().is_some(),
        ]
    };
    assert_eq!(ends().await, [false; 4]);
    assert!(store.erase_contact(&partner, contact, by(at(9))).await.unwrap());
    assert_eq!(ends().await, [true; 4]);
    // Page by page nothing is missed, and nothing that is erased is shown.
    let (mut after, mut found) = (None, 0);
    loop {
        let until = store.end_of_contacts(&partner, after, 1).await.unwrap();
        found += store.list_contacts(&partner, after, until, 9).await.unwrap().len();
        let Some(until) = until else { break };
        after = Some(until);
    }
    assert_eq!(found, 2);
}

/// It would be waited for as long for each of the others; the sweeper comes for them.
async fn an_object_that_cannot_be_taken_away_ends_it(kind: Kind) {
    let scene = Scene::new(kind).await;
    let store = objects::with_blobs(&scene).await;
    for millis in 0..3 {
        let (intake, _) = objects::large(&scene, &scene.agent, millis, 1 << 13).await;
        objects::committed(&store, vec![intake]).await;
    }
    let before = objects::files(&objects::folder(&scene));
    assert_eq!(before.len(), 3);
    // In the place of the second one lies what no deletion takes away.
    std::fs::remove_file(&before[1]).unwrap();
    std::fs::create_dir(&before[1]).unwrap();
    std::fs::write(before[1].join("x"), "x").unwrap();
    let partner = subtree(&scene.partner);
    let [contact] = &store.list_contacts(&partner, None, None, 9).await.unwrap()[..] else {
        panic!()
    };
    assert!(store.erase_contact(&partner, contact.id, by(at(9))).await.unwrap());
    let erased = store.erase_some(contact.id.get(), limits(9, 1 << 20), at(10)).await.unwrap();
    assert_eq!(erased, ErasureProgress::More);
    assert_eq!(scene.count("SELECT COUNT(*) FROM contents").await, 0);
    assert!(!before[0].exists() && before[2].exists());
}
