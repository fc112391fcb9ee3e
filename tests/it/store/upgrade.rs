//! A store of the first version, with mail in it, brought to this one.

use std::path::Path;

use gatepost::domain::account::AccountType;
use gatepost::domain::id::AccountId;
use gatepost::domain::message::Passage;
use gatepost::domain::scope::Scope;
use gatepost::domain::source::Inbox;
use gatepost::run;
use gatepost::store::{Cursor, Location, RoomFilter, RoomPage, Store};
use sqlx::migrate::Migrator;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _};

use super::scene::{Kind, everything};
use crate::support::{postgres, store_rules};

on_both! {
    mail_of_the_first_version_is_read_as_before,
}

/// Two recipients of one message, as the first version kept it: what was read out of it twice, each
/// with attachment ids of its own.
fn old_mail(octets: fn(u8) -> String, uuid: fn(u8) -> String) -> String {
    let mail = |id: u8| {
        format!(
            r#"{{"from":"alice@good.example","from_name":"Alice","text":"Hello","subject":"Old",
            "to":["desk@agents.example"],"cc":[],"reply_to":[],"message_id":null,"in_reply_to":[],
            "references":[],"html":"00000000-0000-7000-8000-0000000000{id:02}",
            "stripped_text":"Hello","auto_submitted":null,"disposition_notification_to":null,
            "attachments":[{{"id":"00000000-0000-7000-8000-0000000000{id:02}","part":2,
            "content_type":"text/html","filename":"a.html","size":4,"listed":false}}],
            "findings":[]}}"#
        )
    };
    let account = |id: u8, kind: &str, parent: &str, agent: &str| {
        let (reseller, organization) =
            (if id > 1 { "2" } else { "NULL" }, if id > 2 { "3" } else { "NULL" });
        format!(
            "INSERT INTO accounts VALUES ({id}, '{kind}', 'n', 'n', {parent}, 1, {reseller},
             {organization}, {agent}, 1, 0);"
        )
    };
    let message = |id: u8, agent: u8| {
        format!(
            "INSERT INTO messages VALUES ({}, 1, 2, 3, {agent}, 'n', 6, 0, 'alice@good.example', NULL,
             3, {}, '{}', '{{}}'); INSERT INTO attachments VALUES ({}, {}, 2);",
            uuid(id),
            octets(7),
            mail(id),
            uuid(id + 10),
            uuid(id),
        )
    };
    [
        account(1, "partner", "NULL", "NULL"),
        account(2, "reseller", "1", "NULL"),
        account(3, "organization", "2", "NULL"),
        account(4, "account", "3", "4"),
        account(5, "account", "3", "5"),
        "INSERT INTO contacts VALUES (6, 3, 'alice@good.example', 'Alice', 0, 0);".to_owned(),
        format!("INSERT INTO raw_messages (digest, bytes) VALUES ({0}, {0});", octets(7)),
        message(1, 4),
        message(2, 5),
    ]
    .concat()
}

/// The migrations of the first version alone.
async fn first_version(kind: &str, folder: &Path) -> Migrator {
    let file = format!("migrations/{kind}/0001_founding.sql");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    std::fs::copy(source, folder.join("0001_founding.sql")).unwrap();
    Migrator::new(folder).await.unwrap()
}

async fn mail_of_the_first_version_is_read_as_before(kind: Kind) {
    let folder = tempfile::tempdir().unwrap();
    let location = match kind {
        Kind::Sqlite => {
            let data = tempfile::tempdir().unwrap().keep();
            let file = data.join("gatepost.db");
            let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
            let mut database = options.connect().await.unwrap();
            let first = first_version("sqlite", folder.path()).await;
            first.run_direct(None, &mut database, false).await.unwrap();
            let mail = old_mail(|n| format!("x'{n:064x}'"), |n| format!("x'{n:032x}'"));
            database.execute(sqlx::raw_sql(AssertSqlSafe(mail))).await.unwrap();
            database.close().await.unwrap();
            Location::Folder(data)
        }
        Kind::Postgres => {
            let url = postgres::new_database().await;
            let mut database = postgres::connect(&url).await;
            let first = first_version("postgres", folder.path()).await;
            first.run_direct(None, &mut database, false).await.unwrap();
            let octets = |n| format!("decode('{n:064x}', 'hex')");
            let mail = old_mail(octets, |n| format!("CAST('{n:032x}' AS UUID)"));
            database.execute(sqlx::raw_sql(AssertSqlSafe(mail))).await.unwrap();
            Location::parse(None, Some(&url)).unwrap()
        }
    };
    let store = Store::open(&location, &store_rules(), run::system_mint()).await.unwrap();
    for agent in [4, 5] {
        let scope = Scope::subtree(AccountId::new(agent).unwrap(), AccountType::Agent);
        let message = store.recent_messages(&scope, &everything()).await.unwrap().remove(0);
        let mailed = message.mailed().unwrap();
        assert_eq!(mailed.mail.subject.as_deref(), Some("Old"));
        assert_eq!(mailed.mail.html().map(|part| part.part), Some(2));
        // How it came was not kept.
        assert_eq!(mailed.passage, Passage::default());
        let original = store.original(&scope, message.id).await.unwrap();
        assert_eq!(original.map(|found| found.marker), Some(None));
        let raw = store.raw_message(&scope, message.id).await.unwrap().unwrap();
        assert_eq!(raw.len(), 32);
        let filter = RoomFilter { inbox: Inbox::Priority, unread: true };
        let page = RoomPage { before: None, skip: 0, limit: 9 };
        let room = store.list_rooms(&scope, filter, page, 9).await.unwrap().rooms.remove(0);
        assert_eq!((room.room, room.last_message), (message.room(), message.id));
        assert_eq!((room.messages, room.unread, room.preview.as_str()), (1, 1, "Hello"));
        // It is alone in its thread.
        let thread = Some(message.thread);
        let found = store.room_messages(&scope, room.room, thread, &everything()).await.unwrap();
        assert_eq!(found, std::slice::from_ref(&message));
        let mark = Cursor { at: message.at, id: message.id.0 };
        assert_eq!(store.mark_read(&scope, &[(room.room, mark)]).await.unwrap(), 1);
        assert_eq!(store.list_rooms(&scope, filter, page, 9).await.unwrap().rooms, []);
    }
    for (id, kind) in [(1, AccountType::Partner), (2, AccountType::Reseller)] {
        let scope = Scope::subtree(AccountId::new(id).unwrap(), kind);
        assert_eq!(store.list_contacts(&scope, (None, None), 9).await.unwrap().len(), 1);
    }
    store.close().await;
    if let Location::Folder(data) = location {
        std::fs::remove_dir_all(data).unwrap();
    }
}
