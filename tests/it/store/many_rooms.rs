//! What reading rooms costs: statements, and none of them for each room.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gatepost::domain::id::MessageId;
use gatepost::domain::scope::Scope;
use gatepost::domain::source::Inbox;
use gatepost::store::{Cursor, Page, RoomFilter, RoomPage, RoomPlace};
use tracing::field::{Field, Visit};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt as _};

use super::scene::{Kind, Scene, at, subtree};

/// Counts what the store says of its statements.
#[derive(Clone, Default)]
struct Counter(Arc<AtomicUsize>);

impl<S: tracing::Subscriber> Layer<S> for Counter {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        event.record(&mut &*self);
    }
}

impl Visit for &Counter {
    fn record_str(&mut self, field: &Field, _: &str) {
        if field.name() == "sql" {
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
    let filter = Targets::new().with_target("gatepost::store", tracing::Level::TRACE);
    let layer = counter.clone().with_filter(filter);
    let _listening = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let scene = Scene::new(kind).await;
    scene.deliver(&scene.agent, 0).await;
    scene.execute(TEN_THOUSAND).await;
    scene.execute(THEIRS).await;
    let cost = async |scope: &Scope, page: RoomPage, unread| {
        let before = counter.0.load(Ordering::SeqCst);
        let filter = RoomFilter { inbox: Inbox::Priority, unread };
        let list = scene.store.list_rooms(scope, filter, page, 10_000).await.unwrap();
        (list, counter.0.load(Ordering::SeqCst) - before)
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

#[tokio::test]
async fn a_page_costs_a_few_statements_sqlite() {
    a_page_costs_a_few_statements(Kind::Sqlite).await;
}

#[tokio::test]
async fn a_page_costs_a_few_statements_postgres() {
    a_page_costs_a_few_statements(Kind::Postgres).await;
}

/// Every reading of rooms, in one scope, from all places.
pub async fn exercise(scene: &Scene, scope: &Scope, page: &Page) {
    let store = &scene.store;
    let (own, latest) = (subtree(&scene.agent), Page { limit: 1, from: None, until: None });
    let message = store.recent_messages(&own, &latest).await.unwrap().remove(0);
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
    store.has_room(scope, message.room()).await.unwrap();
    let named = [(message.room(), message.id)];
    let found = store.find_messages(scope, &named).await.unwrap()[&named[0]];
    store.outline_threads(&[found], 2).await.unwrap();
    store.messages(scope, &[MessageId(message.id.0)]).await.unwrap();
    for after in [None, Some(message.contact)] {
        let until = store.end_of_contacts(scope, after, 1).await.unwrap();
        for until in [None, until] {
            store.list_contacts(scope, (after, until), 2).await.unwrap();
        }
    }
    let mark = Cursor { at: message.at, id: message.id.0 };
    store.mark_read(scope, &[(message.room(), mark)]).await.unwrap();
}
