//! Scopes of lists, and reading them page by page.

use std::collections::BTreeSet;

use gatepost::domain::account::Account;
use gatepost::domain::clock::TimeRange;
use gatepost::domain::contact::Handle;
use gatepost::domain::id::{IntakeId, MessageId};
use gatepost::domain::reason::Reason;
use gatepost::domain::scope::Scope;
use gatepost::domain::source::Source;
use gatepost::domain::verdict::{Outcome, Verdict};
use gatepost::store::{Commit, Cursor, Direction, Intake, IntakeFilter, List, Page, PastVerdict};

use super::scene::{Kind, Scene, address, at, by, everything, mint, record, subtree};

on_both! {
    a_scope_shows_its_subtree_and_of_it_only_what_is_permitted,
    cursors_walk_both_ways_over_equal_times_without_gap_or_repetition,
    recent_messages_are_those_since_a_time_in_both_directions,
    a_contact_is_found_by_its_address_by_those_it_wrote_to,
    records_are_found_by_every_field_of_the_filter,
    a_walk_ends_where_it_must_and_the_next_one_goes_on,
    a_cursor_is_nobodys_id,
    verdicts_of_the_past_come_page_by_page_without_their_evidence,
    of_many_senders_those_on_the_list_are_found,
}

/// Which of `accounts`' messages, records and originals a scope shows: all answer alike.
async fn visible(scene: &Scene, scope: &Scope, of: &[(&Account, MessageId)]) -> Vec<usize> {
    let messages =
        scene.store.recent_messages(scope, TimeRange::default(), &everything()).await.unwrap();
    let filter = IntakeFilter::default();
    let records = scene.store.intake_records(scope, &filter, &everything()).await.unwrap();
    let all = Scope::subtree(scene.partner.id, scene.partner.kind);
    let every_record = scene.store.intake_records(&all, &filter, &everything()).await.unwrap();
    let mut seen = Vec::new();
    for (place, (_, id)) in of.iter().enumerate() {
        let listed = messages.iter().any(|message| message.id == *id);
        let recorded = records.iter().any(|record| record.message == Some(*id));
        let raw = scene.store.raw_message(scope, *id).await.unwrap().is_some();
        let record = every_record.iter().find(|record| record.message == Some(*id)).unwrap();
        let one = scene.store.intake_record(scope, record.id).await.unwrap().is_some();
        let original = scene.store.original(scope, *id).await.unwrap();
        let marker = original.is_some_and(|found| found.marker.is_some());
        assert_eq!([listed; 4], [recorded, raw, one, marker], "{scope:?}");
        if listed {
            seen.push(place);
        }
    }
    assert_eq!((messages.len(), records.len()), (seen.len(), seen.len()));
    seen
}

async fn a_scope_shows_its_subtree_and_of_it_only_what_is_permitted(kind: Kind) {
    let scene = Scene::new(kind).await;
    let stranger = scene.stranger().await;
    let agents = [&scene.agent, &scene.other, &stranger];
    let mut of = Vec::new();
    for agent in agents {
        of.push((agent, scene.deliver(agent, 0).await));
    }
    let Scene { partner, reseller, organization, agent, other, .. } = &scene;
    let (me, him) = (agent.id, other.id);
    for (scope, expected) in [
        (subtree(partner), vec![0, 1, 2]),
        (subtree(reseller), vec![0, 1]),
        (subtree(organization), vec![0, 1]),
        (subtree(agent), vec![0]),
        (subtree(&stranger), vec![2]),
        (subtree(partner).only(vec![stranger.id]), vec![2]),
        (subtree(reseller).only(vec![him, stranger.id]), vec![1]),
        (subtree(organization).only(vec![me]), vec![0]),
        (subtree(organization).only(vec![]), vec![]),
        (subtree(organization).only(vec![stranger.id]), vec![]),
        (subtree(agent).only(vec![me]), vec![0]),
        (subtree(agent).only(vec![him]), vec![]),
        // An id of one level means nothing at another.
        (Scope::subtree(organization.id, agent.kind), vec![]),
        (Scope::subtree(agent.id, partner.kind), vec![]),
    ] {
        assert_eq!(visible(&scene, &scope, &of).await, expected, "{scope:?}");
    }
    let nothing = subtree(partner);
    let uuid = mint().uuid();
    assert_eq!(scene.store.raw_message(&nothing, MessageId(uuid)).await.unwrap(), None);
    assert_eq!(scene.store.intake_record(&nothing, IntakeId(uuid)).await.unwrap(), None);
}

async fn cursors_walk_both_ways_over_equal_times_without_gap_or_repetition(kind: Kind) {
    let scene = Scene::new(kind).await;
    let mut wanted = Vec::new();
    for millis in [0, 0, 0, 1, 1, 2, 3, 3, 3, 3] {
        wanted.push((millis, scene.deliver(&scene.agent, millis).await));
    }
    wanted.sort();
    wanted.reverse();
    let wanted: Vec<MessageId> = wanted.into_iter().map(|(_, id)| id).collect();
    for scope in [subtree(&scene.agent), subtree(&scene.partner).only(vec![scene.agent.id])] {
        for limit in [1, 2, 3, 4, 9, 10, 11] {
            let walk = async |direction: Direction| {
                let mut pages: Vec<Vec<MessageId>> = Vec::new();
                // From beyond the end in this direction.
                let mut from = match direction {
                    Direction::Before => None,
                    Direction::After => {
                        let first = Cursor { at: at(-1), id: uuid::Uuid::nil() };
                        Some((direction, first))
                    }
                };
                loop {
                    let page = Page { limit, from, until: None };
                    let found = scene
                        .store
                        .recent_messages(&scope, TimeRange::default(), &page)
                        .await
                        .unwrap();
                    let edge = match direction {
                        Direction::Before => found.last(),
                        Direction::After => found.first(),
                    };
                    let Some(edge) = edge else { return pages };
                    from = Some((direction, Cursor { at: edge.at, id: edge.id.0 }));
                    pages.push(found.iter().map(|message| message.id).collect());
                }
            };
            let down = walk(Direction::Before).await;
            assert_eq!(down.concat(), wanted, "limit {limit}");
            let mut up = walk(Direction::After).await;
            up.reverse();
            assert_eq!(up.concat(), wanted, "limit {limit}");
        }
    }
}

async fn recent_messages_are_those_since_a_time_in_both_directions(kind: Kind) {
    let scene = Scene::new(kind).await;
    let mut ids = Vec::new();
    for millis in [0, 1, 1, 2] {
        ids.push(scene.deliver(&scene.agent, millis).await);
    }
    ids.reverse();
    let first = Cursor { at: at(0), id: uuid::Uuid::nil() };
    let last = Cursor { at: at(2), id: uuid::Uuid::nil() };
    for scope in [subtree(&scene.agent), subtree(&scene.partner).only(vec![scene.agent.id])] {
        for (since, from, wanted) in [
            (0, None, &ids[..]),
            (1, None, &ids[..3]),
            (2, None, &ids[..1]),
            (3, None, &[]),
            (1, Some((Direction::Before, last)), &ids[1..3]),
            (2, Some((Direction::Before, last)), &[]),
            (1, Some((Direction::After, first)), &ids[..3]),
            (0, Some((Direction::After, last)), &ids[..1]),
        ] {
            let time = TimeRange { since: Some(at(since)), before: None };
            let page = Page { limit: 9, from, until: None };
            let found = scene.store.recent_messages(&scope, time, &page).await.unwrap();
            let found: Vec<MessageId> = found.iter().map(|message| message.id).collect();
            assert_eq!(found, wanted, "{since} {from:?}");
        }
    }
}

async fn a_contact_is_found_by_its_address_by_those_it_wrote_to(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, stranger) = (&scene.store, scene.stranger().await);
    for (agent, millis, from) in [
        (&scene.agent, 1, "a@good.example"),
        (&scene.other, 5, "a@good.example"),
        (&scene.other, 3, "c@good.example"),
        (&stranger, 4, "a@good.example"),
    ] {
        let intake = scene.intake_from(agent, millis, from, None).await;
        scene.commit(vec![intake], millis).await;
    }
    let find = async |scope: &Scope, from: &str, after| {
        let handle = Handle::Mailbox(address(from));
        let found = store.contacts_with(scope, &handle, after, 9).await.unwrap();
        assert!(found.iter().all(|one| one.handle == handle), "{found:?}");
        found
    };
    let seen = async |scope: Scope, from: &str| {
        let found = find(&scope, from, None).await.into_iter();
        let seen = found
            .map(|one| [one.first_seen, one.last_seen].map(|seen| seen.millis() - at(0).millis()));
        seen.collect::<Vec<_>>()
    };
    let Scene { partner, reseller, organization, agent, other, .. } = &scene;
    for account in [reseller, organization] {
        assert_eq!(seen(subtree(account), "a@good.example").await, [[1, 5]]);
        assert_eq!(seen(subtree(account), "c@good.example").await, [[3, 3]]);
        assert_eq!(seen(subtree(account), "b@good.example").await, [[0; 2]; 0]);
    }
    // Each organization knows a sender by itself: the newest contact first, page by page.
    assert_eq!(seen(subtree(partner), "a@good.example").await, [[4, 4], [1, 5]]);
    let both = find(&subtree(partner), "a@good.example", None).await;
    let rest = find(&subtree(partner), "a@good.example", Some(both[0].id)).await;
    assert_eq!(rest, both[1..]);
    let one = store.contacts_with(&subtree(partner), &both[0].handle, None, 1).await.unwrap();
    assert_eq!(one, both[..1]);
    // An Agent, and whoever is narrowed to some, sees nothing of mail to others.
    assert_eq!(seen(subtree(agent), "a@good.example").await, [[1, 1]]);
    assert_eq!(seen(subtree(agent), "c@good.example").await, [[0; 2]; 0]);
    let narrowed = |agents| subtree(organization).only(agents);
    assert_eq!(seen(narrowed(vec![other.id]), "a@good.example").await, [[5, 5]]);
    assert_eq!(seen(narrowed(vec![agent.id, other.id]), "a@good.example").await, [[1, 5]]);
    assert_eq!(seen(narrowed(vec![]), "a@good.example").await, [[0; 2]; 0]);
    // A contact that is being erased is not there.
    let contact = both[1].id;
    assert!(store.erase_contact(&subtree(organization), contact, by(at(9))).await.unwrap());
    for scope in [subtree(organization), subtree(agent), narrowed(vec![other.id])] {
        assert_eq!(seen(scope, "a@good.example").await, [[0; 2]; 0]);
    }
}

async fn records_are_found_by_every_field_of_the_filter(kind: Kind) {
    let scene = Scene::new(kind).await;
    let refused = Verdict::Refused(Reason::DkimMissing);
    let mut mine = record(&scene.agent, 10, refused);
    mine.sender = Some(Handle::Mailbox(address("bob@good.example")));
    mine.recipient = "Desk@Agents.Example".into();
    let deferred = record(&scene.other, 20, Verdict::Deferred(Reason::DnsUnavailable));
    let intakes =
        [&mine, &deferred].map(|record| Intake { record: record.clone(), accepted: None });
    let commit = Commit { intakes: intakes.to_vec(), now: at(20) };
    scene.store.commit(&commit).await.unwrap();
    let any = IntakeFilter::default();
    let of = |change: &dyn Fn(&mut IntakeFilter)| {
        let mut filter = any.clone();
        change(&mut filter);
        filter
    };
    for (filter, first, second) in [
        (any.clone(), true, true),
        (of(&|f| f.sender = Some(Handle::Mailbox(address("BOB@good.example")))), true, false),
        (of(&|f| f.recipient = Some("desk@agents.example".into())), true, false),
        (of(&|f| f.recipient = Some("desk@agents.%".into())), false, false),
        (of(&|f| f.verdict = Some(Outcome::Refused)), true, false),
        (of(&|f| f.verdict = Some(Outcome::Accepted)), false, false),
        (of(&|f| f.reason = Some(Reason::DnsUnavailable)), false, true),
        (of(&|f| f.since = Some(at(10))), true, true),
        (of(&|f| f.since = Some(at(11))), false, true),
        (of(&|f| f.until = Some(at(20))), true, false),
        (of(&|f| f.until = Some(at(21))), true, true),
    ] {
        let scope = subtree(&scene.organization);
        let found = scene.store.intake_records(&scope, &filter, &everything()).await.unwrap();
        let has = |id| found.iter().any(|record| record.id == id);
        assert_eq!((has(mine.id), has(deferred.id)), (first, second), "{filter:?}");
    }
}

/// However few of the rows are shown: every walk looks at three, and together they miss none.
async fn a_walk_ends_where_it_must_and_the_next_one_goes_on(kind: Kind) {
    let scene = Scene::new(kind).await;
    let mut wanted = Vec::new();
    for (number, millis) in [0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 4].into_iter().enumerate() {
        let agent = if number % 4 == 1 { &scene.agent } else { &scene.other };
        let id = scene.deliver(agent, millis).await;
        if number % 4 == 1 {
            wanted.push((millis, id));
        }
    }
    wanted.sort();
    let mut wanted: Vec<MessageId> = wanted.into_iter().map(|(_, id)| id).collect();
    let scope = subtree(&scene.partner).only(vec![scene.agent.id]);
    let ever = TimeRange::default();
    for direction in [Direction::After, Direction::Before] {
        let start = Cursor { at: at(-1), id: uuid::Uuid::nil() };
        let mut page = Page { limit: 9, from: Some((direction, start)), until: None };
        if direction == Direction::Before {
            (page.from, wanted) = (None, wanted.into_iter().rev().collect());
        }
        let (mut seen, mut walks) = (Vec::new(), 0);
        loop {
            let list = List::Messages;
            page.until = scene.store.end_of_walk(list, &scope, &page, ever, 3).await.unwrap();
            let mut found =
                scene.store.recent_messages(&scope, TimeRange::default(), &page).await.unwrap();
            if direction == Direction::After {
                found.reverse();
            }
            seen.extend(found.iter().map(|message| message.id));
            walks += 1;
            let Some(until) = page.until else { break };
            page.from = Some((direction, until));
        }
        assert_eq!((seen, walks), (wanted.clone(), 4));
    }
    // The time that is asked for is not walked to, nor beyond.
    let within = TimeRange { since: Some(at(1)), before: Some(at(3)) };
    let page = everything();
    let of_time = async |most| {
        let list = List::IntakeRecords;
        scene.store.end_of_walk(list, &scope, &page, within, most).await.unwrap()
    };
    assert_eq!(of_time(1).await.map(|place| place.at), Some(at(2)));
    assert_eq!(of_time(3).await.map(|place| place.at), Some(at(1)));
    assert_eq!(of_time(4).await, None);
}

/// Where a walk ends amid the rows of one millisecond, other Agents' among them: its cursor is the
/// id of none, and none of them is lost or shown twice.
async fn a_cursor_is_nobodys_id(kind: Kind) {
    let scene = Scene::new(kind).await;
    let mut wanted = Vec::new();
    for (number, millis) in [1, 2, 2, 2, 2, 2, 2, 3].into_iter().enumerate() {
        let agent = if number % 2 == 0 { &scene.agent } else { &scene.other };
        let id = scene.deliver(agent, millis).await;
        if number % 2 == 0 {
            wanted.push((millis, id));
        }
    }
    wanted.sort();
    let mut wanted: Vec<MessageId> = wanted.into_iter().map(|(_, id)| id).collect();
    let scope = subtree(&scene.partner).only(vec![scene.agent.id]);
    let end = async |page: &Page, most| {
        scene
            .store
            .end_of_walk(List::Messages, &scope, page, TimeRange::default(), most)
            .await
            .unwrap()
    };
    let first = Cursor { at: at(-1), id: uuid::Uuid::nil() };
    for from in [Some((Direction::After, first)), None] {
        let (direction, beyond) = match from {
            Some((direction, _)) => (direction, uuid::Uuid::max()),
            None => (Direction::Before, uuid::Uuid::nil()),
        };
        for most in 1..=9 {
            let mut page = Page { limit: 9, from, until: None };
            let mut seen = Vec::new();
            loop {
                page.until = end(&page, most).await;
                let mut found =
                    scene.store.recent_messages(&scope, TimeRange::default(), &page).await.unwrap();
                if direction == Direction::After {
                    found.reverse();
                }
                seen.extend(found.iter().map(|message| message.id));
                let Some(until) = page.until else { break };
                assert_eq!(until.id, beyond, "{direction:?} {most}");
                page.from = Some((direction, until));
            }
            assert_eq!(seen, wanted, "{direction:?} {most}");
        }
        wanted.reverse();
    }
}

async fn verdicts_of_the_past_come_page_by_page_without_their_evidence(kind: Kind) {
    let scene = Scene::new(kind).await;
    let refused = |reason| Verdict::Refused(reason);
    let mut wanted = Vec::new();
    for (millis, verdict) in [
        (10, Verdict::Accepted),
        (20, refused(Reason::SenderNotAllowed)),
        (20, Verdict::Deferred(Reason::DnsUnavailable)),
        (30, refused(Reason::SenderInvalid)),
    ] {
        let mut one = record(&scene.agent, millis, verdict);
        if verdict.reason() == Some(Reason::SenderInvalid) {
            one.sender = None;
        }
        let sender = one.sender.as_ref().and_then(Handle::mailbox).cloned();
        let (id, source) = (one.id, Source::Email);
        wanted.push(PastVerdict { id, at: one.at, source, sender, verdict });
        let foreign = record(&scene.other, millis, verdict);
        let intakes = [one, foreign].map(|record| Intake { record, accepted: None }).to_vec();
        scene.store.commit(&Commit { intakes, now: at(millis) }).await.unwrap();
    }
    wanted.sort_by_key(|past| std::cmp::Reverse((past.at, past.id.0)));
    for scope in [subtree(&scene.agent), subtree(&scene.partner).only(vec![scene.agent.id])] {
        let (mut seen, mut from) = (Vec::new(), None);
        loop {
            let page = Page { limit: 1, from, until: None };
            let found = scene.store.past_verdicts(&scope, &page, at(20)).await.unwrap();
            let Some(last) = found.last() else { break };
            from = Some((Direction::Before, Cursor { at: last.at, id: last.id.0 }));
            seen.extend(found);
        }
        assert_eq!(seen, wanted[..3]);
        let all = scene.store.past_verdicts(&scope, &everything(), at(0)).await.unwrap();
        assert_eq!(all, wanted);
    }
}

async fn of_many_senders_those_on_the_list_are_found(kind: Kind) {
    let scene = Scene::new(kind).await;
    let sender = |number: usize| address(&format!("a{number}@good.example"));
    let listed: Vec<_> = (0..300).filter(|number| number % 3 == 0).map(sender).collect();
    scene.store.allow_senders(scene.agent.id, &listed, None, 1000, by(at(0))).await.unwrap();
    scene.store.allow_senders(scene.other.id, &[sender(1)], None, 9, by(at(0))).await.unwrap();
    let asked: BTreeSet<_> = (0..200).map(sender).collect();
    let found = scene.store.listed_among(scene.agent.id, &asked).await.unwrap();
    let expected: BTreeSet<_> = listed.into_iter().filter(|one| asked.contains(one)).collect();
    assert_eq!(found, expected);
    let none = scene.store.listed_among(scene.agent.id, &BTreeSet::new()).await.unwrap();
    assert_eq!(none, BTreeSet::new());
}
