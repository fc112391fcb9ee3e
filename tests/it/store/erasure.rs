//! What is erased is nobody's to read from the answer on, and in the end no row tells of it; whoever
//! dies in between, and whoever writes beside it.

use gatepost::domain::account::Account;
use gatepost::domain::id::{ContactId, MessageId};
use gatepost::domain::reason::Reason;
use gatepost::domain::verdict::Verdict;
use gatepost::store::{Commit, Committed, Erasing, Intake, Receipt, Store};

use super::received::handed;
use super::scene::{DAY, Kind, Scene, address, at, by, everything, record, subtree};

on_both! {
    a_message_goes_with_its_original_and_what_its_record_told,
    a_contact_goes_step_by_step_whoever_takes_it_up,
    who_writes_while_it_is_erased_is_somebody_new,
    a_deleted_account_is_unreadable_at_once,
}

const MARKER: &str = "mallory@planted.example";

async fn shown(store: &Store, account: &Account) -> usize {
    store.recent_messages(&subtree(account), &everything()).await.unwrap().len()
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
        store.erase_some(contact.get(), (1, 9), at(4)).await.unwrap();
    }
}

/// Goes on with all that is being erased.
pub async fn finish(store: &Store) {
    for subject in store.erasures(0, 99).await.unwrap() {
        store.erase_some(subject, (9, 9), at(9)).await.unwrap();
    }
}

/// Rows of any table that hold the marker.
const MARKED: &str = "SELECT
    (SELECT COUNT(*) FROM contacts WHERE address LIKE '%planted%' OR name LIKE '%Planted%')
    + (SELECT COUNT(*) FROM messages WHERE sender LIKE '%planted%')
    + (SELECT COUNT(*) FROM mails WHERE mail LIKE '%lanted%')
    + (SELECT COUNT(*) FROM intake_records WHERE sender LIKE '%planted%'
       OR envelope_from LIKE '%planted%' OR steps LIKE '%planted%' OR counted_as LIKE '%planted%')
    + (SELECT COUNT(*) FROM erasures WHERE handle LIKE '%planted%')
    + (SELECT COUNT(*) FROM audit_entries WHERE changes LIKE '%planted%' OR object LIKE '%planted%')";

/// Mail from the marker for both Agents, and a refusal.
async fn planted(scene: &Scene, count: i64) -> ContactId {
    for millis in 0..count {
        let agent = if millis % 2 == 0 { &scene.agent } else { &scene.other };
        let mut intake = scene.intake_from(agent, millis, MARKER, Some("Planted")).await;
        intake.record.sender = Some(gatepost::domain::contact::Handle::Mailbox(address(MARKER)));
        intake.record.envelope_from = MARKER.into();
        assert_eq!(scene.commit(vec![intake], millis).await, Committed::Done(vec![None]));
    }
    let mut refused = record(&scene.agent, 5, Verdict::Refused(Reason::SenderNotAllowed));
    refused.sender = Some(gatepost::domain::contact::Handle::Mailbox(address(MARKER)));
    refused.steps = serde_json::json!([{ "inputs": { "sender": MARKER } }]);
    let intakes = vec![Intake { record: refused, accepted: None }];
    scene.store.commit(&Commit { intakes, now: at(5) }).await.unwrap();
    let found = scene.store.recent_messages(&subtree(&scene.agent), &everything()).await.unwrap();
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
    let left = store.recent_messages(&scope, &everything()).await.unwrap();
    assert_eq!(left.iter().map(|one| one.id).collect::<Vec<_>>(), [kept]);
    assert_eq!(store.raw_message(&scope, id).await.unwrap(), None);
    for table in ["raw_messages", "mails", "messages"] {
        let count = format!("SELECT COUNT(*) FROM {table}");
        assert_eq!(scene.count(count.leak()).await, 1, "{table}");
    }
    let told = store.intake_record(&scope, record).await.unwrap().unwrap();
    assert_eq!((told.at, told.message, told.size), (at(0), Some(id), 9));
    assert_eq!((told.sender, told.digest, told.verdict), (None, None, Verdict::Accepted));
    assert!(told.headers.is_empty() && told.envelope_from.is_empty() && told.helo.is_empty());
    // The same message sent once more is known still: it does not come back.
    let mut again = intake;
    again.record.id = super::scene::record(&scene.agent, 4, Verdict::Accepted).id;
    let new = MessageId(gatepost::run::system_mint().uuid());
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
    assert!(scene.count(MARKED).await > 10);
    let stranger = scene.stranger().await;
    for scope in [subtree(&stranger), agent.clone(), partner.clone().only(vec![scene.agent.id])] {
        assert!(!scene.store.erase_contact(&scope, contact, by(at(9))).await.unwrap());
    }
    assert!(scene.store.erase_contact(&partner, contact, by(at(9))).await.unwrap());
    assert!(!scene.store.erase_contact(&partner, contact, by(at(9))).await.unwrap(), "once");
    assert_eq!(shown(&scene.store, &scene.partner).await, 1, "at once");
    assert_eq!(scene.store.erasures(0, 9).await.unwrap(), [contact.get()]);
    // Each step by another gateway: the one before has died.
    let mut steps = 0;
    while scene.open().await.erase_some(contact.get(), (2, 1 << 20), at(10)).await.unwrap()
        == Erasing::More
    {
        steps += 1;
    }
    assert!(steps >= 4 + 4, "{steps}");
    assert_eq!(scene.count(MARKED).await, 0);
    assert_eq!(scene.store.erasures(0, 9).await.unwrap(), Vec::<i64>::new());
    assert_eq!(scene.count("SELECT COUNT(*) FROM contacts").await, 1);
    assert_eq!(scene.count("SELECT COUNT(*) FROM intake_records").await, 9, "that they were");
    assert_eq!(scene.count("SELECT COUNT(*) FROM intake_records WHERE erased_at > 0").await, 8);
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
    while scene.store.erase_some(contact.get(), (3, 1 << 20), at(10)).await.unwrap()
        != Erasing::Done
    {}
    let found = scene.store.recent_messages(&partner, &everything()).await.unwrap();
    assert!(found.iter().all(|message| message.contact != contact));
    assert_eq!(found[0].id, after.record.message.unwrap(), "what came later survives");
    let told = scene.store.intake_record(&partner, after.record.id).await.unwrap();
    assert_eq!(told, Some(after.record));
    // By another way of the same spelling nobody is mistaken for it.
    let text = handed(&scene.agent, DAY + 10, MARKER);
    assert!(matches!(scene.store.receive(&text).await.unwrap(), Receipt::Stored(_)));
}

async fn a_deleted_account_is_unreadable_at_once(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.deliver(&scene.agent, 0).await;
    scene.deliver(&scene.other, 1).await;
    super::deletion::delete(&scene.store, &scene.agent, false).await;
    assert_eq!(shown(&scene.store, &scene.partner).await, 1);
    let subject = scene.agent.id.get();
    while scene.store.erase_some(subject, (1, 1), at(10)).await.unwrap() == Erasing::More {}
    assert_eq!(scene.count("SELECT COUNT(*) FROM messages").await, 1);
    assert_eq!(scene.count("SELECT COUNT(*) FROM erasures").await, 0);
    super::deletion::delete(&scene.store, &scene.organization, true).await;
    let subjects = scene.store.erasures(0, 9).await.unwrap();
    assert_eq!(subjects, [scene.organization.id.get(), scene.other.id.get()]);
    assert_eq!(scene.store.erase_some(subjects[0], (9, 9), at(10)).await.unwrap(), Erasing::Held);
    for subject in [subjects[1], subjects[0]] {
        while scene.store.erase_some(subject, (9, 9), at(10)).await.unwrap() == Erasing::More {}
    }
    for table in ["messages", "raw_messages", "mails", "contacts", "erasures"] {
        let count = format!("SELECT COUNT(*) FROM {table}");
        assert_eq!(scene.count(count.leak()).await, 0, "{table}");
    }
}
