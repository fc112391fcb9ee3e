//! No statement reads a table that grows from one end to the other: asked of the planner itself,
//! about every statement that the store has really run.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Executor as _, Row as _};
use tracing::field::{Field, Visit};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt as _};

use super::exercise::exercise;
use super::scene::{Kind, Scene, database};

/// Collects the SQL of every statement that the store logs.
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
const MAY_BE_SCANNED: &[&str] = &[
    // A view: its tables are looked up by themselves.
    "records",
    "user_ids",
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
    "gateways",
    "dead",
    "given",
    "walked",
    "first",
    // Waiting deliveries, which are counted up to a bound.
    "first_of_all",
    // Messages of the last seconds, which are not indexed yet.
    "search_waiting",
];

#[tokio::test]
async fn every_statement_on_sqlite_finds_its_rows_by_an_index() {
    let (scene, statements) = statements_of(Kind::Sqlite).await;
    let mut database = database(&scene.path()).await;
    let mut wrong = Vec::new();
    // Several go to it in one call.
    for sql in statements.iter().flat_map(|call| call.split(";\n")) {
        let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"));
        let rows = sqlx::query(explain).fetch_all(&mut database).await.unwrap();
        let part = |row: &SqliteRow| (row.get::<i64, _>("parent"), row.get::<String, _>("detail"));
        let rows: Vec<_> = rows.iter().map(part).collect();
        for (parent, detail) in &rows {
            // The first message of a thread, which is one.
            let of_a_message = rows.iter().any(|(other, beside)| {
                other == parent
                    && beside.starts_with("SEARCH messages ")
                    && beside.contains("(id=?)")
            });
            let scanned = detail.strip_prefix("SCAN ").and_then(|rest| rest.split(' ').next());
            let sorted = detail.contains("TEMP B-TREE") && in_order(sql) && !of_a_message;
            let matched = is_search(sql) && detail.contains(" VIRTUAL TABLE INDEX 0:M");
            let small = |table: &str| MAY_BE_SCANNED.contains(&table) || table.starts_with('(');
            // The rows that a statement brings along.
            let brought = detail.contains("VALUES CLAUSE") || detail.contains("CONSTANT ROW");
            // A lookup by one of these finds a single row, or the rows of a single message.
            let one = [
                "SEARCH contents ",
                "SEARCH erasures ",
                "SEARCH outcomes ",
                "(id=?)",
                "(event_id=?)",
                "(message_id=?)",
                "(rowid=?)",
            ];
            let of_one = one.iter().any(|part| detail.contains(part));
            let searched = detail.starts_with("SEARCH ") && !of_one;
            // Among all rows without an Agent, those of one account.
            let astray = searched
                && sql.contains("COALESCE(NULLIF(organization_id")
                && !detail.contains(" (<expr>=?");
            let endless = searched && passes_over(sql) && !detail.contains(far_end(sql, ""));
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
        let execute = prepare(&mut database, number, sql).await;
        let explain = AssertSqlSafe(format!("EXPLAIN (FORMAT JSON) {execute}"));
        let plan: Value = sqlx::query_scalar(explain).fetch_one(&mut database).await.unwrap();
        let mut found = Vec::new();
        faults_of(&plan[0]["Plan"], sql, &mut found);
        wrong.extend(found.into_iter().map(|fault| format!("{fault}: {sql}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Prepares a statement; answers how it is executed, without any value.
async fn prepare(database: &mut PgConnection, number: usize, sql: &str) -> String {
    let prepare = AssertSqlSafe(format!("PREPARE p{number} AS {sql}"));
    database.execute(sqlx::raw_sql(prepare)).await.unwrap();
    let count = (1..).take_while(|n| sql.contains(&format!("${n}"))).count();
    let values = vec!["NULL"; count].join(", ");
    let values = if count > 0 { format!("({values})") } else { values };
    format!("EXECUTE p{number}{values}")
}

/// Adds a column to every table, as the migration of a newer gateway may.
const ADD_COLUMNS: &str = "DO 'DECLARE one regclass;
    BEGIN
        FOR one IN SELECT oid FROM pg_class
                   WHERE relkind = ''r'' AND relnamespace = ''public''::regnamespace LOOP
            EXECUTE format(''ALTER TABLE %s ADD COLUMN newer BIGINT'', one);
        END LOOP;
    END'";

#[tokio::test]
async fn no_prepared_statement_fails_when_another_gateway_adds_columns() {
    let (scene, statements) = statements_of(Kind::Postgres).await;
    let mut database = scene.postgres().await;
    let mut prepared = Vec::new();
    for (number, sql) in statements.iter().enumerate() {
        prepared.push((prepare(&mut database, number, sql).await, sql));
    }
    scene.execute(ADD_COLUMNS).await;
    let mut wrong = Vec::new();
    for (execute, sql) in prepared {
        let explain = sqlx::raw_sql(AssertSqlSafe(format!("EXPLAIN {execute}")));
        if let Err(error) = database.execute(explain).await {
            wrong.push(format!("{error}: {sql}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The long lists: they must come in order by themselves.
fn in_order(sql: &str) -> bool {
    // A planner merges several ordered ranges if they are long, and sorts short ones.
    let merged = sql.contains(" UNION ALL SELECT at, id");
    let merged_rooms = sql.contains(" AS walked UNION ALL ");
    let by_time =
        (sql.contains("BY at") && !merged) || (sql.contains("BY last_at") && !merged_rooms);
    // The log of a restricted member is read Agent by Agent, and its rows are then sorted. `+`
    // keeps the index of the account out of the plan (`logs::narrow`).
    let is_sorted = sql.contains("WHERE +");
    (by_time && !is_search(sql) && !is_sorted)
        || sql.contains("FROM deliveries WHERE destination_id = $1")
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
    sql.contains(" MATCH ") || sql.contains(" @@ ") || sql.contains("FROM search_waiting)")
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

fn is_append(node: &Value) -> bool {
    node["Node Type"] == "Append" || node["Node Type"] == "Merge Append"
}

/// Whether there is a message at most to be sorted, the first of a thread.
fn is_of_a_message(node: &Value) -> bool {
    match node["Plans"].get(0) {
        Some(below) => is_of_a_message(below),
        None => {
            node["Relation Name"] == "messages"
                && node["Index Cond"].as_str().is_some_and(|text| text.starts_with("(id ="))
        }
    }
}

/// The nodes of a plan that read more of a table than is asked for.
fn faults_of(node: &Value, sql: &str, found: &mut Vec<String>) {
    let text = |key: &str| node[key].as_str().unwrap_or_default();
    let (kind, table) = (text("Node Type"), text("Relation Name"));
    let by_order = ["deliveries_due", "deliveries_waiting", "deliveries_in_order"]
        .contains(&text("Index Name"));
    let unbound = kind.starts_with("Index") && node["Index Cond"].is_null() && !by_order;
    // A sort of several ordered ranges, each read up to the end of the page.
    let merges = sql.contains(" AS walked UNION ALL ") && is_append(&node["Plans"][0]);
    let sorted = kind.ends_with("Sort") && in_order(sql) && !merges && !is_of_a_message(node);
    // Rows of one message, and of what hangs on it.
    let one = ["(id =", "(event_id =", "(message_id ="];
    let of_one = one.iter().any(|start| text("Index Cond").starts_with(start));
    let endless = kind.starts_with("Index")
        && !["contents", "erasures", "outcomes"].contains(&table)
        && !of_one
        && (passes_over(sql) || sql.contains("BY at") && !node["Filter"].is_null())
        && !text("Index Cond").contains(far_end(sql, " "));
    let astray = kind.starts_with("Index")
        && sql.contains("COALESCE(NULLIF(organization_id")
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
