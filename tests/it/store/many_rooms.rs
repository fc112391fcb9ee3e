//! The cost of reading rooms: a number of statements that does not grow with the rooms.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gatepost::domain::clock::TimeRange;
use gatepost::domain::contact::Handle;
use gatepost::domain::id::MessageId;
use gatepost::domain::message::Message;
use gatepost::domain::scope::Scope;
use gatepost::domain::source::Inbox;
use gatepost::rules::RetainedKind;
use gatepost::store::{Cursor, DueAccount, ListedRoom, Page, RoomFilter, RoomPage, RoomPlace};
use tracing::field::{Field, Visit};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt as _};

use super::scene::{Kind, Scene, address, at, subtree};

/// Counts what the store says of its statements.
#[derive(Clone, Default)]
pub struct Counter(Arc<AtomicUsize>);

impl Counter {
    /// Counts those of this thread, until the guard is dropped.
    pub fn listen(&self) -> tracing::subscriber::DefaultGuard {
        let filter = Targets::new().with_target("gatepost::store", tracing::Level::TRACE);
        let layer = self.clone().with_filter(filter);
        tracing::subscriber::set_default(tracing_subscriber::registry().with(layer))
    }

    /// How many there have been.
    pub fn statements(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl<S: tracing::Subscriber> Layer<S> for Counter {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        event.record(&mut &*self);
    }
}

impl Visit for &Counter {
    fn record_str(&mut self, field: &Field, text: &str) {
        // The log is looked at beside the commits.
        if field.name() == "sql" && !text.starts_with("PRAGMA") {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

/// Ten thousand rooms of one Agent, each with a contact of its own.
const TEN_THOUSAND: &str =
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
    INSERT INTO contacts (id, organization_id, address, name, first_seen, last_seen)
    SELECT 1000000 + i, (SELECT id FROM accounts WHERE kind = 'organization'),
           's' || i || '@good.example', 'Alice', 0, 0 FROM n";
const THEIRS: &str =
    "INSERT INTO rooms (contact_id, agent_id, partner_id, reseller_id, organization_id,
        inbox, started_at, last_at, last_message_id, preview, messages, unread, read_at, read_id)
    SELECT contacts.id, agent.id, agent.partner_id, agent.reseller_id, agent.organization_id,
           'inbox', 0, contacts.id, messages.id, NULL, 1, 1, 0, messages.id
    FROM contacts, accounts AS agent, messages
    WHERE contacts.id > 1000000 AND agent.id = messages.agent_id";

async fn a_page_costs_a_few_statements(kind: Kind) {
    let counter = Counter::default();
    let _listening = counter.listen();
    let scene = Scene::new(kind).await;
    scene.deliver(&scene.agent, 0).await;
    scene.execute(TEN_THOUSAND).await;
    scene.execute(THEIRS).await;
    let cost = async |scope: &Scope, page: RoomPage, unread| {
        let before = counter.statements();
        let filter = RoomFilter { inbox: Inbox::Priority, unread };
        let list = scene.store.list_rooms(scope, filter, page, 10_000).await.unwrap();
        (list, counter.statements() - before)
    };
    let scope = subtree(&scene.partner);
    let few = scope.clone().only(vec![scene.agent.id]);
    let whole = RoomPage { before: None, skip: 0, limit: 200 };
    for (scope, page, unread) in [
        (&scope, whole, false),
        (&scope, whole, true),
        (&few, whole, true),
        (&scope, RoomPage { skip: 9_800, ..whole }, false),
    ] {
        let (list, statements) = cost(scope, page, unread).await;
        assert_eq!((list.rooms.len(), list.total), (200, 10_000));
        // The place of the end (or that none is needed), the page, the number, the contacts (200
        // are three pieces for SQLite), and previews that are not there, sixteen at a time (these
        // in two pieces at most).
        assert!((3..=1 + 2 + 3 + 2 * 13).contains(&statements), "{statements}");
    }
    scene.execute("UPDATE rooms SET preview = 'Hello'").await;
    let (list, statements) = cost(&scope, whole, false).await;
    assert_eq!((list.rooms.len(), list.rooms[0].preview.as_str()), (200, "Hello"));
    assert!((3..=6).contains(&statements), "{statements}");
}

on_both! { #[tokio::test] a_page_costs_a_few_statements }

/// More organizations than one statement has ranges for, each with some of eleven hundred rooms, seven
/// of which have their latest message at the same moment, but for those in another inbox.
const ORGANIZATIONS: &str =
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120)
    INSERT INTO accounts (id, kind, name, username, parent_id, partner_id, reseller_id,
        organization_id, created_at)
    SELECT 2000000 + i, kind, name, username || i, parent_id, partner_id, reseller_id, 2000000 + i, 0
    FROM n, accounts WHERE kind = 'organization'";
const WRITERS: &str =
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1100)
    INSERT INTO contacts (id, organization_id, address, name, first_seen, last_seen)
    SELECT 1000000 + i, 2000001 + i * 31 % 119, 's' || i || '@good.example', 'Alice', 0, 0 FROM n";
const ROOMS: &str =
    "INSERT INTO rooms (contact_id, agent_id, partner_id, reseller_id, organization_id,
        inbox, started_at, last_at, last_message_id, preview, messages, unread, read_at, read_id,
        session_id, session_at)
    SELECT contacts.id, agent.id, agent.partner_id, agent.reseller_id, contacts.organization_id,
           CASE WHEN contacts.id % 10 = 0 THEN 'junk' ELSE 'inbox' END, 0,
           contacts.id * 13 % 1100 / 7, messages.id, 'Hi', 1, contacts.id % 2, 0, messages.id,
           messages.id, 0
    FROM contacts, accounts AS agent, messages
    WHERE contacts.id > 1000000 AND agent.id = messages.agent_id";

async fn rooms_of_many_organizations_are_one_list(kind: Kind) {
    let scene = Scene::new(kind).await;
    let first = scene.deliver(&scene.agent, 0).await;
    let first = scene.store.messages(&subtree(&scene.agent), &[first]).await.unwrap().remove(0);
    for fill in [ORGANIZATIONS, WRITERS, ROOMS] {
        scene.execute(fill).await;
    }
    // The room of the message that came has the latest one.
    let mut wanted: Vec<(i64, i64)> =
        (1_000_001..=1_001_100).map(|id| (id * 13 % 1100 / 7, id)).collect();
    wanted.push((at(0).millis(), first.contact.get()));
    wanted.sort_unstable_by(|one, other| other.cmp(one));
    let in_inbox: Vec<_> = wanted.iter().copied().filter(|(_, id)| id % 10 != 0).collect();
    let unread: Vec<_> =
        in_inbox.iter().copied().filter(|(at, id)| id % 2 == 1 || *at > 1000).collect();
    assert_eq!((wanted.len(), in_inbox.len()), (1101, 991));
    let store = &scene.store;
    for account in [&scene.partner, &scene.reseller] {
        let scope = subtree(account);
        for (of_filter, is_unread, most, size) in
            [(&in_inbox, false, 10_000, 40), (&unread, true, 10_000, 40), (&unread, true, 150, 20)]
        {
            let filter = RoomFilter { inbox: Inbox::Priority, unread: is_unread };
            let (mut seen, mut before) = (Vec::new(), None);
            loop {
                let page = RoomPage { before, skip: 0, limit: size };
                let list = store.list_rooms(&scope, filter, page, most).await.unwrap();
                if most > 1000 {
                    assert_eq!(usize::try_from(list.total).unwrap(), of_filter.len() - seen.len());
                }
                // Two of each organization at most are looked at for a page, and those of one moment.
                assert!(most > 1000 || list.total <= 300, "{}", list.total);
                let place = |one: &ListedRoom| (one.last_at.millis(), one.room.contact.get());
                seen.extend(list.rooms.iter().map(place));
                before = list.next;
                if before.is_none() {
                    break;
                }
            }
            assert_eq!(&seen, of_filter);
        }
        let filter = RoomFilter { inbox: Inbox::Priority, unread: false };
        let page = RoomPage { before: None, skip: 400, limit: 9 };
        let list = store.list_rooms(&scope, filter, page, 10_000).await.unwrap();
        let seen: Vec<_> = list.rooms.iter().map(|one| one.room.contact.get()).collect();
        assert_eq!(seen, in_inbox[400..409].iter().map(|(_, id)| *id).collect::<Vec<_>>());
        let (mut seen, mut before) = (Vec::new(), None);
        loop {
            let list = store.list_sessions(&scope, before, 70).await.unwrap();
            seen.extend(list.sessions.iter().map(|one| one.key.room.contact.get()));
            before = list.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(seen, wanted.iter().map(|(_, id)| *id).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn rooms_of_many_organizations_are_one_list_sqlite() {
    rooms_of_many_organizations_are_one_list(Kind::Sqlite).await;
}

#[tokio::test]
async fn rooms_of_many_organizations_are_one_list_postgres() {
    rooms_of_many_organizations_are_one_list(Kind::Postgres).await;
}

/// Two thousand more messages of the one that is there, in its room.
macro_rules! two_thousand {
    ($id:literal) => {
        concat!(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
             INSERT INTO messages (id, partner_id, reseller_id, organization_id, agent_id,
                 agent_username, at, sender, tag, size, digest, content_id, passage,
                 subject, source, contact_id, thread_id, inbox, recorded)
             SELECT ",
            $id,
            ", partner_id, reseller_id, organization_id, agent_id, agent_username, at + i, sender,
                 tag, size, digest, content_id, passage, subject, source, contact_id,
                 thread_id, inbox, 0 FROM messages CROSS JOIN n"
        )
    };
}

async fn unread_messages_are_counted_up_to_a_thousand(kind: Kind) {
    let scene = Scene::new(kind).await;
    let first = scene.deliver(&scene.agent, 0).await;
    scene
        .execute(match kind {
            Kind::Sqlite => two_thousand!("randomblob(16)"),
            Kind::Postgres => two_thousand!("gen_random_uuid()"),
        })
        .await;
    scene.execute("UPDATE rooms SET messages = 2001, unread = 2001").await;
    scene.deliver(&scene.other, 3000).await;
    let (store, scope) = (&scene.store, subtree(&scene.organization));
    let unread = "SELECT CAST(SUM(unread) AS BIGINT) FROM rooms";
    let one = store.messages(&scope, &[first]).await.unwrap().remove(0);
    let other = Page { limit: 1, from: None, until: None };
    let other = store
        .recent_messages(&subtree(&scene.other), TimeRange::default(), &other)
        .await
        .unwrap()
        .remove(0);
    let mark = |message: &Message| (message.room(), Cursor { at: message.at, id: message.id.0 });
    // In one room 2,000 messages stay unread, counted as 1,000; in the other none.
    assert_eq!(store.mark_read(&scope, &[mark(&one), mark(&other)]).await.unwrap(), 2);
    assert_eq!(scene.count(unread).await, 1000);
    // Fewer than are counted go: there are as many as before, at least.
    let due = DueAccount { account: scene.agent.id, kind: scene.agent.kind, until: at(11) };
    let rows = store.expired(RetainedKind::Messages, &due, None, 99).await.unwrap();
    assert_eq!(
        store.delete_expired(RetainedKind::Messages, &rows, 99).await.unwrap().unwrap().rows,
        11
    );
    assert_eq!(scene.count(unread).await, 1000);
    let due = DueAccount { until: at(1501), ..due };
    let rows = store.expired(RetainedKind::Messages, &due, None, 9999).await.unwrap();
    store.delete_expired(RetainedKind::Messages, &rows, 9999).await.unwrap().unwrap();
    assert_eq!(scene.count(unread).await, 500);
}

#[tokio::test]
async fn unread_messages_are_counted_up_to_a_thousand_sqlite() {
    unread_messages_are_counted_up_to_a_thousand(Kind::Sqlite).await;
}

#[tokio::test]
async fn unread_messages_are_counted_up_to_a_thousand_postgres() {
    unread_messages_are_counted_up_to_a_thousand(Kind::Postgres).await;
}

/// Every reading of rooms, in one scope, from all places.
pub async fn exercise(scene: &Scene, scope: &Scope, page: &Page) {
    let store = &scene.store;
    let (own, latest) = (subtree(&scene.agent), Page { limit: 1, from: None, until: None });
    let message =
        store.recent_messages(&own, TimeRange::default(), &latest).await.unwrap().remove(0);
    let place = RoomPlace { at: at(9), contact: 1 << 40, agent: 1 << 40 };
    for before in [None, Some(place)] {
        for unread in [false, true] {
            let filter = RoomFilter { inbox: Inbox::Priority, unread };
            let page = RoomPage { before, skip: 0, limit: 2 };
            store.list_rooms(scope, filter, page, 1).await.unwrap();
        }
    }
    let within = Page { until: None, ..*page };
    for thread in [None, Some(message.thread)] {
        store.room_messages(scope, message.room(), thread, &within).await.unwrap();
    }
    store.room_place(scope, message.room()).await.unwrap();
    let named = [(message.room(), message.id)];
    let found = store.find_messages(scope, &named).await.unwrap()[&named[0]];
    store.outline_threads(&[found], 2).await.unwrap();
    store.messages(scope, &[MessageId(message.id.0)]).await.unwrap();
    for after in [None, Some(message.contact)] {
        let until = store.end_of_contacts(scope, after, 1).await.unwrap();
        for until in [None, until] {
            store.list_contacts(scope, after, until, 2).await.unwrap();
        }
    }
    let handle = Handle::Mailbox(address("a@good.example"));
    for after in [None, Some(message.contact)] {
        store.contacts_with(scope, &handle, after, 2).await.unwrap();
    }
    let mark = Cursor { at: message.at, id: message.id.0 };
    store.mark_read(scope, &[(message.room(), mark)]).await.unwrap();
}
