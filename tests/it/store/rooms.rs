//! Rooms and threads: kept true by all that brings messages, reads them or takes them away.

use std::collections::BTreeMap;

use gatepost::domain::account::Account;
use gatepost::domain::agent_outcome::NewOutcome;
use gatepost::domain::clock::TimeRange;
use gatepost::domain::id::{AccountId, ContactId, MessageId, ThreadId};
use gatepost::domain::message::Message;
use gatepost::domain::room::Room;
use gatepost::domain::source::Inbox;
use gatepost::domain::thread::{ThreadKey, ThreadKeys};
use gatepost::rules::RetainedKind;
use gatepost::store::{
    Committed, Cursor, Direction, DueAccount, ListedRoom, OutlinedMessage, Page, RoomFilter,
    RoomPage, Store,
};
use gatepost::testkit::dice::Dice;

use super::scene::{DAY, Kind, Scene, at, by, everything, subtree};

on_both! {
    rooms_are_what_one_computes_from_their_messages,
    many_who_write_read_and_delete_at_once_leave_rooms_true,
    a_thread_is_found_by_what_its_messages_name,
    a_thread_never_leaves_its_room,
    rooms_are_listed_page_by_page,
    a_filter_looks_at_a_bounded_number_of_rooms,
    messages_are_found_in_their_rooms_only,
    contacts_are_shown_to_those_they_wrote_to,
    when_a_contact_wrote_last_is_written_when_that_message_goes,
}

const ALL: RoomFilter = RoomFilter { inbox: Inbox::Priority, unread: false };
const FIRST: RoomPage = RoomPage { before: None, skip: 0, limit: 1000 };

async fn rooms(scene: &Scene, store: &Store) -> Vec<ListedRoom> {
    let scope = subtree(&scene.partner);
    store.list_rooms(&scope, ALL, FIRST, 100_000).await.unwrap().rooms
}

/// A message from one of some senders, with keys that link it to others.
async fn post(
    scene: &Scene,
    agent: &Account,
    millis: i64,
    from: &str,
    keys: ThreadKeys,
) -> Message {
    let id = send(scene, agent, millis, from, keys).await;
    message(scene, id).await
}

/// Stores a message without reading it back, since another task may delete it at once.
async fn send(
    scene: &Scene,
    agent: &Account,
    millis: i64,
    from: &str,
    keys: ThreadKeys,
) -> MessageId {
    let mut intake = scene.intake_from(agent, millis, from, None).await;
    let id = intake.record.message.unwrap();
    intake.accepted.as_mut().unwrap().message.thread = keys;
    assert_eq!(scene.commit(vec![intake], millis).await, Committed::Done(vec![None]));
    id
}

async fn message(scene: &Scene, id: MessageId) -> Message {
    scene.store.messages(&subtree(&scene.partner), &[id]).await.unwrap().remove(0)
}

fn keys(own: u8, named: &[u8]) -> ThreadKeys {
    let key = |number| ThreadKey([number; 16]);
    ThreadKeys { own: Some(key(own)), named: named.iter().copied().map(key).collect() }
}

fn place(message: &Message) -> Cursor {
    Cursor { at: message.at, id: message.id.0 }
}

/// Deletes up to `most` of an Agent's messages, as retention does.
async fn delete(store: &Store, agent: &Account, until: i64, most: usize) {
    let due = DueAccount { account: agent.id, kind: agent.kind, until: at(until) };
    let rows = store.expired(RetainedKind::Messages, &due, None, most).await.unwrap();
    // Another handle may be deleting; then this one has nothing to do.
    store.delete_expired(RetainedKind::Messages, &rows, 99).await.unwrap();
}

/// Computes the rooms that the list must show, from their messages and read marks.
fn computed(
    messages: &[Message],
    read: &BTreeMap<(i64, i64), Cursor>,
) -> Vec<(Room, u64, u64, MessageId)> {
    let mut by_room: BTreeMap<(i64, i64), Vec<&Message>> = BTreeMap::new();
    for message in messages {
        by_room.entry((message.contact.get(), message.agent.get())).or_default().push(message);
    }
    let mut rooms: Vec<_> = by_room
        .into_iter()
        .map(|(key, mut of_room)| {
            of_room.sort_by_key(|message| place(message));
            let behind =
                |message: &&&Message| read.get(&key).is_none_or(|read| place(message) > *read);
            let unread = of_room.iter().filter(behind).count();
            let latest = of_room.last().unwrap();
            let count = |number: usize| u64::try_from(number).unwrap();
            (place(latest), (latest.room(), count(of_room.len()), count(unread), latest.id))
        })
        .collect();
    rooms.sort_by_key(|(place, (room, ..))| {
        std::cmp::Reverse((place.at, room.contact.get(), room.agent.get()))
    });
    rooms.into_iter().map(|(_, room)| room).collect()
}

fn said(rooms: &[ListedRoom]) -> Vec<(Room, u64, u64, MessageId)> {
    rooms.iter().map(|one| (one.room, one.messages, one.unread, one.last_message)).collect()
}

/// Random arrivals (also out of order, several in one group), reads and deletions.
async fn rooms_are_what_one_computes_from_their_messages(kind: Kind) {
    let scene = Scene::new(kind).await;
    let scope = subtree(&scene.partner);
    let (mut dice, mut read) = (Dice(7), BTreeMap::<(i64, i64), Cursor>::new());
    for step in 0..120 {
        match dice.roll(6) {
            0..=3 => {
                let mut intakes = Vec::new();
                for _ in 0..=dice.roll(3) {
                    let agent = [&scene.agent, &scene.other][dice.roll(2)];
                    let from = format!("s{}@good.example", dice.roll(3));
                    let millis = i64::try_from(dice.roll(50)).unwrap();
                    intakes.push(scene.intake_from(agent, millis, &from, None).await);
                }
                let none = vec![None; intakes.len()];
                assert_eq!(scene.commit(intakes, 0).await, Committed::Done(none));
            }
            4 => {
                let messages = scene
                    .store
                    .recent_messages(&scope, TimeRange::default(), &everything())
                    .await
                    .unwrap();
                if !messages.is_empty() {
                    let one = &messages[dice.roll(messages.len())];
                    let mark = (one.room(), place(one));
                    let changed = scene.store.mark_read(&scope, &[mark]).await.unwrap();
                    let key = (one.contact.get(), one.agent.get());
                    let before = read.get(&key).copied();
                    assert_eq!(changed, u64::from(before.is_none_or(|read| read < mark.1)));
                    read.insert(key, before.map_or(mark.1, |read| read.max(mark.1)));
                }
            }
            _ => {
                let agent = [&scene.agent, &scene.other][dice.roll(2)];
                let until = i64::try_from(dice.roll(60)).unwrap();
                delete(&scene.store, agent, until, 1 + dice.roll(8)).await;
            }
        }
        let messages =
            scene.store.recent_messages(&scope, TimeRange::default(), &everything()).await.unwrap();
        // A room that has gone was never read when it begins again.
        read.retain(|key, _| {
            messages.iter().any(|one| (one.contact.get(), one.agent.get()) == *key)
        });
        let found = rooms(&scene, &scene.store).await;
        assert_eq!(said(&found), computed(&messages, &read), "after step {step}");
        for room in &found {
            let latest = messages.iter().find(|one| one.id == room.last_message).unwrap();
            assert_eq!((room.last_at, room.preview.as_str()), (latest.at, "Hello"));
            let first = messages.iter().filter(|one| one.room() == room.room);
            assert_eq!(first.map(|one| one.at).min(), Some(room.started_at));
        }
    }
    let astray = "SELECT COUNT(*) FROM thread_keys
                  WHERE message_id NOT IN (SELECT id FROM messages)";
    assert_eq!(scene.count(astray).await, 0);
    delete(&scene.store, &scene.agent, DAY, 1000).await;
    delete(&scene.store, &scene.other, DAY, 1000).await;
    assert_eq!(scene.count("SELECT COUNT(*) FROM rooms").await, 0);
}

/// Three gateways at once; whatever they did in which order, the rows are true afterwards.
async fn many_who_write_read_and_delete_at_once_leave_rooms_true(kind: Kind) {
    let scene = Scene::new(kind).await;
    let scope = subtree(&scene.partner);
    let stores = [scene.open().await, scene.open().await];
    let write = async {
        for number in 0..60 {
            let from = format!("s{}@good.example", number % 2);
            send(&scene, &scene.agent, number, &from, keys(u8::try_from(number).unwrap(), &[]))
                .await;
        }
    };
    let read = async {
        for _ in 0..60 {
            let page = Page { limit: 1, ..everything() };
            for one in stores[0].recent_messages(&scope, TimeRange::default(), &page).await.unwrap()
            {
                stores[0].mark_read(&scope, &[(one.room(), place(&one))]).await.unwrap();
            }
        }
    };
    let forget = async {
        for _ in 0..30 {
            delete(&stores[1], &scene.agent, DAY, 2).await;
        }
    };
    tokio::join!(write, read, forget);
    let found = rooms(&scene, &scene.store).await;
    let messages =
        scene.store.recent_messages(&scope, TimeRange::default(), &everything()).await.unwrap();
    // How far each was read is known to the row alone: the count must be that of a count now.
    let all = computed(&messages, &BTreeMap::new());
    let counted = |rooms: &[(Room, u64, u64, MessageId)]| {
        rooms.iter().map(|one| (one.0, one.1, one.3)).collect::<Vec<_>>()
    };
    assert_eq!(counted(&said(&found)), counted(&all));
    let wrong = "SELECT COUNT(*) FROM rooms WHERE unread <> (SELECT COUNT(*) FROM messages
        WHERE messages.contact_id = rooms.contact_id AND messages.agent_id = rooms.agent_id
          AND (at, id) > (read_at, read_id))";
    assert_eq!(scene.count(wrong).await, 0);
}

async fn a_thread_is_found_by_what_its_messages_name(kind: Kind) {
    let scene = Scene::new(kind).await;
    let agent = &scene.agent;
    let post = async |millis, keys| post(&scene, agent, millis, "a@good.example", keys).await;
    let first = post(0, keys(1, &[])).await;
    assert_eq!(first.thread, ThreadId(first.id.0));
    let reply = post(1, keys(2, &[1])).await;
    let other = post(2, keys(3, &[])).await;
    // The first named message that is known decides, so the one answered goes before other
    // references.
    let both = post(3, keys(4, &[9, 3, 2])).await;
    assert_eq!((reply.thread, both.thread), (first.thread, other.thread));
    // Two replies to something that nobody saw; then that comes, overtaken.
    let (one, two) = (post(4, keys(5, &[8])).await, post(5, keys(6, &[8])).await);
    let late = post(6, keys(8, &[])).await;
    assert_eq!([one.thread, two.thread, late.thread], [ThreadId(one.id.0); 3]);
    // In one group they see each other, in their order.
    let mut intakes = Vec::new();
    for (number, named) in [(20, 21), (21, 22), (22, 20)] {
        let mut intake = scene.intake_from(agent, 7, "a@good.example", None).await;
        intake.accepted.as_mut().unwrap().message.thread = keys(number, &[named]);
        intakes.push(intake);
    }
    let ids: Vec<_> = intakes.iter().map(|intake| intake.record.message.unwrap()).collect();
    scene.commit(intakes, 7).await;
    for id in &ids {
        assert_eq!(message(&scene, *id).await.thread, ThreadId(ids[0].0));
    }
    // A message without a Message-ID that names no other is alone in its thread.
    let alone = post(8, ThreadKeys::default()).await;
    assert_eq!(alone.thread, ThreadId(alone.id.0));
    let thread = async |thread| {
        let scope = subtree(agent);
        let page = Page { limit: 9, from: None, until: None };
        let room = first.room();
        let found = scene.store.room_messages(&scope, room, Some(thread), &page).await.unwrap();
        found.into_iter().map(|one| one.id).collect::<Vec<_>>()
    };
    assert_eq!(thread(first.thread).await, [reply.id, first.id]);
    assert_eq!(thread(other.thread).await, [both.id, other.id]);
    assert_eq!(thread(ThreadId(reply.id.0)).await, []);
    // Erased: who names it later begins anew; the others stay together.
    delete(&scene.store, agent, 1, 1).await;
    assert_eq!(thread(first.thread).await, [reply.id]);
    let anew = post(9, keys(30, &[1])).await;
    assert_eq!(anew.thread, ThreadId(anew.id.0));
    assert_eq!(post(10, keys(31, &[2])).await.thread, first.thread);
    // A message that arrived after its answer is still found by its own Message-ID when that answer
    // is erased.
    let overtaking = post(-9, keys(40, &[41])).await;
    let named = post(-8, keys(41, &[])).await;
    assert_eq!(named.thread, overtaking.thread);
    delete(&scene.store, agent, -8, 1).await;
    assert_eq!(post(11, keys(42, &[41])).await.thread, named.thread);
}

/// A message that names a Message-ID of another room learns nothing of it, and joins no thread.
async fn a_thread_never_leaves_its_room(kind: Kind) {
    let scene = Scene::new(kind).await;
    let first = post(&scene, &scene.agent, 0, "a@good.example", keys(1, &[])).await;
    for (agent, from) in [(&scene.agent, "b@good.example"), (&scene.other, "a@good.example")] {
        let quoting = post(&scene, agent, 1, from, keys(2, &[1])).await;
        assert_eq!(quoting.thread, ThreadId(quoting.id.0));
        // One person under two Agents is one contact with two rooms.
        assert_eq!(quoting.contact == first.contact, from == "a@good.example");
        let page = everything();
        let scope = subtree(&scene.organization);
        let found = scene.store.room_messages(&scope, quoting.room(), Some(first.thread), &page);
        assert_eq!(found.await.unwrap(), []);
    }
}

async fn rooms_are_listed_page_by_page(kind: Kind) {
    let scene = Scene::new(kind).await;
    for number in 0..7_i64 {
        let agent = if number % 2 == 0 { &scene.agent } else { &scene.other };
        // Two of them at the same moment.
        post(&scene, agent, number / 2, &format!("s{number}@good.example"), keys(1, &[])).await;
    }
    let all = rooms(&scene, &scene.store).await;
    assert_eq!(all.len(), 7);
    assert!(all.is_sorted_by_key(|one| std::cmp::Reverse((one.last_at, one.room.contact.get()))));
    assert_eq!(all[0].handle.to_string(), "s6@good.example");
    for account in [&scene.partner, &scene.reseller, &scene.organization, &scene.agent] {
        let scope = subtree(account);
        let wanted: Vec<_> = all
            .iter()
            .filter(|one| account.id != scene.agent.id || one.room.agent == scene.agent.id)
            .cloned()
            .collect();
        let (mut seen, mut before) = (Vec::new(), None);
        loop {
            let page = RoomPage { before, skip: 0, limit: 2 };
            let list = scene.store.list_rooms(&scope, ALL, page, 100).await.unwrap();
            assert_eq!(usize::try_from(list.total).unwrap(), wanted.len() - seen.len());
            seen.extend(list.rooms);
            before = list.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(seen, wanted);
        let page = RoomPage { before: None, skip: 2, limit: 2 };
        let second = scene.store.list_rooms(&scope, ALL, page, 100).await.unwrap();
        assert_eq!(second.rooms, wanted[2..4]);
    }
    let junk = RoomFilter { inbox: Inbox::Junk, unread: false };
    let scope = subtree(&scene.partner);
    assert_eq!(scene.store.list_rooms(&scope, junk, FIRST, 9).await.unwrap().rooms, []);
    scene.execute("UPDATE rooms SET inbox = 'junk', preview = NULL WHERE messages = 1").await;
    let found = scene.store.list_rooms(&scope, junk, FIRST, 9).await.unwrap();
    // A preview that is not there is read from the message.
    assert_eq!((found.rooms.len(), found.rooms[0].preview.as_str()), (7, "Hello"));
    let stranger = scene.stranger().await;
    let foreign = subtree(&stranger);
    assert_eq!(scene.store.list_rooms(&foreign, junk, FIRST, 9).await.unwrap().rooms, []);
}

/// A page reads three rooms at most, however many the filter drops; the next page goes on behind
/// them.
async fn a_filter_looks_at_a_bounded_number_of_rooms(kind: Kind) {
    let scene = Scene::new(kind).await;
    let scope = subtree(&scene.organization);
    for number in 0..9_i64 {
        let agent = if number % 3 == 0 { &scene.agent } else { &scene.other };
        let one =
            post(&scene, agent, number, &format!("s{number}@good.example"), keys(1, &[])).await;
        if number != 1 {
            scene.store.mark_read(&scope, &[(one.room(), place(&one))]).await.unwrap();
        }
    }
    let walk = async |scope, filter: RoomFilter| {
        let (mut pages, mut before) = (Vec::new(), None);
        loop {
            let page = RoomPage { before, skip: 0, limit: 3 };
            let list = scene.store.list_rooms(scope, filter, page, 3).await.unwrap();
            pages.push((list.rooms.len(), list.total));
            before = list.next;
            if before.is_none() {
                return pages;
            }
        }
    };
    let unread = RoomFilter { unread: true, ..ALL };
    assert_eq!(walk(&scope, unread).await, [(0, 0), (0, 0), (1, 1), (0, 0)]);
    assert_eq!(walk(&scope, ALL).await, [(3, 3), (3, 3), (3, 3)]);
    let few = scope.clone().only(vec![scene.agent.id]);
    assert_eq!(walk(&few, ALL).await, [(1, 1), (1, 1), (1, 1), (0, 0)]);
    // Rooms outside the scope are not marked.
    let rooms = rooms(&scene, &scene.store).await;
    let unread = rooms.iter().find(|one| one.unread == 1).unwrap();
    let mark = (unread.room, Cursor { at: at(DAY), id: unread.last_message.0 });
    for foreign in [&few, &subtree(&scene.agent), &subtree(&scene.stranger().await)] {
        assert_eq!(scene.store.mark_read(foreign, &[mark]).await.unwrap(), 0);
    }
    assert_eq!(scene.store.mark_read(&scope, &[mark, mark]).await.unwrap(), 1);
}

async fn messages_are_found_in_their_rooms_only(kind: Kind) {
    let scene = Scene::new(kind).await;
    let one = post(&scene, &scene.agent, 0, "a@good.example", keys(1, &[])).await;
    let two = post(&scene, &scene.other, 1, "a@good.example", keys(1, &[])).await;
    let (store, scope) = (&scene.store, subtree(&scene.organization));
    let named = [(one.room(), one.id), (one.room(), two.id), (two.room(), two.id)];
    let found = store.find_messages(&scope, &named).await.unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(found[&named[2]].place, place(&two));
    let few = scope.clone().only(vec![scene.agent.id]);
    for narrow in [&few, &subtree(&scene.agent)] {
        let found = store.find_messages(narrow, &named).await.unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), [&named[0]]);
        let found = store.room_place(narrow, one.room()).await.unwrap().unwrap();
        assert_eq!((found.at, found.agent), (one.at, one.agent.get()));
        assert_eq!(store.room_place(narrow, two.room()).await.unwrap(), None);
        let all = everything();
        assert_eq!(store.room_messages(narrow, two.room(), None, &all).await.unwrap(), []);
        assert_eq!(
            store.messages(narrow, &[one.id, two.id]).await.unwrap(),
            std::slice::from_ref(&one)
        );
    }
    let both: Vec<_> = found.values().copied().collect();
    let outlines = store.outline_threads(&both, 9).await.unwrap();
    let outlined = |outcome| [OutlinedMessage { id: two.id, size: two.size, outcome }];
    assert_eq!(outlines[&two.thread], outlined(0));
    let summary = Some("ü".repeat(1000));
    let new = NewOutcome { summary, ..NewOutcome::default() };
    store.record_outcome(&scope, two.id, &new, 1, by(at(9))).await.unwrap();
    let octets = store.outline_threads(&both, 9).await.unwrap()[&two.thread][0].outcome;
    assert!((2000..3000).contains(&octets), "{octets}");
    assert_eq!(store.outline_threads(&[], 9).await.unwrap().len(), 0);
    let page = Page { limit: 1, from: Some((Direction::Before, place(&one))), until: None };
    assert_eq!(store.room_messages(&scope, one.room(), None, &page).await.unwrap(), []);
}

/// Its row stays as it is when it writes again, and learns what its rooms are about to forget.
async fn when_a_contact_wrote_last_is_written_when_that_message_goes(kind: Kind) {
    let scene = Scene::new(kind).await;
    let first = post(&scene, &scene.agent, 10, "a@good.example", keys(1, &[])).await;
    post(&scene, &scene.other, 70, "a@good.example", keys(2, &[])).await;
    post(&scene, &scene.agent, 50, "a@good.example", keys(3, &[])).await;
    let kept = "SELECT last_seen - 1750000000000 FROM contacts";
    let shown = async || {
        let scope = subtree(&scene.organization);
        scene.store.list_contacts(&scope, None, None, 9).await.unwrap()[0].last_seen
    };
    assert_eq!((scene.count(kept).await, shown().await), (10, at(70)));
    // Nothing that is not the latest of its room tells anything.
    delete(&scene.store, &scene.agent, 20, 9).await;
    assert_eq!((scene.count(kept).await, shown().await), (10, at(70)));
    for (agent, latest) in [(&scene.agent, 70), (&scene.other, 70)] {
        delete(&scene.store, agent, 100, 9).await;
        assert_eq!((scene.count(kept).await, shown().await), (latest, at(70)));
    }
    assert_eq!(scene.count("SELECT COUNT(*) FROM rooms").await, 0);
    // Somebody whose clock is behind brings it again.
    let again = post(&scene, &scene.agent, 60, "a@good.example", keys(4, &[])).await;
    assert_eq!((again.contact, shown().await), (first.contact, at(70)));
}

async fn contacts_are_shown_to_those_they_wrote_to(kind: Kind) {
    let scene = Scene::new(kind).await;
    let (store, stranger) = (&scene.store, scene.stranger().await);
    for (agent, millis, from) in [
        (&scene.agent, 1, "a@good.example"),
        (&scene.other, 5, "a@good.example"),
        (&scene.agent, 2, "b@good.example"),
        (&scene.other, 3, "c@good.example"),
        (&stranger, 4, "a@good.example"),
    ] {
        post(&scene, agent, millis, from, keys(1, &[])).await;
    }
    let list = async |scope, after: Option<ContactId>, limit| {
        let found = store.list_contacts(&scope, after, None, limit).await.unwrap();
        let told = |one: &gatepost::domain::contact::Contact| {
            let seen = [one.first_seen, one.last_seen].map(|seen| seen.millis() - at(0).millis());
            (one.handle.address().chars().next().unwrap(), seen)
        };
        (found.iter().map(told).collect::<Vec<_>>(), found.last().map(|one| one.id))
    };
    let (all, last) = list(subtree(&scene.organization), None, 9).await;
    assert_eq!(all, [('c', [3, 3]), ('b', [2, 2]), ('a', [1, 5])]);
    assert_eq!(list(subtree(&scene.organization), last, 9).await.0, []);
    assert_eq!(list(subtree(&scene.organization), None, 2).await.0, all[..2]);
    // An Agent's list shows nothing of mail to other Agents.
    assert_eq!(list(subtree(&scene.agent), None, 9).await.0, [('b', [2, 2]), ('a', [1, 1])]);
    let few = subtree(&scene.organization).only(vec![scene.other.id]);
    assert_eq!(list(few, None, 9).await.0, [('c', [3, 3]), ('a', [5, 5])]);
    let both = subtree(&scene.organization).only(vec![scene.other.id, scene.agent.id]);
    assert_eq!(list(both.clone(), None, 9).await.0, all);
    let (page, last) = list(both.clone(), None, 2).await;
    assert_eq!((&page[..], list(both, last, 2).await.0), (&all[..2], vec![('a', [1, 5])]));
    assert_eq!(list(subtree(&scene.organization).only(vec![]), None, 9).await.0, []);
    // More Agents than SQLite takes parts of a UNION.
    let many = (1_000_000..1_000_600).map(|id| AccountId::new(id).unwrap());
    let many = many.chain([scene.other.id, scene.agent.id]).collect();
    assert_eq!(list(subtree(&scene.organization).only(many), None, 9).await.0, all);
    for account in [&scene.reseller, &scene.partner] {
        let wanted = if account.id == scene.partner.id { 4 } else { 3 };
        assert_eq!(list(subtree(account), None, 9).await.0.len(), wanted);
    }
}
