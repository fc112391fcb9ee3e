//! Messages that the database generates itself, past the store: millions of rows in minutes. They
//! are spread over a year, the Agents and a hundred contacts of each organization, and have one of
//! a thousand texts. The tables and their indexes are those of the migrations.

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};
use gatepost::domain::address::Address;
use gatepost::domain::message::Mail;
use gatepost::domain::search::tokens;
use gatepost::domain::search::words::Document;
use gatepost::domain::sender::Sender;
use gatepost::run;
use gatepost::store::Location;
use serde_json::json;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _, PgConnection, SqliteConnection};

use super::accounts::Accounts;

/// A word in every message.
pub const COMMON: &str = "please";
/// A word in one of a thousand messages.
pub const RARE: &str = "zebra";
/// Times of the first message and of the last one.
const START: u64 = 1_740_000_000_000;
const END: u64 = 1_771_000_000_000;
/// A time that nine of ten messages came after.
pub const EARLY: u64 = START + (END - START) / 10;
/// Contacts of an organization; their ids, which no other rows have.
const CONTACTS: u64 = 100;
const FIRST_CONTACT: u64 = 1_000_000_000;
const MAILS: u64 = 1000;
/// Octets of an original.
const SIZE: usize = 2000;
/// Rows of one statement.
const PIECE: u64 = 50_000;

/// A connection past the store.
enum Database {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl Database {
    async fn open(location: &Location) -> Self {
        match location {
            Location::Folder(folder) => {
                let options = sqlx::sqlite::SqliteConnectOptions::new();
                let options = options.filename(folder.join("gatepost.db"));
                Self::Sqlite(options.pragma("cache_size", "-512000").connect().await.unwrap())
            }
            Location::Postgres(url) => {
                let options: sqlx::postgres::PgConnectOptions = url.expose().parse().unwrap();
                Self::Postgres(options.connect().await.unwrap())
            }
        }
    }

    async fn run(&mut self, text: String) {
        let query = sqlx::raw_sql(AssertSqlSafe(text));
        match self {
            Self::Sqlite(one) => drop(one.execute(query).await.unwrap()),
            Self::Postgres(one) => drop(one.execute(query).await.unwrap()),
        }
    }

    const fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }
}

/// The newest messages, which wait to be indexed: fewer than are indexed at once.
const UNINDEXED: u64 = 200;

/// Writes so many messages and, if `search` is set, their entries in the search index.
pub async fn fill(location: &Location, accounts: &Accounts, rows: u64, search: bool) {
    let mut database = Database::open(location).await;
    let postgres = database.is_postgres();
    database.run(tables(accounts, postgres)).await;
    let index = "CREATE INDEX search_entries_by_tokens ON search_entries USING gin (tokens)
                 WITH (fastupdate = on, gin_pending_list_limit = 1024)";
    if postgres {
        database
            .run("DROP INDEX search_entries_by_tokens; SET synchronous_commit = off".into())
            .await;
    } else {
        database.run("PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF".into()).await;
    }
    let mut first = 1;
    while first <= rows {
        let last = (first + PIECE - 1).min(rows);
        database.run(format!("BEGIN; {}; COMMIT", messages(rows, first, last, postgres))).await;
        let last_entry = last.min(rows.saturating_sub(UNINDEXED));
        if search && first <= last_entry {
            let entries = entries(rows, first, last_entry, postgres);
            database.run(format!("BEGIN; {entries}; COMMIT")).await;
        }
        first = last + 1;
    }
    if search {
        let waiting = "INSERT INTO search_waiting (message_id, organization_id)
                       SELECT id, organization_id FROM messages WHERE id NOT IN (SELECT id FROM search_entries)";
        database.run(waiting.to_owned()).await;
    }
    database.run(rooms().to_owned()).await;
    let refused = (rows / 10).max(1);
    for first in (1..=refused).step_by(usize::try_from(PIECE).unwrap()) {
        let last = (first + PIECE - 1).min(refused);
        database.run(refusals(refused, first, last, postgres)).await;
    }
    if postgres {
        database.run(format!("SET maintenance_work_mem = '512MB'; {index}")).await;
    }
    database.run("DROP TABLE bench_agents; DROP TABLE bench_mails".into()).await;
    let tidy = if postgres { "VACUUM ANALYZE" } else { "PRAGMA wal_checkpoint(TRUNCATE); ANALYZE" };
    database.run(tidy.into()).await;
}

/// Creates the contacts, the texts and the Agents of the messages.
fn tables(accounts: &Accounts, postgres: bool) -> String {
    let (integer, octets, uuid) =
        if postgres { ("BIGINT", "BYTEA", "UUID") } else { ("INTEGER", "BLOB", "BLOB") };
    let mut text = format!(
        "CREATE TABLE bench_agents (i {integer} PRIMARY KEY, partner_id {integer}, \
             reseller_id {integer}, organization_id {integer}, agent_id {integer}, \
             username TEXT, first_contact {integer});
         CREATE TABLE bench_mails (i {integer} PRIMARY KEY, content {uuid}, digest {octets}, \
             tokens TEXT);"
    );
    let mut organizations = Vec::new();
    for (i, agent) in accounts.agents.iter().enumerate() {
        let id = |id: Option<gatepost::domain::id::AccountId>| id.unwrap().get();
        let lineage = agent.lineage;
        let organization = id(lineage.organization);
        if !organizations.contains(&organization) {
            organizations.push(organization);
        }
        let place = organizations.iter().position(|one| *one == organization).unwrap();
        let contacts = FIRST_CONTACT + u64::try_from(place).unwrap() * CONTACTS;
        write!(
            text,
            "INSERT INTO bench_agents VALUES ({i}, {}, {}, {organization}, {}, '{}', {contacts});",
            id(lineage.partner),
            id(lineage.reseller),
            agent.id,
            agent.username.replace('\'', "")
        )
        .unwrap();
    }
    for (place, organization) in organizations.iter().enumerate() {
        let first = FIRST_CONTACT + u64::try_from(place).unwrap() * CONTACTS;
        write!(
            text,
            "INSERT INTO contacts (id, organization_id, address, name, first_seen, last_seen) \
             WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < {}) \
             SELECT {first} + n, {organization}, 'sender' || n || '@sender.example', 'Sender', \
                 {START}, {END} FROM s;",
            CONTACTS - 1
        )
        .unwrap();
    }
    for number in 0..MAILS {
        let (mail, original, words) = mail(number);
        let octets = |octets: &[u8]| {
            let hex: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
            if postgres { format!("'\\x{hex}'::bytea") } else { format!("x'{hex}'") }
        };
        let digest = octets(digest(&SHA256, original.as_bytes()).as_ref());
        let content =
            if postgres { format!("'{number:032x}'::uuid") } else { format!("x'{number:032x}'") };
        let packed =
            octets(&zstd::bulk::compress(format!("{mail}{original}").as_bytes(), 1).unwrap());
        write!(
            text,
            "INSERT INTO contents (content_id, octets, packed, organization_id)
                 SELECT DISTINCT {content}, {}, {packed}, organization_id FROM bench_agents;
             INSERT INTO bench_mails VALUES ({number}, {content}, {digest}, '{words}');",
            mail.len()
        )
        .unwrap();
    }
    text
}

/// The JSON of a mail as the store keeps it, its original, and its tokens.
fn mail(number: u64) -> (String, String, String) {
    let mut state = number * 7919 + 1;
    let mut text = format!("{COMMON} answer");
    for _ in 0..60 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Few words are frequent, many are not.
        let (many, few) = ((state >> 33) % 5000, (state >> 33) % 50);
        write!(text, " w{}", if state >> 63 == 0 { many } else { few }).unwrap();
    }
    if number == MAILS / 2 {
        text.push(' ');
        text.push_str(RARE);
    }
    let from = Address::parse("sender@sender.example").unwrap();
    let mail = Mail {
        from: Sender { address: from, name: Some("Sender".into()) },
        text: text.clone(),
        subject: Some(format!("Question number {number}")),
        to: Vec::new(),
        cc: Vec::new(),
        reply_to: Vec::new(),
        message_id: Some(format!("{number}@sender.example")),
        in_reply_to: Vec::new(),
        references: Vec::new(),
        stripped_text: text.clone(),
        auto_submitted: None,
        disposition_notification_to: None,
        attachments: Vec::new(),
        findings: Vec::new(),
    };
    let kept = json!({
        "from": mail.from.address.to_string(), "from_name": mail.from.name, "text": text,
        "subject": mail.subject, "to": [], "cc": [], "reply_to": [], "message_id": mail.message_id,
        "in_reply_to": [], "references": [], "stripped_text": text, "auto_submitted": null,
        "disposition_notification_to": null, "attachments": [], "findings": [],
    });
    let words = tokens::of_document(&Document::of_mail(&mail));
    let head = format!(
        "From: Sender <sender@sender.example>\r\nSubject: Question number {number}\r\n\r\n"
    );
    let original = format!("{:SIZE$}", format!("{head}{text}"));
    assert_eq!(original.len(), SIZE, "a text is longer than an original");
    (kept.to_string(), original, words)
}

/// The rows from which each message of a piece takes its number, Agent and mail.
fn source(first: u64, last: u64) -> String {
    // Two Lehmer generators, so that Agent, contact and mail are independent.
    format!(
        "(WITH RECURSIVE s(n) AS (SELECT CAST({first} AS BIGINT) UNION ALL \
              SELECT n + 1 FROM s WHERE n < {last}) SELECT n FROM s) AS s \
         JOIN bench_agents AS a ON a.i = (n * 48271 % 2147483647) % {} \
         JOIN bench_mails AS m ON m.i = (n * 16807 % 2147483647) % {MAILS}",
        100
    )
}

/// The time of a message, and its id.
fn place(rows: u64, postgres: bool) -> (String, String) {
    let at = format!("({START} + n * {} / {rows})", END - START);
    let id = id(&at, postgres);
    (at, id)
}

/// The id of what came in at this time.
fn id(at: &str, postgres: bool) -> String {
    if postgres {
        format!(
            "CAST(lpad(to_hex({at}), 12, '0') || '7' || lpad(to_hex(n % 4096), 3, '0') || '8' \
             || lpad(to_hex(n), 15, '0') AS UUID)"
        )
    } else {
        format!("unhex(printf('%012x7%03x8%015x', {at}, n % 4096, n))")
    }
}

/// As long as the evidence of a small mail.
const fn evidence(postgres: bool) -> &'static str {
    if postgres { "decode(repeat('00', 900), 'hex')" } else { "zeroblob(900)" }
}

/// Records of mail that was refused or deferred, a tenth as many as there are messages, all of the
/// month that ends now: pages show the newest.
fn refusals(rows: u64, first: u64, last: u64, postgres: bool) -> String {
    const MONTH: i64 = 30 * 24 * 3_600_000;
    let since = run::system_mint().clock().now().millis() - MONTH;
    let at = format!("({since} + n * {MONTH} / {rows})");
    let (id, evidence) = (id(&at, postgres), evidence(postgres));
    format!(
        "INSERT INTO intake_records (id, at, partner_id, reseller_id, organization_id, agent_id, \
             recipient, sender, envelope_from, remote_address, helo, verdict, reason, explanation, \
             size, evidence) \
         SELECT {id}, {at}, a.partner_id, a.reseller_id, a.organization_id, a.agent_id, \
             'desk@agents.example', 'stranger' || (n % 500) || '@stranger.example', \
             'stranger@stranger.example', '192.0.2.1', 'mail.stranger.example', \
             CASE WHEN n % 10 = 0 THEN 'deferred' ELSE 'refused' END, \
             CASE WHEN n % 10 = 0 THEN 'dns_unavailable' ELSE 'dkim_missing' END, \
             'no DKIM signature', 2000, {evidence} FROM {}",
        source(first, last)
    )
}

fn messages(rows: u64, first: u64, last: u64, postgres: bool) -> String {
    let (at, id) = place(rows, postgres);
    let evidence = evidence(postgres);
    format!(
        "INSERT INTO messages (id, partner_id, reseller_id, organization_id, agent_id, \
             agent_username, thread_id, contact_id, at, sender, size, digest, content_id, \
             recipient, envelope_from, remote_address, helo, explanation, evidence) \
         SELECT {id}, a.partner_id, a.reseller_id, a.organization_id, a.agent_id, a.username, \
             {id}, a.first_contact + (n * 69621 % 2147483647) % {CONTACTS}, {at}, \
             'sender@sender.example', {SIZE}, m.digest, m.content, 'desk@agents.example', \
             'sender@sender.example', '192.0.2.1', 'mail.sender.example', '', {evidence} FROM {}",
        source(first, last)
    )
}

fn entries(rows: u64, first: u64, last: u64, postgres: bool) -> String {
    let (at, id) = place(rows, postgres);
    let mut places = String::from("''");
    let levels = [("p", "partner_id"), ("r", "reseller_id"), ("o", "organization_id")];
    for (letter, column) in levels.into_iter().chain([("a", "agent_id")]) {
        for (size, span) in [22, 27, 32, 37].into_iter().enumerate() {
            write!(
                places,
                " || 'in:{letter}' || a.{column} || ':{size}:' || ({at} >> {span}) || ' '"
            )
            .unwrap();
        }
    }
    let source = source(first, last);
    if postgres {
        return format!(
            "INSERT INTO search_entries (id, agent_id, source, at, organization_id, tokens) \
             SELECT {id}, a.agent_id, 'email', {at}, a.organization_id, \
                 array_to_tsvector(string_to_array({places} || m.tokens, ' ')) FROM {source}"
        );
    }
    format!(
        "INSERT INTO search_entries (number, id, agent_id, source, at, organization_id) \
         SELECT n, {id}, a.agent_id, 'email', {at}, a.organization_id FROM {source}; \
         INSERT INTO search_words (rowid, tokens) SELECT n, {places} || m.tokens FROM {source}"
    )
}

fn rooms() -> &'static str {
    "INSERT INTO rooms (contact_id, agent_id, partner_id, reseller_id, organization_id, inbox,
                        started_at, last_at, last_message_id, messages, unread, read_at, read_id)
     SELECT contact_id, agent_id, partner_id, reseller_id, organization_id, 'inbox', started, at, id,
            messages, messages, -1, id
     FROM (SELECT contact_id, agent_id, partner_id, reseller_id, organization_id, at, id,
                  ROW_NUMBER() OVER (PARTITION BY contact_id, agent_id
                                     ORDER BY at DESC, id DESC) AS place,
                  MIN(at) OVER (PARTITION BY contact_id, agent_id) AS started,
                  COUNT(*) OVER (PARTITION BY contact_id, agent_id) AS messages
           FROM messages) AS latest
     WHERE place = 1"
}
