//! The one durable transaction: all or nothing, by the policy as it stands, once per message.

use gatepost::domain::clock::TimeRange;
use gatepost::domain::delivery::Subject;
use gatepost::domain::event::Category;
use gatepost::domain::feature::Feature;
use gatepost::domain::id::MessageId;
use gatepost::domain::message::Digest;
use gatepost::domain::policy::Mode;
use gatepost::domain::reason::Reason;
use gatepost::domain::source::Source;
use gatepost::domain::verdict::Verdict;
use gatepost::store::{Commit, Committed, Intake, IntakeFilter, Original};

use super::scene::{
    DAY, Kind, SECOND, SENDER, Scene, address, at, by, everything, own_address, record, subtree,
};

on_both! {
    a_message_reads_back_as_it_was_stored,
    one_bad_entry_takes_all_others_with_it,
    a_decision_by_what_is_no_longer_true_is_stale,
    the_same_message_is_stored_once_per_agent_while_it_is_remembered,
    two_addresses_of_one_agent_in_one_transaction_make_one_message,
    the_same_bytes_for_several_agents_are_kept_once,
    organizations_share_no_contents,
    a_contact_is_made_once_and_follows_its_name,
    some_entries_are_accepted_and_others_refused,
    what_arrived_before_is_known_without_a_commit,
    refusals_are_counted_per_network_reason_minute_and_owner,
}

/// Everything that a message leaves behind, as one number.
const TRACES: &str = "SELECT (SELECT COUNT(*) FROM messages) + (SELECT COUNT(*) FROM contacts)
    + (SELECT COUNT(*) FROM contents)
    + (SELECT COALESCE(SUM(LENGTH(names) - LENGTH(REPLACE(names, ' ', '')) + 1), 0)
       FROM events WHERE told IS NULL)
    + (SELECT COUNT(*) FROM deliveries) + (SELECT COUNT(*) FROM arrivals)
    + (SELECT COUNT(*) FROM records WHERE recorded = 1)";

async fn a_message_reads_back_as_it_was_stored(kind: Kind) {
    let scene = Scene::new(kind).await;
    let intake = scene.intake(&scene.agent, 5).await;
    let accepted = intake.accepted.clone().unwrap();
    assert_eq!(scene.commit(vec![intake.clone()], 5).await, Committed::Done(vec![None]));
    let scope = subtree(&scene.agent);
    let found = scene
        .store
        .recent_messages(&scope, TimeRange::default(), &everything())
        .await
        .unwrap()
        .remove(0);
    let mailed = found.mailed().unwrap();
    assert_eq!(mailed.mail, *accepted.message.mail);
    assert_eq!((found.id, found.at), (accepted.message.id, at(5)));
    assert_eq!((found.agent, found.lineage), (scene.agent.id, scene.agent.lineage));
    assert_eq!((found.size, found.raw), (9, accepted.message.digest));
    let proven = (&mailed.authentication, &mailed.passage);
    assert_eq!(proven, (&accepted.message.authentication, &accepted.message.passage));
    let (digest, marker) = (accepted.message.digest, mailed.passage.marker);
    let original = Original { at: at(5), digest, source: Source::Email, marker };
    assert_eq!(scene.store.original(&scope, found.id).await.unwrap(), Some(original));
    let others = subtree(&scene.other);
    assert_eq!(scene.store.original(&others, found.id).await.unwrap(), None);
    let raw = scene.store.raw_message(&scope, found.id).await.unwrap().unwrap();
    assert_eq!(raw, accepted.raw);
    let kept = scene.store.intake_record(&scope, intake.record.id).await.unwrap();
    assert_eq!(kept, Some(intake.record));
}

async fn one_bad_entry_takes_all_others_with_it(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen(&scene.partner, Category::Incoming, "https://a.example/").await;
    let good = scene.intake(&scene.agent, 0).await;
    // A duplicate record breaks a constraint at the very end of the transaction.
    let refused = Intake { record: record(&scene.agent, 0, Verdict::Accepted), accepted: None };
    let commit = Commit { intakes: vec![good.clone(), refused.clone(), refused], now: at(0) };
    scene.store.commit(&commit).await.unwrap_err();
    assert_eq!(scene.count(TRACES).await, 0);

    let stale = scene.intake(&scene.other, 0).await;
    scene.store.set_mode(scene.other.id, Mode::Allowlist, by(at(0))).await.unwrap();
    assert_eq!(scene.commit(vec![good.clone(), stale], 0).await, Committed::Stale);
    assert_eq!(scene.count(TRACES).await, 0);
    assert_eq!(scene.commit(vec![good], 0).await, Committed::Done(vec![None]));
    // message, contact, contents, 3 events, 1 delivery, arrival, record
    assert_eq!(scene.count(TRACES).await, 9);
}

/// Contract §2.5: whatever the decision rested on, a change of it is noticed.
async fn a_decision_by_what_is_no_longer_true_is_stale(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, agent) = (&scene.store, &scene.agent);
    let alice = [address(SENDER)];
    store.allow_senders(agent.id, &alice, None, 10, by(at(0))).await.unwrap();
    let stale = async |change: &str| {
        let intake = scene.intake(agent, 0).await;
        match change {
            "mode" => store.set_mode(agent.id, Mode::Allowlist, by(at(0))).await.unwrap(),
            "sender" => drop(store.remove_senders(agent.id, &alice, by(at(0))).await.unwrap()),
            "address" => {
                assert!(
                    store.release_address(agent.id, &own_address(agent), by(at(0))).await.unwrap()
                )
            }
            "feature" => {
                let off = [(Feature::InboundEmail, Some(false))];
                store.assign_features(scene.organization.id, &off, by(at(0))).await.unwrap();
            }
            "account" => assert!(store.set_active(agent.id, false, by(at(0))).await.unwrap()),
            _ => assert!(store.set_active(scene.reseller.id, false, by(at(0))).await.unwrap()),
        }
        assert_eq!(scene.commit(vec![intake], 0).await, Committed::Stale, "{change}");
    };
    for change in ["mode", "sender", "feature", "reseller"] {
        stale(change).await;
    }
    let on = [(Feature::InboundEmail, None)];
    store.assign_features(scene.organization.id, &on, by(at(0))).await.unwrap();
    assert!(store.set_active(scene.reseller.id, true, by(at(0))).await.unwrap());
    stale("account").await;
    assert!(store.set_active(agent.id, true, by(at(0))).await.unwrap());
    stale("address").await;
    assert_eq!(scene.count(TRACES).await, 0);
}

async fn the_same_message_is_stored_once_per_agent_while_it_is_remembered(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen(&scene.agent, Category::Incoming, "https://a.example/").await;
    let first = scene.intake(&scene.agent, 0).await;
    let id = first.record.message.unwrap();
    let keys = first.accepted.as_ref().unwrap().arrival_keys.clone();
    scene.commit(vec![first], 0).await;

    // Any one of its keys is enough, and the others are remembered from then on.
    let again = async |agent, millis, keys: &[[u8; 32]]| -> (Option<MessageId>, Intake) {
        let mut intake = scene.intake(agent, millis).await;
        intake.accepted.as_mut().unwrap().arrival_keys = keys.to_vec();
        match scene.commit(vec![intake.clone()], millis).await {
            Committed::Done(earlier) => (earlier[0], intake),
            Committed::Stale => panic!("stale"),
        }
    };
    let other_key = [[9; 32], keys[0]];
    let (earlier, intake) = again(&scene.agent, 7 * DAY - 1, &other_key).await;
    assert_eq!(earlier, Some(id));
    let record = scene.store.intake_record(&subtree(&scene.agent), intake.record.id).await;
    let record = record.unwrap().unwrap();
    assert_eq!(record.message, Some(id));
    assert!(record.explanation.contains("arrived before"), "{}", record.explanation);
    assert_eq!(again(&scene.agent, 7 * DAY, &other_key[..1]).await.0, Some(id));
    // Another Agent has its own; and after seven days the first key is forgotten.
    assert_eq!(again(&scene.other, 1, &keys).await.0, None);
    assert_eq!(again(&scene.agent, 7 * DAY, &keys).await.0, None);
    assert_ne!(again(&scene.agent, 7 * DAY + 1, &keys).await.0, Some(id));
    assert_eq!(scene.count("SELECT COUNT(*) FROM messages").await, 3);
    assert_eq!(scene.count("SELECT COUNT(*) FROM deliveries").await, 2);
    assert_eq!(scene.count("SELECT COUNT(*) FROM records WHERE recorded = 1").await, 6);
}

async fn two_addresses_of_one_agent_in_one_transaction_make_one_message(kind: Kind) {
    let scene = Scene::new(kind).await;
    let first = scene.intake(&scene.agent, 0).await;
    let mut second = scene.intake(&scene.agent, 0).await;
    let keys = first.accepted.as_ref().unwrap().arrival_keys.clone();
    second.accepted.as_mut().unwrap().arrival_keys = keys;
    let id = first.record.message;
    let done = scene.commit(vec![first, second], 0).await;
    assert_eq!(done, Committed::Done(vec![None, id]));
}

async fn the_same_bytes_for_several_agents_are_kept_once(kind: Kind) {
    let scene = Scene::new(kind).await;
    let first = scene.intake(&scene.agent, 0).await;
    let mut second = scene.intake(&scene.other, 0).await;
    let shared = first.accepted.clone().unwrap();
    let accepted = second.accepted.as_mut().unwrap();
    accepted.message.digest = Digest(shared.message.digest.0);
    accepted.raw = shared.raw.clone();
    let other = accepted.message.id;
    scene.commit(vec![first, second], 0).await;
    assert_eq!(scene.count("SELECT COUNT(*) FROM contents").await, 1);
    let raw = scene.store.raw_message(&subtree(&scene.other), other).await.unwrap();
    assert_eq!(raw.as_deref(), Some(shared.raw.as_ref()));
}

/// Not even of one transaction: no key crosses organizations.
async fn organizations_share_no_contents(kind: Kind) {
    let scene = Scene::new(kind).await;
    let stranger = scene.stranger().await;
    let first = scene.intake(&scene.agent, 0).await;
    let shared = first.accepted.clone().unwrap();
    let (mut intakes, mut ids) = (vec![first], Vec::new());
    for agent in [&stranger, &scene.other] {
        let mut intake = scene.intake(agent, 0).await;
        let accepted = intake.accepted.as_mut().unwrap();
        accepted.message.digest = shared.message.digest;
        (accepted.message.mail, accepted.raw) = (shared.message.mail.clone(), shared.raw.clone());
        ids.push((agent, accepted.message.id));
        intakes.push(intake);
    }
    scene.commit(intakes, 0).await;
    assert_eq!(scene.count("SELECT COUNT(*) FROM contents").await, 2);
    let between = "SELECT COUNT(*) FROM messages AS one JOIN messages AS other USING (content_id)
                   WHERE one.organization_id <> other.organization_id";
    assert_eq!(scene.count(between).await, 0);
    for (agent, id) in ids {
        let raw = scene.store.raw_message(&subtree(agent), id).await.unwrap();
        assert_eq!(raw.as_deref(), Some(shared.raw.as_ref()));
    }
}

async fn a_contact_is_made_once_and_follows_its_name(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.listen(&scene.organization, Category::Contact, "https://a.example/").await;
    scene.listen(&scene.organization, Category::Conversation, "https://a.example/").await;
    let mut told = Vec::new();
    let letters = [
        (&scene.agent, Some("Alice")),
        (&scene.agent, Some("Alice")),
        (&scene.agent, None),
        (&scene.agent, Some("Alice B")),
        (&scene.other, Some("Alice B")),
    ];
    for (number, (agent, name)) in letters.into_iter().enumerate() {
        let millis = i64::try_from(number).unwrap() * 60 * SECOND;
        let intake = scene.intake_from(agent, millis, SENDER, name).await;
        scene.commit(vec![intake], millis).await;
        let mut claims = scene.store.claim_deliveries(at(millis), at(DAY), 10, &[]).await.unwrap();
        claims.sort_by_key(|claim| claim.event.name);
        for claim in &claims {
            if let Subject::Contact(contact) = &claim.subject {
                assert_eq!(contact.organization, scene.organization.id);
                assert_eq!(contact.first_seen, at(0));
                assert_eq!(contact.last_seen, at(millis));
                assert_eq!(contact.name, name.map(Into::into));
            }
        }
        told.push(claims.iter().map(|c| c.event.name.as_str()).collect::<Vec<_>>().join(" "));
    }
    assert_eq!(
        told,
        [
            "conversation.started contact.created",
            "conversation.updated",
            "conversation.updated",
            "conversation.updated contact.updated",
            "conversation.started",
        ]
    );
    assert_eq!(scene.count("SELECT COUNT(*) FROM contacts WHERE name = 'Alice B'").await, 1);
    // Contacts and accounts share one sequence of ids.
    let shared = "SELECT COUNT(*) FROM contacts JOIN accounts USING (id)";
    assert_eq!(scene.count(shared).await, 0);
    let stranger = scene.stranger().await;
    scene.deliver(&stranger, 0).await;
    assert_eq!(scene.count("SELECT COUNT(*) FROM contacts").await, 2);
}

/// As when a message comes back to some of its recipients.
async fn some_entries_are_accepted_and_others_refused(kind: Kind) {
    let scene = Scene::new(kind).await;
    let refused = |millis| Intake {
        record: record(&scene.other, millis, Verdict::Refused(Reason::LoopDetected)),
        accepted: None,
    };
    let accepted = scene.intake(&scene.agent, 0).await;
    let id = accepted.record.message;
    let (first, last) = (refused(0), refused(0));
    let commit = vec![first.clone(), accepted.clone(), last.clone()];
    assert_eq!(scene.commit(commit, 0).await, Committed::Done(vec![None; 3]));
    for written in [&first, &accepted, &last] {
        let scope = subtree(&scene.organization);
        let kept = scene.store.intake_record(&scope, written.record.id).await.unwrap();
        assert_eq!(kept.as_ref(), Some(&written.record));
    }
    assert_eq!(scene.count("SELECT COUNT(*) FROM messages").await, 1);
    // Again: what is a repeat is one, and what is refused is refused.
    let mut again = scene.intake(&scene.agent, 1).await;
    let keys = accepted.accepted.unwrap().arrival_keys;
    again.accepted.as_mut().unwrap().arrival_keys = keys;
    let commit = vec![refused(1), again];
    assert_eq!(scene.commit(commit, 1).await, Committed::Done(vec![None, id]));
    // A decision by what is no longer true takes the refusals with it.
    let stale = scene.intake(&scene.agent, 2).await;
    scene.store.set_mode(scene.agent.id, Mode::Allowlist, by(at(2))).await.unwrap();
    assert_eq!(scene.commit(vec![refused(2), stale], 2).await, Committed::Stale);
    assert_eq!(scene.count("SELECT COUNT(*) FROM records WHERE recorded = 1").await, 5);
}

async fn what_arrived_before_is_known_without_a_commit(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (first, other) = (scene.intake(&scene.agent, 0).await, scene.intake(&scene.other, 0).await);
    let keys = first.accepted.as_ref().unwrap().arrival_keys.clone();
    let before = async |intakes: &[&Intake], millis| {
        let intakes = intakes.iter().map(|intake| (*intake).clone()).collect();
        scene.store.arrived_before(&Commit { intakes, now: at(millis) }).await.unwrap()
    };
    assert!(!before(&[&first], 0).await);
    scene.commit(vec![first.clone()], 0).await;
    // By any one of its keys, of all Agents whose copy is accepted, while they are remembered.
    let mut again = first.clone();
    again.accepted.as_mut().unwrap().arrival_keys = vec![[9; 32], keys[0]];
    let mut elsewhere = other.clone();
    elsewhere.accepted.as_mut().unwrap().arrival_keys = keys;
    let refused = Intake { accepted: None, ..other.clone() };
    for intake in [&first, &again] {
        assert!(before(&[intake], 7 * DAY - 1).await);
        assert!(before(&[intake, &refused], 1).await);
        assert!(!before(&[intake], 7 * DAY).await);
        assert!(!before(&[intake, &elsewhere], 1).await);
    }
    assert!(!before(&[&elsewhere], 1).await);
    scene.commit(vec![elsewhere.clone()], 1).await;
    assert!(before(&[&again, &elsewhere], 1).await);
}

async fn refusals_are_counted_per_network_reason_minute_and_owner(kind: Kind) {
    let scene = Scene::new(kind).await;
    let refusal = |agent, millis, reason| record(agent, millis, Verdict::Refused(reason));
    let unknown = Reason::UnknownRecipient;
    let base = refusal(&scene.agent, 0, unknown);
    let id = scene.store.count_refusal(&base, "192.0.2.0/24").await.unwrap();
    assert_eq!(id, base.id);
    let minute = 60 * SECOND - 1 - (super::scene::START % (60 * SECOND));
    for millis in [1, minute] {
        let same = refusal(&scene.agent, millis, unknown);
        assert_eq!(scene.store.count_refusal(&same, "192.0.2.0/24").await.unwrap(), id);
    }
    for (record, network) in [
        (refusal(&scene.agent, 0, unknown), "198.51.100.0/24"),
        (refusal(&scene.agent, 0, Reason::InactiveRecipient), "192.0.2.0/24"),
        (refusal(&scene.agent, minute + 1, unknown), "192.0.2.0/24"),
        (refusal(&scene.other, 0, unknown), "192.0.2.0/24"),
    ] {
        assert_eq!(scene.store.count_refusal(&record, network).await.unwrap(), record.id);
    }
    let (scope, filter) = (subtree(&scene.agent), IntakeFilter::default());
    let records = scene.store.intake_records(&scope, &filter, &everything()).await.unwrap();
    let counts: Vec<_> = records.iter().map(|r| (r.id == id, r.count)).collect();
    assert_eq!(counts.iter().filter(|one| **one == (true, 3)).count(), 1);
    assert_eq!(counts.len(), 4);
}
