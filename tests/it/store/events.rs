//! The log of events: who sees what of it, in which order, and that nobody misses anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gatepost::domain::account::Account;
use gatepost::domain::delivery::Subject;
use gatepost::domain::event::{Category, Event, EventName};
use gatepost::domain::id::{AccountId, EventId, MessageId};
use gatepost::domain::policy::Mode;
use gatepost::domain::scope::Scope;
use gatepost::store::{Commit, Committed, EventFilter, EventPlace, FoundEvent, PlacedEvent, Store};
use serde_json::json;
use tokio::task::JoinSet;

use super::scene::{Kind, SECOND, Scene, address, at, by, mint, subtree};

on_both! {
    a_scope_shows_its_events_in_the_order_of_their_places,
    as_many_agents_as_a_member_may_be_restricted_to_are_read,
    an_event_that_is_erased_is_older_than_all_that_are_kept,
    no_place_is_given_again_whatever_is_erased,
    whoever_stands_between_events_of_one_message_misses_none_and_sees_none_again,
    an_id_is_the_same_for_ever_and_nobody_elses,
    what_a_filter_leaves_out_is_passed_over_up_to_a_bound,
    a_walk_begins_before_what_happened_since,
    what_is_erased_leaves_its_event,
    a_change_of_a_policy_is_told_once_to_all_above,
    who_follows_sees_each_event_once_and_each_room_in_order,
}

const MOST: u32 = 10_000;
const EVENTS: &str = "SELECT SUM(LENGTH(names) - LENGTH(REPLACE(names, ' ', '')) + 1) FROM events";
/// The end of the range of `members.max_permitted`.
const MOST_PERMITTED: usize = 500;

/// All events of a scope, read in pages of this size.
async fn walk(store: &Store, scope: &Scope, filter: &EventFilter, limit: u32) -> Vec<Event> {
    let (mut found, mut after) = (Vec::new(), 0);
    loop {
        let page = store.events(scope, filter, after, limit, MOST).await.unwrap();
        found.extend(page.events.into_iter().map(|(event, _)| event));
        let Some(last) = page.last else {
            assert!(!page.more);
            return found;
        };
        assert!(last.position > after);
        after = last.position;
    }
}

fn ids(events: &[Event]) -> Vec<EventId> {
    events.iter().map(|event| event.id).collect()
}

async fn place_all(store: &Store) {
    while store.place_events(7).await.unwrap() > 0 {}
}

async fn a_scope_shows_its_events_in_the_order_of_their_places(kind: Kind) {
    let scene = Scene::new(kind).await;
    let stranger = scene.stranger().await;
    for millis in 0..4 {
        for agent in [&scene.agent, &scene.other, &stranger] {
            scene.deliver(agent, millis).await;
        }
    }
    let Scene { store, partner, reseller, organization, agent, other, .. } = &scene;
    let everything = subtree(partner);
    let committed = store.events(&everything, &EventFilter::ALL, 0, 9, MOST).await.unwrap();
    // Only where others may commit beside it, an event waits for its place.
    match kind {
        Kind::Sqlite => assert_eq!((committed.events.len(), committed.more), (9, true)),
        Kind::Postgres => assert_eq!((committed.events.len(), committed.last), (0, None)),
    }
    assert_eq!(store.place_events(7).await.unwrap() > 0, kind == Kind::Postgres);
    place_all(store).await;
    assert_eq!(store.place_events(7).await.unwrap(), 0);
    let all = walk(store, &everything, &EventFilter::ALL, 1000).await;
    assert_eq!(all.len(), usize::try_from(scene.count(EVENTS).await).unwrap());
    let of = |accounts: &[&Account]| -> Vec<EventId> {
        let within =
            |event: &&Event| accounts.iter().any(|one| event.lineage.at(one.kind) == Some(one.id));
        ids(&all.iter().filter(within).cloned().collect::<Vec<_>>())
    };
    let (me, him) = (agent.id, other.id);
    for (scope, expected) in [
        (subtree(partner), of(&[partner])),
        (subtree(reseller), of(&[reseller])),
        (subtree(organization), of(&[organization])),
        (subtree(agent), of(&[agent])),
        (subtree(&stranger), of(&[&stranger])),
        (subtree(organization).only(vec![me]), of(&[agent])),
        (subtree(organization).only(vec![me, him]), of(&[agent, other])),
        (subtree(partner).only(vec![him, stranger.id]), of(&[other, &stranger])),
        (subtree(organization).only(vec![stranger.id]), vec![]),
        (subtree(organization).only(vec![]), vec![]),
        (subtree(agent).only(vec![me]), of(&[agent])),
        (Scope::subtree(agent.id, partner.kind), vec![]),
    ] {
        for limit in [1, 2, 3, 100] {
            let found = walk(store, &scope, &EventFilter::ALL, limit).await;
            assert_eq!(ids(&found), expected, "{scope:?} by {limit}");
        }
        for event in &all {
            let found = store.find_event(&scope, event.id).await.unwrap();
            let position = all.iter().zip(1..).find(|(one, _)| one.id == event.id).unwrap().1;
            let last = store.last_event(&scope, position).await.unwrap();
            if expected.contains(&event.id) {
                assert_eq!(found, FoundEvent::At(position), "{scope:?}");
                assert_eq!(last, Some(EventPlace { event: event.id, position }));
            } else {
                let is_older = expected.first().is_none_or(|first| *first > event.id);
                let absent = if is_older { FoundEvent::Older } else { FoundEvent::Unknown };
                assert_eq!(found, absent, "{scope:?}");
                assert_eq!(last.is_none(), is_older, "{scope:?}");
            }
        }
    }
    let unknown = EventId(mint().uuid());
    assert_eq!(store.find_event(&everything, unknown).await.unwrap(), FoundEvent::Unknown);
    what_got_its_place_is_named(store, &all).await;
}

async fn what_got_its_place_is_named(store: &Store, all: &[Event]) {
    let placed = store.placed_after(2, 3).await.unwrap();
    let expected = all.iter().zip(1..).skip(2).take(3).map(|(event, position)| PlacedEvent {
        place: EventPlace { event: event.id, position },
        name: Some(event.name),
        at: event.at,
        lineage: event.lineage,
    });
    assert_eq!(placed, expected.collect::<Vec<_>>());
    let unknown = EventId(mint().uuid());
    let named = store.events_named(&[all[3].id, unknown, all[1].id]).await.unwrap();
    let named: Vec<Event> = named.into_iter().map(|(event, _)| event).collect();
    assert_eq!(named, [all[3].clone(), all[1].clone()]);
    let last = i64::try_from(all.len()).unwrap();
    assert_eq!(store.last_position().await.unwrap(), last);
    assert_eq!(store.placed_after(last, 3).await.unwrap(), []);
}

async fn as_many_agents_as_a_member_may_be_restricted_to_are_read(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, partner) = (&scene.store, &scene.partner);
    place_all(store).await;
    let most = (1..=i64::try_from(MOST_PERMITTED).unwrap()).map(|id| AccountId::new(id).unwrap());
    let wide = subtree(partner).only(most.collect());
    for filter in [EventFilter::ALL, EventFilter { since: Some(at(0)), ..EventFilter::ALL }] {
        store.events(&wide, &filter, 0, 9, MOST).await.unwrap();
    }
    assert!(store.last_event(&wide, i64::MAX).await.is_ok());
}

/// Retention takes the oldest first: whoever stands there goes on with the oldest that is kept.
async fn an_event_that_is_erased_is_older_than_all_that_are_kept(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, scope) = (&scene.store, subtree(&scene.partner));
    for millis in 0..4 {
        scene.deliver(&scene.agent, millis).await;
    }
    place_all(store).await;
    let all = ids(&walk(store, &scope, &EventFilter::ALL, 100).await);
    scene.execute("DELETE FROM events WHERE position IN (1, 2, 6)").await;
    // Those of the first message, which also made the contact.
    scene.execute("UPDATE events SET position = NULL WHERE position = 10").await;
    for (index, expected) in [
        (0, FoundEvent::Older),
        (1, FoundEvent::Older),
        (2, FoundEvent::At(3)),
        (5, FoundEvent::Unknown),
        (6, FoundEvent::At(7)),
        (7, FoundEvent::Unplaced),
        (8, FoundEvent::Unplaced),
        (9, FoundEvent::Unplaced),
        (10, FoundEvent::At(11)),
    ] {
        assert_eq!(store.find_event(&scope, all[index]).await.unwrap(), expected, "{index}");
    }
    scene.execute("DELETE FROM events").await;
    assert_eq!(store.find_event(&scope, all[8]).await.unwrap(), FoundEvent::Older);
    assert_eq!(store.last_event(&scope, 99).await.unwrap(), None);
}

/// A reader who has come to the end misses nothing that comes later.
async fn no_place_is_given_again_whatever_is_erased(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.deliver(&scene.agent, 0).await;
    place_all(&scene.store).await;
    let end = scene.store.last_position().await.unwrap();
    assert_eq!(end, scene.count("SELECT MAX(position) FROM events").await);
    for newest in ["DELETE FROM events WHERE told IS NULL", "DELETE FROM events"] {
        scene.execute(newest).await;
        // As a server that starts again does.
        let store = scene.open().await;
        let before = store.last_position().await.unwrap();
        assert!(before >= end);
        let intake = scene.intake(&scene.agent, 1).await;
        let commit = Commit { intakes: vec![intake], now: at(1) };
        assert_eq!(store.commit(&commit).await.unwrap(), Committed::Done(vec![None]));
        place_all(&store).await;
        let scope = subtree(&scene.agent);
        let page = store.events(&scope, &EventFilter::ALL, before, 9, MOST).await.unwrap();
        let names: Vec<EventName> = page.events.iter().map(|(event, _)| event.name).collect();
        assert_eq!(names, [EventName::ConversationUpdated, EventName::EmailReceived]);
        assert_eq!(page.last.unwrap().position, store.last_position().await.unwrap());
    }
}

async fn whoever_stands_between_events_of_one_message_misses_none_and_sees_none_again(kind: Kind) {
    let scene = Scene::new(kind).await;
    let Scene { store, agent, other, organization, .. } = &scene;
    for millis in 0..4 {
        scene.deliver(if millis % 2 == 0 { agent } else { other }, millis).await;
    }
    place_all(store).await;
    let (whole, few) = (subtree(organization), subtree(organization).only(vec![agent.id]));
    let everything = store.placed_after(0, 100).await.unwrap();
    let rows = scene.count("SELECT COUNT(*) FROM events").await;
    assert!(everything.len() > usize::try_from(rows).unwrap() + 4, "several of a row");
    let named = Some(vec![EventName::ConversationStarted, EventName::EmailReceived]);
    let filters = [EventFilter::ALL, EventFilter { names: named, ..EventFilter::ALL }];
    for (scope, filter) in
        [&whole, &few].into_iter().flat_map(|s| filters.iter().map(move |f| (s, f)))
    {
        let all = walk(store, scope, &EventFilter::ALL, 100).await;
        let is_wanted = |place: &&PlacedEvent| {
            let is_of_it = all.iter().any(|event| event.id == place.place.event);
            is_of_it && filter.lets_through(place.name.unwrap(), place.at)
        };
        for after in 0..=i64::try_from(everything.len()).unwrap() {
            let behind = everything.iter().filter(|one| one.place.position > after);
            let expected: Vec<EventId> =
                behind.filter(is_wanted).map(|one| one.place.event).collect();
            for (limit, most) in [(1, MOST), (2, 2), (3, MOST), (100, 3), (100, MOST)] {
                let page = store.events(scope, filter, after, limit, most).await.unwrap();
                let found: Vec<EventId> = page.events.iter().map(|(event, _)| event.id).collect();
                let most = usize::try_from(limit).unwrap();
                let is_all = found.len() == expected.len();
                assert!(found.len() <= most && expected.starts_with(&found), "{after}, {limit}");
                assert!(is_all || page.more, "{after}, {limit}: {found:?}");
                // Nothing lies between what it found and where it ended.
                let end = page.last.map_or(after, |last| last.position);
                let next = everything.iter().filter(|one| one.place.position > end);
                let next: Vec<EventId> =
                    next.filter(is_wanted).map(|one| one.place.event).collect();
                assert_eq!(expected[found.len()..], next, "{after}, {limit}");
            }
            let next = store.placed_after(after, 2).await.unwrap();
            let index = usize::try_from(after).unwrap();
            assert_eq!(next, everything.iter().skip(index).take(2).copied().collect::<Vec<_>>());
        }
    }
}

/// Also while others are read, claimed, started again or deleted.
async fn an_id_is_the_same_for_ever_and_nobody_elses(kind: Kind) {
    let scene = Scene::new(kind).await;
    let scope = subtree(&scene.partner);
    for category in [Category::Contact, Category::Conversation, Category::Incoming] {
        scene.listen(&scene.agent, category, "https://a.example/").await;
    }
    for millis in 0..3 {
        scene.deliver(&scene.agent, millis).await;
    }
    place_all(&scene.store).await;
    let all = walk(&scene.store, &scope, &EventFilter::ALL, 100).await;
    assert_eq!(ids(&all).iter().collect::<BTreeSet<_>>().len(), all.len());
    let claims = scene.store.claim_deliveries(at(9), at(10), 99, &[]).await.unwrap();
    let claimed: BTreeMap<EventId, Event> =
        claims.into_iter().map(|claim| (claim.event.id, claim.event)).collect();
    let told = all.iter().filter(|event| event.message.is_some());
    assert_eq!(claimed, told.map(|event| (event.id, event.clone())).collect());
    let store = scene.open().await;
    assert_eq!(walk(&store, &scope, &EventFilter::ALL, 2).await, all);
    // All but the last message's.
    scene.execute("DELETE FROM deliveries; DELETE FROM events WHERE position <= 12").await;
    let left = walk(&store, &scope, &EventFilter::ALL, 100).await;
    assert_eq!(left, all[12..]);
    for (event, position) in left.iter().zip(13..) {
        let found = store.find_event(&scope, event.id).await.unwrap();
        assert_eq!(found, FoundEvent::At(position));
    }
    // One more than the message has told.
    let beyond = left.last().unwrap().id.nth(9);
    assert_eq!(store.find_event(&scope, beyond).await.unwrap(), FoundEvent::Unknown);
}

async fn what_a_filter_leaves_out_is_passed_over_up_to_a_bound(kind: Kind) {
    let scene = Scene::new(kind).await;
    let Scene { store, agent, other, organization, partner, .. } = &scene;
    for millis in 0..10 {
        scene.deliver(if millis % 2 == 0 { agent } else { other }, millis).await;
    }
    place_all(store).await;
    let filter =
        |names: &[EventName]| EventFilter { names: Some(names.to_vec()), ..EventFilter::ALL };
    for scope in [
        subtree(partner),
        subtree(organization).only(vec![agent.id]),
        subtree(organization).only(vec![agent.id, other.id]),
    ] {
        let all = walk(store, &scope, &EventFilter::ALL, 100).await;
        for names in [
            vec![EventName::EmailReceived],
            vec![EventName::ContactCreated, EventName::ConversationStarted],
            vec![EventName::WebhookTest],
            vec![],
        ] {
            let is_wanted = |event: &&Event| names.contains(&event.name);
            let expected = ids(&all.iter().filter(is_wanted).cloned().collect::<Vec<_>>());
            for (limit, most) in [(1, 4), (3, 4), (2, 1), (100, 6), (100, MOST)] {
                let (mut found, mut after, mut more) = (Vec::new(), 0, true);
                while more {
                    let wanted = filter(&names);
                    let page = store.events(&scope, &wanted, after, limit, most).await.unwrap();
                    assert!(page.events.len() <= usize::try_from(limit.min(most)).unwrap());
                    found.extend(page.events.into_iter().map(|(event, _)| event.id));
                    more = page.more;
                    after = page.last.map_or(after, |last| last.position);
                }
                assert_eq!(found, expected, "{scope:?} {names:?} by {limit} of {most}");
                // A reader who goes on from here reads nothing twice.
                let end = store.events(&scope, &filter(&names), after, limit, most).await;
                assert_eq!(end.unwrap().last, None);
            }
        }
    }
}

async fn a_walk_begins_before_what_happened_since(kind: Kind) {
    let scene = Scene::new(kind).await;
    let Scene { store, agent, other, organization, .. } = &scene;
    const HOUR: i64 = 3600 * SECOND;
    for hour in 0..12 {
        scene.deliver(if hour % 3 == 0 { other } else { agent }, hour * HOUR).await;
    }
    place_all(store).await;
    for scope in [subtree(organization), subtree(agent), subtree(organization).only(vec![agent.id])]
    {
        let all = walk(store, &scope, &EventFilter::ALL, 100).await;
        for hour in -1..13 {
            let since = at(hour * HOUR);
            let from = store.position_before(&scope, since).await.unwrap();
            let filter = EventFilter { since: Some(since), ..EventFilter::ALL };
            let found = store.events(&scope, &filter, from, 100, MOST).await.unwrap().events;
            let found: Vec<_> = found.into_iter().map(|(event, _)| event).collect();
            let expected: Vec<_> = all.iter().filter(|event| event.at >= since).cloned().collect();
            assert_eq!(found, expected, "{hour}");
            // The rows in between are not read from the beginning.
            let between = store.events(&scope, &EventFilter::ALL, from, 100, MOST).await.unwrap();
            assert!(between.events.iter().all(|(event, _)| event.at >= at((hour - 1) * HOUR)));
        }
    }
}

async fn what_is_erased_leaves_its_event(kind: Kind) {
    let scene = Scene::new(kind).await;
    scene.deliver(&scene.agent, 0).await;
    place_all(&scene.store).await;
    let read = async || {
        let scope = subtree(&scene.agent);
        let page = scene.store.events(&scope, &EventFilter::ALL, 0, 9, MOST).await.unwrap();
        let subjects = page.events.into_iter().map(|(_, subject)| subject);
        // Events of the account and its policy carry their own subject.
        subjects.filter(|one| !matches!(one, Subject::Told(_))).collect::<Vec<_>>()
    };
    let whole = read().await;
    assert!(matches!(whole[..], [Subject::Contact(_), Subject::Message(_), Subject::Message(_)]));
    scene.execute("DELETE FROM messages").await;
    let erased = read().await;
    assert!(matches!(erased[..], [Subject::Contact(_), Subject::Erased, Subject::Erased]));
    let unheard = "UPDATE events SET names = REPLACE(names, 'email.received', 'unheard.of')";
    scene.execute(unheard).await;
    assert_eq!(read().await.len(), 2, "what cannot be read holds up nothing");
}

async fn a_change_of_a_policy_is_told_once_to_all_above(kind: Kind) {
    let scene = Scene::new(kind).await;
    let Scene { store, agent, partner, .. } = &scene;
    place_all(store).await;
    let mut after = store.last_position().await.unwrap();
    let hook = scene.listen(partner, Category::Agent, "https://a.example/").await;
    scene.listen(&scene.other, Category::Agent, "https://b.example/").await;
    let both = [address("a@good.example"), address("b@good.example")];
    for (step, told) in [
        ("open", None),
        ("allowlist", Some(("allowlist", 0, 0, 0))),
        ("allowlist", None),
        ("add", Some(("allowlist", 2, 2, 0))),
        ("add", None),
        ("too many", None),
        ("remove", Some(("allowlist", 1, 0, 1))),
        ("remove", None),
        ("open", Some(("open", 1, 0, 0))),
    ] {
        match step {
            "open" => store.set_mode(agent.id, Mode::Open, by(at(1))).await.unwrap(),
            "allowlist" => store.set_mode(agent.id, Mode::Allowlist, by(at(1))).await.unwrap(),
            "add" => {
                store.allow_senders(agent.id, &both, None, 5, by(at(1))).await.unwrap().unwrap();
            }
            "too many" => {
                let more = [address("c@good.example")];
                let full = store.allow_senders(agent.id, &more, None, 2, by(at(1))).await.unwrap();
                assert_eq!(full, None);
            }
            _ => {
                store.remove_senders(agent.id, &both[..1], by(at(1))).await.unwrap();
            }
        }
        place_all(store).await;
        let all = EventFilter::ALL;
        let page = store.events(&subtree(agent), &all, after, 9, MOST).await.unwrap();
        after = page.last.map_or(after, |last| last.position);
        let expected = told.map(|(mode, count, added, removed)| {
            Subject::Told(json!({
                "accountId": agent.id.get(), "mode": mode, "allowlistCount": count,
                "added": added, "removed": removed,
            }))
        });
        assert!(page.events.iter().all(|(event, _)| event.name == EventName::AgentPolicyChanged));
        let subjects: Vec<_> = page.events.into_iter().map(|(_, subject)| subject).collect();
        assert_eq!(subjects, Vec::from_iter(expected), "{step}");
    }
    let claims = store.claim_deliveries(at(2), at(9), 99, &[]).await.unwrap();
    assert_eq!(claims.len(), 4);
    assert!(claims.iter().all(|claim| claim.destination.id == hook.id));
}

/// How many events are there for whoever follows, before anything is delivered.
async fn walked_by(scene: &Scene) -> usize {
    place_all(&scene.store).await;
    walk(&scene.store, &subtree(&scene.organization), &EventFilter::ALL, 100).await.len()
}

/// Several gateways write, others give places, and readers follow meanwhile.
async fn who_follows_sees_each_event_once_and_each_room_in_order(kind: Kind) {
    const ROOMS: usize = 6;
    const MESSAGES: usize = 25;
    let scene = Scene::new(kind).await;
    // One for the contact of each room and two for each message, beside those of accounts.
    let total = walked_by(&scene).await + ROOMS * (1 + 2 * MESSAGES);
    let is_written = Arc::new(AtomicBool::new(false));
    let mut writing = JoinSet::new();
    let mut gateways = Vec::new();
    for _ in 0..3 {
        gateways.push(scene.open().await);
    }
    for room in 0..ROOMS {
        let mut intakes = Vec::new();
        let from = format!("sender{room}@good.example");
        for _ in 0..MESSAGES {
            intakes.push(scene.intake_from(&scene.agent, 0, &from, Some("One")).await);
        }
        let gateways = gateways.clone();
        // Each message of a room comes to the next gateway once the one before is acknowledged.
        writing.spawn(async move {
            let mut sent = Vec::new();
            for (number, intake) in intakes.into_iter().enumerate() {
                sent.extend(intake.record.message);
                let commit = Commit { intakes: vec![intake], now: at(0) };
                let store = &gateways[(room + number) % gateways.len()];
                assert_eq!(store.commit(&commit).await.unwrap(), Committed::Done(vec![None]));
            }
            sent
        });
    }
    let mut reading = JoinSet::new();
    for (store, limit) in [(scene.open().await, 3), (scene.open().await, 50)] {
        let (scope, is_written) = (subtree(&scene.organization), Arc::clone(&is_written));
        reading.spawn(async move {
            let (mut seen, mut after) = (Vec::new(), 0);
            loop {
                let is_last = is_written.load(Ordering::SeqCst);
                let placed = store.place_events(11).await.unwrap();
                let page =
                    store.events(&scope, &EventFilter::ALL, after, limit, MOST).await.unwrap();
                if is_last && placed == 0 && page.events.is_empty() {
                    return seen;
                }
                after = page.last.map_or(after, |last| last.position);
                seen.extend(page.events.into_iter().map(|(event, _)| event));
                tokio::task::yield_now().await;
            }
        });
    }
    let rooms = writing.join_all().await;
    is_written.store(true, Ordering::SeqCst);
    for seen in reading.join_all().await {
        let distinct: BTreeSet<EventId> = seen.iter().map(|event| event.id).collect();
        assert_eq!((seen.len(), distinct.len()), (total, total));
        let mut told: BTreeMap<_, Vec<MessageId>> = BTreeMap::new();
        for event in seen.iter().filter(|event| event.name == EventName::EmailReceived) {
            told.entry(event.contact).or_default().push(event.message.unwrap());
        }
        assert_eq!(told.into_values().collect::<BTreeSet<_>>(), rooms.iter().cloned().collect());
    }
}
