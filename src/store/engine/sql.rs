//! One SQL text for two databases: statements with `$n` placeholders and values of the few types
//! that both know, run on a connection of either, with rows of either as the result.
//!
//! Differences (locking, claiming) stand beside the statement that differs. Integers have 64 bits
//! on both, ids are `Uuid`s, and a null carries its type because PostgreSQL needs one. Text never
//! holds NUL, which PostgreSQL cannot store: otherwise one database would keep a message that the
//! other defers forever.

use std::borrow::Cow;
use std::pin::Pin;

use futures_util::StreamExt as _;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqlitePool, SqliteRow};
use sqlx::{AssertSqlSafe, Decode, Either, Executor as _, Postgres, Row as _, Sqlite, Type};
use uuid::Uuid;

use super::error::StoreError;
use super::lease::{Lease, Pool};
use super::trust::Trust;
use crate::domain::clock::Timestamp;
use crate::domain::id::AccountId;

/// Work on a database, boxed so that its future is `Send`.
pub type Work<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A value of a type that both databases know.
#[derive(Clone, Debug)]
pub enum Value {
    Integer(Option<i64>),
    Text(Option<String>),
    Octets(Option<Vec<u8>>),
    Uuid(Option<Uuid>),
}

impl Value {
    /// Approximate bytes sent to the database.
    pub fn octets(&self) -> usize {
        match self {
            Self::Text(text) => text.as_ref().map_or(0, String::len),
            Self::Octets(octets) => octets.as_ref().map_or(0, Vec::len),
            Self::Integer(_) | Self::Uuid(_) => 8,
        }
    }
}

/// Where a statement runs: on any connection of a pool, or on that of a transaction.
pub enum Connection<'c> {
    /// With the trust that is lost when SQLite finds its file damaged.
    SqlitePool(&'c SqlitePool, &'c Trust),
    PostgresPool(&'c Pool),
    /// With trust, too: SQLite writes to the disk in mid-transaction when it outgrows the cache.
    Sqlite(&'c mut SqliteConnection, &'c Trust),
    Postgres(&'c mut Lease),
}

/// The values of one column of many rows: one array, and one placeholder, of PostgreSQL.
#[derive(Clone, Debug)]
pub enum Column {
    Integers(Vec<Option<i64>>),
    Texts(Vec<Option<String>>),
    Octets(Vec<Option<Vec<u8>>>),
    Uuids(Vec<Option<Uuid>>),
}

/// A row of either database.
pub enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

/// A statement and the values of its placeholders, in order. The text is made of constants and
/// integers: all that comes from outside is a value.
pub struct Statement {
    text: Cow<'static, str>,
    on_postgres: Option<&'static str>,
    locking: Option<&'static str>,
    values: Vec<Value>,
    columns: Vec<Column>,
    prepared: bool,
}

/// Makes a statement of this text, for both databases unless [`Statement::on_postgres`] is called.
pub fn sql(text: &'static str) -> Statement {
    Statement::of(text.into())
}

impl Connection<'_> {
    /// Borrows the connection for one statement of several.
    pub fn again(&mut self) -> Connection<'_> {
        match self {
            Self::SqlitePool(pool, trust) => Connection::SqlitePool(pool, trust),
            Self::PostgresPool(pool) => Connection::PostgresPool(pool),
            Self::Sqlite(one, trust) => Connection::Sqlite(one, trust),
            Self::Postgres(one) => Connection::Postgres(one),
        }
    }

    pub const fn is_postgres(&self) -> bool {
        matches!(self, Self::PostgresPool(_) | Self::Postgres(_))
    }
}

impl Statement {
    /// Makes a statement of this text, which is made of constants.
    pub const fn of(text: Cow<'static, str>) -> Self {
        Self {
            text,
            on_postgres: None,
            locking: None,
            values: Vec::new(),
            columns: Vec::new(),
            prepared: true,
        }
    }

    /// Binds the placeholders after those already bound; on PostgreSQL only.
    pub fn with_columns(mut self, columns: Vec<Column>) -> Self {
        self.columns = columns;
        self
    }

    /// Binds the value of the next placeholder.
    pub fn bind(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        self
    }

    /// Sets another text for PostgreSQL.
    pub fn on_postgres(mut self, text: &'static str) -> Self {
        self.on_postgres = Some(text);
        self
    }

    /// Appends row locks, on PostgreSQL only: SQLite has one writer, so nothing changes under it.
    pub fn locking(mut self, clause: &'static str) -> Self {
        self.locking = Some(clause);
        self
    }

    /// Returns the text so far, to put it into another statement.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Marks the text as different from call to call: it is not kept prepared.
    pub fn varying(&mut self) {
        self.prepared = false;
    }

    /// Appends text.
    pub fn push(&mut self, text: &str) -> &mut Self {
        self.text.to_mut().push_str(text);
        self
    }

    /// Appends a placeholder, and binds its value.
    pub fn push_value(&mut self, value: impl Into<Value>) -> &mut Self {
        self.values.push(value.into());
        let number = self.values.len();
        self.push(&format!("${number}"))
    }

    /// Returns the number of rows changed.
    pub fn execute<'c>(self, on: Connection<'c>) -> Work<'c, u64> {
        Box::pin(async move {
            Ok(match on {
                Connection::SqlitePool(pool, trust) => {
                    let done = self.sqlite().execute(pool).await;
                    done.map_err(|error| trust.record_loss(error))?.rows_affected()
                }
                Connection::Sqlite(one, trust) => {
                    let done = self.sqlite().execute(one).await;
                    done.map_err(|error| trust.record_loss(error))?.rows_affected()
                }
                Connection::PostgresPool(pool) => {
                    let mut one = pool.lend().await?;
                    let answers = one.answers();
                    answers.wait(self.postgres().execute(&mut *one)).await?.rows_affected()
                }
                Connection::Postgres(one) => {
                    let answers = one.answers();
                    answers.wait(self.postgres().execute(&mut **one)).await?.rows_affected()
                }
            })
        })
    }

    pub fn fetch_all<'c>(self, on: Connection<'c>) -> Work<'c, Vec<Row>> {
        Box::pin(async move {
            let sqlite = |rows: Vec<SqliteRow>| rows.into_iter().map(Row::Sqlite).collect();
            let postgres = |rows: Vec<PgRow>| rows.into_iter().map(Row::Postgres).collect();
            Ok(match on {
                Connection::SqlitePool(pool, trust) => {
                    let rows = self.sqlite().fetch_all(pool).await;
                    sqlite(rows.map_err(|error| trust.record_loss(error))?)
                }
                Connection::Sqlite(one, trust) => {
                    let rows = self.sqlite().fetch_all(one).await;
                    sqlite(rows.map_err(|error| trust.record_loss(error))?)
                }
                Connection::PostgresPool(pool) => {
                    let mut one = pool.lend().await?;
                    let answers = one.answers();
                    postgres(answers.wait(self.postgres().fetch_all(&mut *one)).await?)
                }
                Connection::Postgres(one) => {
                    let answers = one.answers();
                    postgres(answers.wait(self.postgres().fetch_all(&mut **one)).await?)
                }
            })
        })
    }

    pub fn fetch_optional<'c>(self, on: Connection<'c>) -> Work<'c, Option<Row>> {
        Box::pin(async move {
            Ok(match on {
                Connection::SqlitePool(pool, trust) => {
                    let found = self.sqlite().fetch_optional(pool).await;
                    found.map_err(|error| trust.record_loss(error))?.map(Row::Sqlite)
                }
                Connection::Sqlite(one, trust) => {
                    let found = self.sqlite().fetch_optional(one).await;
                    found.map_err(|error| trust.record_loss(error))?.map(Row::Sqlite)
                }
                Connection::PostgresPool(pool) => {
                    let mut one = pool.lend().await?;
                    let answers = one.answers();
                    let asking = self.postgres().fetch_optional(&mut *one);
                    answers.wait(asking).await?.map(Row::Postgres)
                }
                Connection::Postgres(one) => {
                    let answers = one.answers();
                    let asking = self.postgres().fetch_optional(&mut **one);
                    answers.wait(asking).await?.map(Row::Postgres)
                }
            })
        })
    }

    /// Returns the rows of each statement of one call of SQLite.
    pub fn fetch_each<'c>(
        self,
        one: &'c mut SqliteConnection,
        trust: &'c Trust,
    ) -> Work<'c, Vec<Vec<Row>>> {
        Box::pin(async move {
            let mut steps = one.fetch_many(self.sqlite());
            let (mut found, mut rows) = (Vec::new(), Vec::new());
            while let Some(step) = steps.next().await {
                match step.map_err(|error| trust.record_loss(error))? {
                    Either::Left(_) => found.push(std::mem::take(&mut rows)),
                    Either::Right(row) => rows.push(Row::Sqlite(row)),
                }
            }
            Ok(found)
        })
    }

    /// Returns the one row of a statement that always has one; fails with `NoRow` otherwise.
    pub fn fetch_one<'c>(self, on: Connection<'c>) -> Work<'c, Row> {
        Box::pin(async move { self.fetch_optional(on).await?.ok_or(StoreError::NoRow) })
    }

    fn sqlite(self) -> Query<'static, Sqlite, SqliteArguments> {
        tracing::trace!(sql = &*self.text, "to SQLite");
        let mut query = sqlx::query(AssertSqlSafe(self.text)).persistent(self.prepared);
        for value in self.values {
            query = match value {
                Value::Integer(value) => query.bind(value),
                Value::Text(value) => query.bind(value),
                Value::Octets(value) => query.bind(value),
                Value::Uuid(value) => query.bind(value),
            };
        }
        query
    }

    fn postgres(self) -> Query<'static, Postgres, PgArguments> {
        let mut text = self.on_postgres.map_or(self.text, Cow::Borrowed);
        if let Some(clause) = self.locking {
            let text = text.to_mut();
            text.push(' ');
            text.push_str(clause);
        }
        tracing::trace!(sql = &*text, "to PostgreSQL");
        let mut query = sqlx::query(AssertSqlSafe(text)).persistent(self.prepared);
        for value in self.values {
            query = match value {
                Value::Integer(value) => query.bind(value),
                Value::Text(value) => query.bind(value),
                Value::Octets(value) => query.bind(value),
                Value::Uuid(value) => query.bind(value),
            };
        }
        for column in self.columns {
            query = match column {
                Column::Integers(values) => query.bind(values),
                Column::Texts(values) => query.bind(values),
                Column::Octets(values) => query.bind(values),
                Column::Uuids(values) => query.bind(values),
            };
        }
        query
    }
}

impl Row {
    pub fn get<T>(&self, column: &str) -> Result<T, sqlx::Error>
    where
        T: for<'r> Decode<'r, Sqlite> + Type<Sqlite>,
        T: for<'r> Decode<'r, Postgres> + Type<Postgres>,
    {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
        }
    }
}

/// Makes a value of each of these types.
macro_rules! values_from {
    ($($type:ty: |$value:ident| $made:expr;)+) => {
        $(impl From<$type> for Value {
            fn from($value: $type) -> Self {
                $made
            }
        })+
    };
}

values_from! {
    i64: |value| Self::Integer(Some(value));
    Option<i64>: |value| Self::Integer(value);
    Timestamp: |value| Self::Integer(Some(value.millis()));
    AccountId: |value| Self::Integer(Some(value.get()));
    Option<AccountId>: |value| Self::Integer(value.map(AccountId::get));
    String: |value| Self::Text(Some(without_nul(value)));
    Option<String>: |value| Self::Text(value.map(without_nul));
    &str: |value| value.to_owned().into();
    Option<&str>: |value| value.map(ToOwned::to_owned).into();
    &[u8]: |value| Self::Octets(Some(value.to_vec()));
    Option<&[u8]>: |value| Self::Octets(value.map(<[u8]>::to_vec));
    Uuid: |value| Self::Uuid(Some(value));
    Option<Uuid>: |value| Self::Uuid(value);
}

fn without_nul(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_numbered_as_values_come() {
        let mut statement = sql("SELECT ");
        statement.push_value(1).push(", ").push_value("two");
        assert_eq!(statement.text, "SELECT $1, $2");
        assert_eq!(statement.values.len(), 2);
    }

    #[test]
    fn text_holds_no_nul() {
        let Value::Text(Some(text)) = Value::from("a\0b") else { panic!("no text") };
        assert_eq!(text, "a\u{fffd}b");
    }
}
