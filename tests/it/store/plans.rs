//! No statement reads a table that grows from one end to the other: asked of the planner itself,
//! about every statement that the store has really run.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use gatepost::app::tenancy::record::account_record;
use gatepost::domain::account::AccountType;
use gatepost::domain::audit::{Actor, Deed, Doer, Once, Who};
use gatepost::domain::contact::Handle;
use gatepost::domain::delivery::{Attempt, Outcome};
use gatepost::domain::domain_name::DomainName;
use gatepost::domain::event::{Category, EventName};
use gatepost::domain::id::{AccountId, AttemptId, AuditId, EventId, IntakeId, KeyId, MessageId};
use gatepost::domain::key::KeyHash;
use gatepost::domain::member::Role;
use gatepost::domain::reason::Reason;
use gatepost::domain::verdict::Verdict;
use gatepost::rules::Kept;
use gatepost::run;
use gatepost::store::{
    AccountFilter, AccountPage, AccountUpdate, AuditFilter, Commit, Cursor, Deletion, Direction,
    DomainLimits, Due, EventFilter, InsertedKey, IntakeFilter, List, MemberChange, NamedKey, Page,
    Whose,
};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Executor as _, Row as _};
use tracing::field::{Field, Visit};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use uuid::Uuid;

use super::keys::{keep, key};
use super::members::member;
use super::scene::{Kind, Scene, address, at, by, database, own_address, record, subtree};

/// What the store says of every statement.
#[derive(Clone, Default)]
struct Statements(Arc<Mutex<BTreeSet<String>>>);

impl<S: tracing::Subscriber> Layer<S> for Statements {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        event.record(&mut &*self);
    }
}

impl Visit for &Statements {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "sql" {
            self.0.lock().unwrap().insert(value.trim().to_owned());
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

/// Tables that are small, or that only the operator's lists read whole; values of the statement.
const MAY_BE_SCANNED: [&str; 16] = [
    "user_ids",
    "event_numbers",
    "json_each",
    "waiting",
    "in_order",
    "heads",
    "probes",
    "replays",
    "CONSTANT",
    "accounts",
    "domains",
    "due",
    "gone",
    "given",
    "walked",
    "first",
];

#[tokio::test]
async fn every_statement_on_sqlite_finds_its_rows_by_an_index() {
    let (scene, statements) = statements_of(Kind::Sqlite).await;
    let mut database = database(&scene.path()).await;
    let mut wrong = Vec::new();
    for sql in statements {
        let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"));
        for row in sqlx::query(explain).fetch_all(&mut database).await.unwrap() {
            let detail: String = row.get("detail");
            let scanned = detail.strip_prefix("SCAN ").and_then(|rest| rest.split(' ').next());
            let sorted = detail.contains("TEMP B-TREE") && in_order(&sql);
            let matched = is_search(&sql) && detail.contains(" VIRTUAL TABLE INDEX 0:M");
            let small = |table: &str| MAY_BE_SCANNED.contains(&table) || table.starts_with('(');
            // The rows that a statement brings along.
            let brought = detail.contains("VALUES CLAUSE") || detail.contains("CONSTANT ROW");
            // Of a message there is one row here.
            let one = [
                "SEARCH mails ",
                "SEARCH erasures ",
                "(id=?)",
                "(event_id=?)",
                "(message_id=?)",
                "(rowid=?)",
            ];
            let of_one = one.iter().any(|part| detail.contains(part));
            let searched = detail.starts_with("SEARCH ") && !of_one;
            // Among all rows without an Agent, those of one account.
            let astray = searched
                && sql.contains("COALESCE(organization_id")
                && !detail.contains(" (<expr>=?");
            let endless = searched && passes_over(&sql) && !detail.contains(far_end(&sql, ""));
            // The operator lists all accounts, nobody else.
            let listed = sql.contains("AS walked") && scanned == Some("accounts");
            let scanned =
                scanned.is_some_and(|table| !small(table) && !brought && !matched) || listed;
            if scanned || sorted || endless || astray {
                wrong.push(format!("{detail}: {sql}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The plan is the one for any values, where the planner may neither read a table from one end to
/// the other nor sort: what it still does so cannot be done by an index.
#[tokio::test]
async fn every_statement_on_postgres_finds_its_rows_by_an_index() {
    let (scene, statements) = statements_of(Kind::Postgres).await;
    let mut database = scene.postgres().await;
    // A table of one page is read whole whichever way it is asked for.
    let fill = "INSERT INTO destinations (id, account_id, url, category, label, secret, created_at)
                SELECT gen_random_uuid(), id, 'https://' || n, 'agent', '', '', 0
                FROM accounts, generate_series(1, 4000) AS n; ANALYZE destinations;
                INSERT INTO members (id, account_id, email, role, permitted, created_at)
                SELECT 1000000 * id + n, id, 'm' || n, 'member', '[]', 0
                FROM accounts, generate_series(1, 4000) AS n; ANALYZE members";
    database.execute(sqlx::raw_sql(fill)).await.unwrap();
    let settings = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;
                    SET enable_hashjoin = off; SET enable_mergejoin = off";
    database.execute(settings).await.unwrap();
    let mut wrong = Vec::new();
    for (number, sql) in statements.iter().enumerate() {
        // Only the long lists must come in order by themselves.
        let sort = if in_order(sql) { "off" } else { "on" };
        let bitmaps = if is_search(sql) { "on" } else { "off" };
        let sort =
            AssertSqlSafe(format!("SET enable_sort = {sort}; SET enable_bitmapscan = {bitmaps}"));
        database.execute(sqlx::raw_sql(sort)).await.unwrap();
        let prepare = AssertSqlSafe(format!("PREPARE p{number} AS {sql}"));
        database.execute(sqlx::raw_sql(prepare)).await.unwrap();
        let count = (1..30).take_while(|n| sql.contains(&format!("${n}"))).count();
        let values = vec!["NULL"; count].join(", ");
        let values = if count > 0 { format!("({values})") } else { values };
        let explain = AssertSqlSafe(format!("EXPLAIN (FORMAT JSON) EXECUTE p{number}{values}"));
        let plan: Value = sqlx::query_scalar(explain).fetch_one(&mut database).await.unwrap();
        let mut found = Vec::new();
        faults_of(&plan[0]["Plan"], sql, &mut found);
        wrong.extend(found.into_iter().map(|fault| format!("{fault}: {sql}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The long lists: they must come in order by themselves.
fn in_order(sql: &str) -> bool {
    let by_time = sql.contains("BY at") || sql.contains("BY last_at");
    (by_time && !is_search(sql)) || sql.contains("FROM deliveries WHERE destination_id = $1")
}

/// Whether rows of a list are left out one by one: it must know where to end when all of them are.
fn passes_over(sql: &str) -> bool {
    let filters = [
        "sender = ",
        "lower(recipient) = ",
        "verdict = ",
        "reason = ",
        "agent_id IN (",
        "deed = ",
        "actor = ",
        "key_id = ",
        "actor_member = ",
    ];
    sql.contains("BY at") && !is_search(sql) && filters.iter().any(|filter| sql.contains(filter))
}

/// Its tokens say how many rows it finds, whose place is sorted out afterwards.
fn is_search(sql: &str) -> bool {
    sql.contains(" MATCH ") || sql.contains(" @@ ")
}

/// How the comparison begins that ends a walk of the index in the order of a list.
fn far_end(sql: &str, space: &str) -> &'static str {
    match (sql.contains("BY at DESC"), space.is_empty()) {
        (true, true) => "(at,id)>(",
        (false, true) => "(at,id)<(",
        (true, false) => ") >= ROW(",
        (false, false) => ") <= ROW(",
    }
}

/// The nodes of a plan that read more of a table than is asked for.
fn faults_of(node: &Value, sql: &str, found: &mut Vec<String>) {
    let text = |key: &str| node[key].as_str().unwrap_or_default();
    let (kind, table) = (text("Node Type"), text("Relation Name"));
    let by_order = ["deliveries_due", "deliveries_waiting", "deliveries_in_order"]
        .contains(&text("Index Name"));
    let unbound = kind.starts_with("Index") && node["Index Cond"].is_null() && !by_order;
    let sorted = kind.ends_with("Sort") && in_order(sql);
    // Rows of one message, and of what hangs on it.
    let one = ["(id =", "(event_id =", "(message_id ="];
    let of_one = one.iter().any(|start| text("Index Cond").starts_with(start));
    let endless = kind.starts_with("Index")
        && !["mails", "erasures"].contains(&table)
        && !of_one
        && (passes_over(sql) || sql.contains("BY at") && !node["Filter"].is_null())
        && !text("Index Cond").contains(far_end(sql, " "));
    let astray = kind.starts_with("Index")
        && sql.contains("COALESCE(organization_id")
        && !text("Index Cond").contains("COALESCE(");
    let scanned = (kind == "Seq Scan" || unbound) && !MAY_BE_SCANNED.contains(&table);
    if scanned || sorted || endless || astray {
        found.push(format!("{kind} {table}"));
    }
    for part in node["Plans"].as_array().into_iter().flatten() {
        faults_of(part, sql, found);
    }
}

/// Every statement that the store runs.
async fn statements_of(kind: Kind) -> (Scene, BTreeSet<String>) {
    let statements = Statements::default();
    let filter = Targets::new().with_target("gatepost::store", tracing::Level::TRACE);
    let layer = statements.clone().with_filter(filter);
    let listening = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let scene = Scene::new(kind).await;
    exercise(&scene).await;
    drop(listening);
    let statements = statements.0.lock().unwrap().clone();
    assert!(statements.len() > 60, "only {} statements were seen", statements.len());
    (scene, statements)
}

const LIMITS: DomainLimits = DomainLimits { claims: 9, domains: 9 };

/// Runs every statement of the store at least once.
async fn exercise(scene: &Scene) {
    let Scene { store, agent, organization, .. } = scene;
    let domain = own_address(agent).domain().clone();
    for category in [Category::Incoming, Category::Contact] {
        scene.listen(agent, category, "https://a.example/").await;
    }
    for millis in [0, 1] {
        scene.deliver(agent, millis).await;
    }
    super::erasure::exercise(scene).await;
    let again = vec![scene.intake(agent, 2).await];
    store.arrived_before(&Commit { intakes: again, now: at(2) }).await.unwrap();
    store.known_identity().await.unwrap();
    store.link_key().await.unwrap();
    store.agent_of_message(MessageId(Uuid::nil())).await.unwrap();
    let refused = record(agent, 0, Verdict::Refused(Reason::UnknownRecipient));
    for _ in 0..2 {
        store.count_refusal(&refused, "192.0.2.0/24").await.unwrap();
    }
    lists(scene).await;
    super::logs::exercise(scene).await;
    log(scene).await;
    store.next_due(at(2)).await.unwrap();
    let claims = store.claim_deliveries(at(2), at(9), 10, &[]).await.unwrap();
    store.release_deliveries(&claims).await.unwrap();
    let attempt = Attempt {
        id: AttemptId(run::system_mint().uuid()),
        at: at(3),
        latency_ms: 1,
        status: Some(410),
        response: Vec::new(),
        error: None,
    };
    store.finish_delivery(&claims[0], &attempt, Outcome::Gone).await.unwrap();
    store.destinations(agent.id).await.unwrap();
    super::webhooks::exercise(scene).await;
    store.remove_destinations(agent.id, None, None, None, by(at(4))).await.unwrap();
    for kind in [None, Some(AccountType::Partner)] {
        store.accounts(kind).await.unwrap();
    }
    store.is_active(agent).await.unwrap();
    store.look_up(Some(&own_address(agent)), None).await.unwrap();
    store.directory_version().await.unwrap();
    store.addresses(agent.id).await.unwrap();
    let alice = [address("alice@good.example")];
    store.allow_senders(agent.id, &alice, None, 5, by(at(0))).await.unwrap();
    store.allowed_senders(agent.id, 5, Some(&alice[0])).await.unwrap();
    store.listed_among(agent.id, &alice.iter().cloned().collect()).await.unwrap();
    store.policy(agent.id).await.unwrap();
    store.remove_senders(agent.id, &alice, by(at(0))).await.unwrap();
    people(scene).await;
    store.domain_owner(&domain).await.unwrap();
    let (new, limits) = (DomainName::parse("new.example").unwrap(), LIMITS);
    store.pending_claim(&new, organization.id, "a", limits, by(at(0))).await.unwrap();
    store.prove_domain(&new, organization.id, "a", by(at(0))).await.unwrap();
    store.remove_domain(&new, organization.id, by(at(0))).await.unwrap();
    store.domains(Some(organization.id)).await.unwrap();
    store.remove_domain(&domain, organization.id, by(at(0))).await.unwrap();
    store.release_address(agent.id, &own_address(agent), by(at(0))).await.unwrap();
    store.claim_address(agent, &own_address(agent), true, None, 9, by(at(0))).await.unwrap();
    store.set_active(agent.id, true, by(at(0))).await.unwrap();
    store.ping().await.unwrap();
    requests(scene).await;
    objects(scene).await;
    retention(scene).await;
    super::health::exercise(scene).await;
    super::replays::exercise(scene).await;
    super::search::exercise(scene).await;
    accounts(scene).await;
}

/// Lists, changes and the deletion of accounts, with what a deleted one has left.
async fn accounts(scene: &Scene) {
    let Scene { store, partner, reseller, organization, agent, .. } = scene;
    let every = AccountFilter {
        active: Some(true),
        text: Some("desk".into()),
        since: Some(at(0)),
        before: Some(at(9)),
        external_id: Some("x".into()),
        plan: Some("p".into()),
        billing: Some("b".into()),
        subscribed: Some(false),
    };
    let (first, next) = (None, AccountId::new(1));
    for account in [partner, reseller, organization, agent] {
        for scope in [subtree(account), subtree(account).only(vec![agent.id])] {
            for (filter, after) in [(AccountFilter::default(), first), (every.clone(), next)] {
                let page = AccountPage { after, skip: 0, limit: 2 };
                let level = AccountType::Agent;
                store.list_accounts(&scope, level, &filter, page, 5).await.unwrap();
            }
            store.accounts_by_external_id(&scope, "x", 2).await.unwrap();
        }
    }
    store.addressee(agent.id).await.unwrap();
    let details = serde_json::json!({ "email": "a@b.example" }).as_object().unwrap().clone();
    let external_id = Some(Some("x".to_owned()));
    let update = AccountUpdate { external_id, details, ..AccountUpdate::default() };
    store.update_account(agent.id, &update, 99, by(at(0))).await.unwrap();
    store.claim_domain(own_address(agent).domain(), organization.id, by(at(0))).await.unwrap();
    for account in [organization, reseller] {
        let deleting = store.delete_account(account.id, (true, 9), account_record, by(at(0)));
        assert!(matches!(deleting.await.unwrap(), Deletion::Done { .. }));
    }
    super::erasure::finish(store).await;
    store.with_leavings(&[agent.id]).await.unwrap();
    store.delete_leavings(organization.id, 9).await.unwrap();
}

/// What is carried out once, and what is refused.
async fn requests(scene: &Scene) {
    let Scene { store, agent, .. } = scene;
    let once = Once { digest: [1; 32], request: [2; 32], until: at(1) };
    let who = Who::Key { key: KeyId(Uuid::nil()), account: agent.id, member: None };
    let actor = Actor { once: Some(once), ..Actor::of(who) };
    store.set_active(agent.id, false, actor.at(at(0))).await.unwrap();
    store.carried_out(once.digest, at(0)).await.unwrap();
    store.keep_answer(&once, Uuid::nil(), at(2), None).await.unwrap();
    store.forget_requests(at(2), 9).await.unwrap();
    store.forget_secrets(at(2), None, 9).await.unwrap();
    store.count_denials(AuditId(Uuid::nil()), actor.at(at(0)), "GET /", 1).await.unwrap();
}

/// Keys and members, of everybody and named in every way.
async fn people(scene: &Scene) {
    let Scene { store, agent, organization, .. } = scene;
    let one = member(scene, organization, "a@good.example", &[agent]).await;
    let (id, hash) = (KeyId(Uuid::nil()), KeyHash([0; 32]));
    for (owner, member) in [(agent, None), (organization, Some(one.id))] {
        let mut new = key(owner, member);
        let maker = Who::Key { key: id, account: agent.id, member: None };
        let made = store.insert_key(&new, hash, 9, Actor::of(maker).at(at(0))).await.unwrap();
        assert_eq!(made, InsertedKey::NoMaker);
        new.id = KeyId(run::system_mint().uuid());
        keep(store, &new, u8::from(member.is_some())).await;
        store.keys_in_force(new.owner(), at(0)).await.unwrap();
    }
    store.key_holder(hash).await.unwrap();
    store.keys(agent.id).await.unwrap();
    store.note_use(id, at(1), at(0)).await.unwrap();
    for account in [&scene.partner, &scene.reseller, organization, agent] {
        for scope in [subtree(account), subtree(account).only(vec![agent.id])] {
            for whose in [Whose::Anybody, Whose::Member(one.id), Whose::Within(&scope)] {
                for named in [NamedKey::Id(id), NamedKey::Hash(KeyHash([9; 32]))] {
                    store.revoke_key(named, whose, by(at(0))).await.unwrap();
                }
            }
        }
    }
    store.member(one.id).await.unwrap();
    store.account_or_member(agent.id).await.unwrap();
    store.members(organization.id).await.unwrap();
    let change = MemberChange { role: Some(Role::Member), ..MemberChange::default() };
    store.update_member(one.id, &change, by(at(1))).await.unwrap();
    store.remove_member(one.id, by(at(2))).await.unwrap();
}

/// A large message, with the questions before its put and of the sweeper.
async fn objects(scene: &Scene) {
    let store = super::objects::with_blobs(scene).await;
    let agent = store.account(scene.agent.id).await.unwrap().unwrap();
    let (intake, _) = super::objects::large(scene, &agent, 0, 5000).await;
    super::objects::committed(&store, vec![intake]).await;
    let later = run::system_mint().clock().now().plus(std::time::Duration::from_secs(90_000));
    store.sweep_objects(later).await.unwrap();
}

/// Deletes everything, of every kind and at every level.
async fn retention(scene: &Scene) {
    let Scene { store, partner, agent, .. } = scene;
    assert_eq!(store.accounts_after(None, 10).await.unwrap().len(), 5);
    let due = [partner, agent].map(|account| Due {
        account: account.id,
        kind: account.kind,
        until: at(9),
    });
    for kept in Kept::ALL {
        store.with_expired(kept, &due).await.unwrap();
        for due in &due {
            let first = store.expired(kept, due, None, 1).await.unwrap();
            let from = first.first().map(|row| row.place);
            let rest = store.expired(kept, due, from, 9).await.unwrap();
            let rows = [first, rest].concat();
            assert!(
                rows.is_empty()
                    || due.account == agent.id
                    || kept == Kept::Audit
                    || kept == Kept::Events
            );
            let deleted = store.delete_expired(kept, &rows, 99).await.unwrap().unwrap();
            assert_eq!(usize::try_from(deleted.rows).unwrap(), rows.len());
        }
    }
    store.delete_arrivals(at(9), 9).await.unwrap();
}

/// Every list at every level, permitted or not, in every direction.
async fn lists(scene: &Scene) {
    let Scene { store, partner, reseller, organization, agent, .. } = scene;
    let cursor = Cursor { at: at(1), id: Uuid::nil() };
    for account in [partner, reseller, organization, agent] {
        for scope in [subtree(account), subtree(account).only(vec![agent.id])] {
            for from in [None, Some((Direction::Before, cursor)), Some((Direction::After, cursor))]
            {
                let mut page = Page { limit: 2, from, until: None };
                let time = (Some(at(0)), Some(at(2)));
                for list in [List::Messages, List::IntakeRecords, List::Audit] {
                    store.end_of_walk(list, &scope, &page, time, 2).await.unwrap();
                }
                page.until = scope.permitted().map(|_| cursor);
                store.audit(&scope, &AuditFilter::default(), &page).await.unwrap();
                store.past_verdicts(&scope, &page, at(0)).await.unwrap();
                store.recent_messages(&scope, &page).await.unwrap();
                super::many_rooms::exercise(scene, &scope, &page).await;
                store.intake_records(&scope, &IntakeFilter::default(), &page).await.unwrap();
                page.until = Some(cursor);
                for filter in filters() {
                    store.intake_records(&scope, &filter, &page).await.unwrap();
                }
                for filter in log_filters() {
                    store.audit(&scope, &filter, &page).await.unwrap();
                }
            }
            let nil = Uuid::nil();
            store.intake_record(&scope, IntakeId(nil)).await.unwrap();
            store.raw_message(&scope, MessageId(nil)).await.unwrap();
            store.marker(&scope, MessageId(nil)).await.unwrap();
        }
    }
}

/// The log of events at every level, with every kind of filter.
async fn log(scene: &Scene) {
    let Scene { store, partner, reseller, organization, agent, other, .. } = scene;
    assert!(store.place_events(99).await.unwrap() > 0);
    let (names, since) = (Some(vec![EventName::EmailReceived]), Some(at(0)));
    for account in [partner, reseller, organization, agent] {
        let few = vec![agent.id, other.id];
        for scope in [subtree(account), subtree(account).only(few)] {
            for (names, since) in [(None, None), (names.clone(), None), (None, since)] {
                let filter = EventFilter { names, since };
                store.events(&scope, &filter, 0, (2, 99)).await.unwrap();
            }
            store.find_event(&scope, EventId(Uuid::nil())).await.unwrap();
            store.last_event(&scope, 9).await.unwrap();
            store.position_before(&scope, at(0)).await.unwrap();
        }
    }
    store.placed_after(0, 9).await.unwrap();
}

/// Each that leaves entries of the audit log out, and one that leaves out none but by time.
fn log_filters() -> Vec<AuditFilter> {
    let any = AuditFilter::default();
    let time = AuditFilter { since: Some(at(-5)), until: Some(at(5)), ..any.clone() };
    let user = AccountId::new(1).unwrap();
    let doers = [Doer::Operator, Doer::Gateway, Doer::Key(KeyId(Uuid::nil())), Doer::User(user)];
    let by_doer = doers.map(|doer| AuditFilter { doer: Some(doer), ..time.clone() });
    let by_deed = AuditFilter { deed: Some(Deed::KeyCreated), ..any };
    by_doer.into_iter().chain([by_deed, time]).collect()
}

/// Each that leaves records out, within a time and without.
fn filters() -> Vec<IntakeFilter> {
    let any = IntakeFilter::default();
    let ever = [
        IntakeFilter {
            sender: Some(Handle::Mailbox(address("alice@good.example"))),
            ..any.clone()
        },
        IntakeFilter { recipient: Some("desk@agents.example".into()), ..any.clone() },
        IntakeFilter { verdict: Some("refused".into()), ..any.clone() },
        IntakeFilter { reason: Some(Reason::DkimMissing), ..any },
    ];
    let then = ever.clone().map(|filter| IntakeFilter {
        since: Some(at(-5)),
        until: Some(at(5)),
        ..filter
    });
    [ever, then].concat()
}
