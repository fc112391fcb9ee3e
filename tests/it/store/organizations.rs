//! Checks that tables which grow with mail can be partitioned, and distributed, by organization: asks the
//! catalogue about every table that mail was seen to add rows to. And a transaction is of one organization,
//! where that is asked for.

use std::collections::{BTreeMap, BTreeSet};

use gatepost::domain::account::Account;
use gatepost::domain::agent_outcome::NewOutcome;
use gatepost::domain::clock::TimeRange;
use gatepost::domain::condition::LogFilter;
use gatepost::domain::delivery::Outcome;
use gatepost::domain::event::Category;
use gatepost::domain::intake_record::IntakeRecord;
use gatepost::domain::log_field::{LogField, LogValue};
use gatepost::domain::reason::Reason;
use gatepost::domain::thread::{ThreadKey, ThreadKeys};
use gatepost::domain::verdict::Verdict;
use gatepost::run;
use gatepost::store::{Commit, Committed, Intake, OutcomeRecorded, Store};
use sqlx::{AssertSqlSafe, Row as _};

use super::exercise::exercise;
use super::scene::{DAY, Kind, Scene, at, attempt, by, database, everything, record, subtree};
use crate::support::store_rules;

on_both! {
    what_grows_with_mail_is_keyed_by_the_organization,
    what_is_of_no_organization_is_nobodys,
}

/// The table that notes deeds of people: a reset of a session is one, mail is not.
const NOTED: &str = "audit_entries";

/// Tables that grew when somebody looked last.
const KNOWN: &[&str] = &[
    "arrivals",
    "attempts",
    "contacts",
    "contents",
    "deliveries",
    "events",
    "intake_records",
    "messages",
    "outcomes",
    "replies",
    "rooms",
    "search_entries",
    "search_waiting",
    "sessions",
    "thread_keys",
];

async fn what_grows_with_mail_is_keyed_by_the_organization(kind: Kind) {
    let scene = Scene::new(kind).await;
    let stranger = scene.stranger().await;
    for account in [&scene.partner, &scene.organization, &stranger] {
        scene.listen(account, Category::Incoming, "https://a.example/").await;
    }
    let mut grown = BTreeSet::new();
    let mut before = rows(&scene, kind).await;
    let mut look = async |grown: &mut BTreeSet<String>| {
        let now = rows(&scene, kind).await;
        let more = now.iter().filter(|(table, count)| before.get(*table) < Some(count));
        grown.extend(more.map(|(table, _)| table.clone()));
        before = now;
    };
    for agent in [&scene.agent, &stranger] {
        receive(&scene, agent).await;
    }
    look(&mut grown).await;
    scene.index().await;
    look(&mut grown).await;
    for claim in scene.store.claim_deliveries(at(DAY), at(2 * DAY), 100, &[]).await.unwrap() {
        let attempt = attempt(DAY, 200);
        let done = scene.store.finish_delivery(&claim, &attempt, Outcome::Delivered);
        assert!(done.await.unwrap().recorded);
    }
    look(&mut grown).await;
    for agent in [&scene.agent, &stranger] {
        let scope = subtree(agent);
        let room = scene.store.list_sessions(&scope, None, 1).await.unwrap().sessions.remove(0);
        let reset = scene.store.reset_session(&scope, room.key, None, by(at(DAY))).await;
        assert!(reset.unwrap().is_some());
        let found = scene.store.recent_messages(&scope, TimeRange::default(), &everything()).await;
        let new = NewOutcome { reply: Some("Hello".to_owned()), ..NewOutcome::default() };
        let id = found.unwrap()[0].id;
        let done = scene.store.record_outcome(&scope, id, &new, 1, by(at(DAY))).await.unwrap();
        assert!(matches!(done, OutcomeRecorded::Done(..)), "{done:?}");
    }
    look(&mut grown).await;
    grown.remove(NOTED);
    assert_eq!(grown.iter().collect::<Vec<_>>(), KNOWN);
    assert_eq!(faults(&scene, kind, &grown).await, [""; 0]);
    // As somebody may add them who does not know.
    scene.execute("CREATE UNIQUE INDEX astray ON messages (id)").await;
    scene
        .execute(match kind {
            Kind::Sqlite => "CREATE TABLE pointers (message_id BLOB REFERENCES messages (id))",
            Kind::Postgres => "CREATE TABLE pointers (message_id UUID REFERENCES messages (id))",
        })
        .await;
    let of_few = "pointers, which does not grow, refers to messages";
    let unkeyed = "messages: id is unique by itself";
    assert_eq!(faults(&scene, kind, &grown).await, [unkeyed, of_few]);
    grown.insert("pointers".to_owned());
    let missing = "pointers has no organization in each row";
    let across = "pointers refers to messages by message_id=id";
    assert_eq!(faults(&scene, kind, &grown).await, [missing, unkeyed, across]);
}

/// A message with what finds its thread, an answer to it, one of them again, and refusals: of the Agent,
/// and of nobody's.
async fn receive(scene: &Scene, agent: &Account) {
    let key = |octet| ThreadKey([octet; 16]);
    let mut first = scene.intake(agent, 0).await;
    let accepted = first.accepted.as_mut().unwrap();
    accepted.message.thread = ThreadKeys { own: Some(key(1)), named: Vec::new() };
    let keys = accepted.arrival_keys.clone();
    let mut answer = scene.intake(agent, 1).await;
    let accepted = answer.accepted.as_mut().unwrap();
    accepted.message.thread = ThreadKeys { own: Some(key(2)), named: vec![key(1)] };
    let mut again = scene.intake(agent, 2).await;
    again.accepted.as_mut().unwrap().arrival_keys = keys;
    let id = first.record.message;
    for (intake, earlier) in [(first, None), (answer, None), (again, id)] {
        assert_eq!(scene.commit(vec![intake], 2).await, Committed::Done(vec![earlier]));
    }
    let refused = || record(agent, 3, Verdict::Refused(Reason::UnknownRecipient));
    scene.commit(vec![Intake { record: refused(), accepted: None }], 3).await;
    let of_nobody = IntakeRecord { lineage: scene.partner.lineage, agent: None, ..refused() };
    for record in [refused(), of_nobody] {
        scene.store.count_refusal(&record, "192.0.2.0/24").await.unwrap();
    }
}

/// Counts the rows of each table of the store. The tables in which FTS5 keeps its index are none of ours:
/// what it is about is in `search_entries`.
async fn rows(scene: &Scene, kind: Kind) -> BTreeMap<String, i64> {
    let tables = match kind {
        Kind::Sqlite => {
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'
               AND name NOT LIKE 'sqlite%' AND name NOT LIKE '\\_sqlx%' ESCAPE '\\'"
        }
        Kind::Postgres => {
            "SELECT CAST(tablename AS TEXT) FROM pg_tables WHERE schemaname = 'public'
               AND tablename NOT LIKE '\\_sqlx%'"
        }
    };
    let mut rows = BTreeMap::new();
    for [table] in ask(scene, kind, tables).await {
        let count = scene.count(format!("SELECT COUNT(*) FROM {table}").leak()).await;
        rows.insert(table, count);
    }
    assert!(rows.len() > 30, "{rows:?}");
    rows
}

/// Rows of so many texts, past the store.
async fn ask<const N: usize>(scene: &Scene, kind: Kind, sql: &str) -> Vec<[String; N]> {
    let sql = AssertSqlSafe(sql.to_owned());
    match kind {
        Kind::Sqlite => {
            let rows = sqlx::query(sql).fetch_all(&mut database(&scene.path()).await).await;
            rows.unwrap().iter().map(|row| std::array::from_fn(|place| row.get(place))).collect()
        }
        Kind::Postgres => {
            let rows = sqlx::query(sql).fetch_all(&mut scene.postgres().await).await;
            rows.unwrap().iter().map(|row| std::array::from_fn(|place| row.get(place))).collect()
        }
    }
}

/// Tables with an organization in each row; unique indexes with their columns; foreign keys with theirs.
/// SQLite's number of a row is neither: it is of the file, and PostgreSQL has none.
const OF_SQLITE: [&str; 3] = [
    "SELECT t.name FROM pragma_table_list AS t, pragma_table_info(t.name) AS c
     WHERE t.schema = 'main' AND c.name = 'organization_id' AND (c.\"notnull\" = 1 OR c.pk > 0)",
    "SELECT t.name, (SELECT GROUP_CONCAT(name, ', ') FROM pragma_index_info(i.name))
     FROM pragma_table_list AS t, pragma_index_list(t.name) AS i
     WHERE t.schema = 'main' AND t.type = 'table' AND i.\"unique\" = 1",
    "SELECT t.name, f.\"table\", GROUP_CONCAT(f.\"from\" || '=' || f.\"to\", ', ')
     FROM pragma_table_list AS t, pragma_foreign_key_list(t.name) AS f
     WHERE t.schema = 'main' GROUP BY t.name, f.id",
];
const OF_POSTGRES: [&str; 3] = [
    "SELECT CAST(CAST(attrelid AS regclass) AS TEXT) FROM pg_attribute
     WHERE attname = 'organization_id' AND attnotnull",
    "SELECT CAST(CAST(indrelid AS regclass) AS TEXT), (
         SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute
         WHERE attrelid = indrelid AND attnum = ANY (CAST(indkey AS SMALLINT[])))
     FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
     WHERE (indisunique OR indisexclusion) AND relnamespace = CAST('public' AS regnamespace)",
    "SELECT CAST(CAST(conrelid AS regclass) AS TEXT), CAST(CAST(confrelid AS regclass) AS TEXT),
            string_agg(a.attname || '=' || b.attname, ', ')
     FROM pg_constraint CROSS JOIN unnest(conkey, confkey) AS k (own, other)
     JOIN pg_attribute AS a ON a.attrelid = conrelid AND a.attnum = k.own
     JOIN pg_attribute AS b ON b.attrelid = confrelid AND b.attnum = k.other
     WHERE contype = 'f' GROUP BY pg_constraint.oid, conrelid, confrelid",
];

/// Lists obstacles to distributing these tables by organization. Tables they refer to that do not grow
/// (accounts, destinations) can be on every node.
async fn faults(scene: &Scene, kind: Kind, grown: &BTreeSet<String>) -> Vec<String> {
    let [owned, unique, references] = if kind == Kind::Sqlite { OF_SQLITE } else { OF_POSTGRES };
    let owned = ask(scene, kind, owned).await.into_iter().map(|[table]| table).collect();
    let missing = grown.difference(&owned);
    let mut faults: Vec<_> =
        missing.map(|table| format!("{table} has no organization in each row")).collect();
    let has = |columns: &str, wanted| columns.split(", ").any(|one| one == wanted);
    for [table, columns] in ask(scene, kind, unique).await {
        if grown.contains(&table) && !has(&columns, "organization_id") {
            faults.push(format!("{table}: {columns} is unique by itself"));
        }
    }
    for [table, other, columns] in ask(scene, kind, references).await {
        let within = has(&columns, "organization_id=organization_id");
        match (grown.contains(&table), grown.contains(&other)) {
            (true, true) if !within => {
                faults.push(format!("{table} refers to {other} by {columns}"));
            }
            (false, true) => {
                faults.push(format!("{table}, which does not grow, refers to {other}"))
            }
            _ => {}
        }
    }
    faults
}

/// Not the catalogue's word alone: with every such table in four parts, all that the store does is done.
#[tokio::test]
async fn every_method_works_on_tables_that_are_partitioned_by_organization() {
    let scene = Scene::new(Kind::Postgres).await;
    let parts = format!(
        "DO $$ DECLARE
             growing TEXT; statement TEXT;
             records TEXT = pg_get_viewdef('records');
             referring TEXT[] = ARRAY (
                 SELECT format('ALTER TABLE %s ADD %s', CAST(conrelid AS regclass),
                               pg_get_constraintdef(oid))
                 FROM pg_constraint WHERE contype = 'f'
                   AND CAST(CAST(conrelid AS regclass) AS TEXT) = ANY ('{{{tables}}}'));
         BEGIN
             DROP VIEW records;
             FOREACH growing IN ARRAY CAST('{{{tables}}}' AS TEXT[]) LOOP
                 EXECUTE format('CREATE TABLE parted (LIKE %I INCLUDING ALL)
                                 PARTITION BY HASH (organization_id)', growing);
                 FOR part IN 0 .. 3 LOOP
                     EXECUTE format('CREATE TABLE %I PARTITION OF parted
                                     FOR VALUES WITH (MODULUS 4, REMAINDER %s)',
                                    growing || part, part);
                 END LOOP;
                 EXECUTE format('INSERT INTO parted SELECT * FROM %I', growing);
                 EXECUTE format('DROP TABLE %I CASCADE', growing);
                 EXECUTE format('ALTER TABLE parted RENAME TO %I', growing);
             END LOOP;
             FOREACH statement IN ARRAY referring LOOP EXECUTE statement; END LOOP;
             EXECUTE 'CREATE VIEW records AS ' || records;
         END $$",
        tables = KNOWN.join(", ")
    );
    scene.execute(parts.leak()).await;
    let parted = "SELECT COUNT(*) FROM pg_partitioned_table";
    assert_eq!(scene.count(parted).await, i64::try_from(KNOWN.len()).unwrap());
    exercise(&scene).await;
}

/// Rows of the partner's own have the number of no account, which nobody is shown.
async fn what_is_of_no_organization_is_nobodys(kind: Kind) {
    let scene = Scene::new(kind).await;
    receive(&scene, &scene.agent).await;
    let records = "SELECT COUNT(*) FROM intake_records WHERE organization_id = 0";
    assert_eq!(scene.count(records).await, 1);
    let (scope, fields) =
        (subtree(&scene.partner), [LogField::OrganizationId, LogField::ResellerId]);
    let all = LogFilter::default();
    let found = scene.store.logs(&scope, &all, &everything(), &fields).await.unwrap();
    let of_nobody = found.iter().filter(|row| row.values == [LogValue::Null, LogValue::Null]);
    assert_eq!(of_nobody.count(), 1);
    let all = gatepost::store::IntakeFilter::default();
    let found = scene.store.intake_records(&scope, &all, &everything()).await.unwrap();
    let of_nobody = found.iter().filter(|record| record.lineage == scene.partner.lineage);
    assert_eq!(of_nobody.count(), 1);
}

// On a runtime of one thread: what is handed in by one task is in the queue before a writer looks.
on_both! { #[tokio::test] what_is_written_together_may_be_of_one_organization }

async fn what_is_written_together_may_be_of_one_organization(kind: Kind) {
    let scene = Scene::new(kind).await;
    let agents = [scene.agent.clone(), scene.stranger().await];
    scene.listen(&scene.partner, Category::Incoming, "https://a.example/").await;
    for (one_organization, transactions) in [(false, 1), (true, 2)] {
        let mut rules = store_rules();
        rules.commit.one_organization = one_organization;
        let store = Store::open(&scene.location, &rules, run::system_mint()).await.unwrap();
        let millis = DAY * transactions;
        let mut commits = Vec::new();
        for agent in &agents {
            let intakes = vec![scene.intake(agent, millis).await];
            commits.push(Commit { intakes, now: at(millis) });
        }
        let count = Transactions::begin(&scene, kind).await;
        let (one, other) = tokio::join!(store.commit(&commits[0]), store.commit(&commits[1]));
        assert_eq!((one.unwrap(), other.unwrap()), {
            let done = || Committed::Done(vec![None]);
            (done(), done())
        });
        assert_eq!(count.since(&scene, "messages").await, transactions, "{one_organization}");

        let refused = |agent| record(agent, millis, Verdict::Refused(Reason::UnknownRecipient));
        let refused = [refused(&agents[0]), refused(&agents[1])];
        let refuse = |record| store.count_refusal(record, "192.0.2.0/24");
        let count = Transactions::begin(&scene, kind).await;
        let (one, other) = tokio::join!(refuse(&refused[0]), refuse(&refused[1]));
        assert_eq!([one.unwrap(), other.unwrap()], [refused[0].id, refused[1].id]);
        assert_eq!(count.since(&scene, "intake_records").await, transactions, "{one_organization}");

        let (now, until) = (at(millis + 1), at(2 * millis));
        let claims = store.claim_deliveries(now, until, 100, &[]).await.unwrap();
        let ended = [attempt(millis, 200), attempt(millis, 200)];
        let finish = |n: usize| store.finish_delivery(&claims[n], &ended[n], Outcome::Delivered);
        let count = Transactions::begin(&scene, kind).await;
        let (one, other) = tokio::join!(finish(0), finish(1));
        assert!(one.unwrap().recorded && other.unwrap().recorded);
        assert_eq!(count.since(&scene, "attempts").await, transactions, "{one_organization}");
    }
}

/// Counts transactions: on PostgreSQL those that wrote rows of a table, on SQLite the frames of the log that
/// end one (<https://sqlite.org/fileformat2.html>, 4.1).
struct Transactions {
    kind: Kind,
    before: i64,
}

impl Transactions {
    async fn begin(scene: &Scene, kind: Kind) -> Self {
        let before = match kind {
            Kind::Sqlite => in_log(scene),
            Kind::Postgres => {
                let next = "SELECT CAST(CAST(pg_current_snapshot() AS TEXT) AS TEXT)";
                let [next] = ask(scene, kind, next).await.remove(0);
                next.split(':').nth(1).unwrap().parse().unwrap()
            }
        };
        Self { kind, before }
    }

    async fn since(self, scene: &Scene, table: &str) -> i64 {
        let before = self.before;
        match self.kind {
            Kind::Sqlite => in_log(scene) - before,
            Kind::Postgres => {
                let count = format!(
                    "SELECT COUNT(DISTINCT CAST(xmin AS TEXT)) FROM {table}
                     WHERE CAST(CAST(xmin AS TEXT) AS BIGINT) >= {before}"
                );
                scene.count(count.leak()).await
            }
        }
    }
}

fn in_log(scene: &Scene) -> i64 {
    const FRAME: usize = 2048 + 24;
    let log = std::fs::read(scene.path().join("gatepost.db-wal")).unwrap();
    let ends = log[32..].chunks_exact(FRAME).filter(|frame| frame[4..8] != [0; 4]);
    ends.count().try_into().unwrap()
}
