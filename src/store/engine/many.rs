//! Statements about many rows at once: `{rows}` in their text stands for a table of values.
//!
//! What a batch costs is the number of calls, not of rows. PostgreSQL takes each column as one
//! array, so that one prepared statement serves any number of rows. SQLite has no arrays: it gets
//! the rows in pieces whose sizes are powers of two, so that a handful of prepared statements
//! serves any number.

use std::borrow::Cow;

use super::error::StoreError;
use super::sql::{Column, Connection, Row, Statement, Value};

/// The largest piece for SQLite: more placeholders gain nothing.
const PIECE: usize = 128;
/// Placeholders of one statement of SQLite (SQLITE_MAX_VARIABLE_NUMBER is 32,766).
const PLACEHOLDERS: usize = 30_000;
/// Rows of one statement of PostgreSQL, so that each ends within its time.
const ARRAY: usize = 5_000;
/// Stands for the rows in a statement's text.
const ROWS: &str = "{rows}";

/// A statement and its rows. With no rows it is not run at all.
pub struct Many {
    text: Cow<'static, str>,
    locking: Option<&'static str>,
    values: Vec<Value>,
    rows: Vec<Vec<Value>>,
}

/// A statement whose text has `{rows}` where its rows go, once: `WITH given (a, b) AS ({rows}) …`.
/// Rows that lock something come in one order for all transactions.
pub fn many(text: impl Into<Cow<'static, str>>, rows: Vec<Vec<Value>>) -> Many {
    Many { text: text.into(), locking: None, values: Vec::new(), rows }
}

impl Many {
    /// The value of the next placeholder; these are counted before the rows.
    pub(in crate::store) fn bind(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        self
    }

    /// The order and the row locks that PostgreSQL takes.
    pub(in crate::store) const fn locking(mut self, clause: &'static str) -> Self {
        self.locking = Some(clause);
        self
    }

    /// How many rows it changed.
    pub(in crate::store) async fn execute(self, mut on: Connection<'_>) -> Result<u64, StoreError> {
        let mut changed = 0;
        for statement in self.statements(on.is_postgres()) {
            changed += statement.execute(on.again()).await?;
        }
        Ok(changed)
    }

    /// All rows that it answers, in no particular order.
    pub(in crate::store) async fn fetch_all(
        self,
        mut on: Connection<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let mut found = Vec::new();
        for statement in self.statements(on.is_postgres()) {
            found.append(&mut statement.fetch_all(on.again()).await?);
        }
        Ok(found)
    }

    fn statements(self, postgres: bool) -> Vec<Statement> {
        let Some(width) = self.rows.first().map(Vec::len) else { return Vec::new() };
        if postgres {
            return self.with_arrays();
        }
        let most = (PLACEHOLDERS / width.max(1)).clamp(1, PIECE);
        let mut statements = Vec::new();
        let mut rows = self.rows.into_iter();
        while rows.len() > 0 {
            let piece = 1 << rows.len().min(most).ilog2();
            let mut text = self.text.replacen(ROWS, &tuples(piece, width), 1);
            // The other values come behind those of the rows.
            for number in 1..=self.values.len() {
                let place = piece * width + number;
                text = text.replace(&format!("${number}"), &format!("?{place}"));
            }
            let values = rows.by_ref().take(piece).flatten().chain(self.values.iter().cloned());
            statements.push(values.fold(Statement::of(text.into()), Statement::bind));
        }
        statements
    }

    fn with_arrays(self) -> Vec<Statement> {
        let mut statements = Vec::new();
        let mut rows = self.rows.into_iter().peekable();
        while let Some(first) = rows.peek() {
            let mut columns: Vec<Column> = first.iter().map(Column::like).collect();
            for row in rows.by_ref().take(ARRAY) {
                columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
            }
            let first = self.values.len() + 1;
            let arrays: Vec<String> = columns
                .iter()
                .zip(first..)
                .map(|(column, number)| format!("CAST(${number} AS {}[])", column.kind()))
                .collect();
            let unnested = format!("SELECT * FROM UNNEST({})", arrays.join(", "));
            let mut statement = Statement::of(self.text.replacen(ROWS, &unnested, 1).into());
            if let Some(clause) = self.locking {
                statement = statement.locking(clause);
            }
            let values = self.values.iter().cloned();
            statements.push(values.fold(statement, Statement::bind).with_columns(columns));
        }
        statements
    }
}

/// `VALUES (?, ?), (?, ?)`. Without names: SQLite looks through all names of a statement for each,
/// which takes milliseconds when there are thousands.
fn tuples(rows: usize, width: usize) -> String {
    let row = format!("({})", vec!["?"; width].join(", "));
    format!("VALUES {}", vec![row; rows].join(", "))
}

impl Column {
    /// An empty column for values of this kind.
    const fn like(value: &Value) -> Self {
        match value {
            Value::Integer(_) => Self::Integers(Vec::new()),
            Value::Text(_) => Self::Texts(Vec::new()),
            Value::Octets(_) => Self::Octets(Vec::new()),
            Value::Uuid(_) => Self::Uuids(Vec::new()),
        }
    }

    /// A value of another kind than the first row's has no place in the column: it is null, which
    /// the database refuses where it matters.
    fn push(&mut self, value: Value) {
        match (self, value) {
            (Self::Integers(values), Value::Integer(value)) => values.push(value),
            (Self::Texts(values), Value::Text(value)) => values.push(value),
            (Self::Octets(values), Value::Octets(value)) => values.push(value),
            (Self::Uuids(values), Value::Uuid(value)) => values.push(value),
            (Self::Integers(values), _) => values.push(None),
            (Self::Texts(values), _) => values.push(None),
            (Self::Octets(values), _) => values.push(None),
            (Self::Uuids(values), _) => values.push(None),
        }
    }

    const fn kind(&self) -> &'static str {
        match self {
            Self::Integers(_) => "BIGINT",
            Self::Texts(_) => "TEXT",
            Self::Octets(_) => "BYTEA",
            Self::Uuids(_) => "UUID",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: i64) -> Vec<Vec<Value>> {
        (0..count).map(|number| vec![number.into(), "text".into()]).collect()
    }

    #[test]
    fn sqlite_gets_pieces_of_powers_of_two() {
        let pieces = |count| many("{rows}", rows(count)).statements(false).len();
        assert_eq!(pieces(0), 0);
        assert_eq!(pieces(1), 1);
        assert_eq!(pieces(128), 1);
        assert_eq!(pieces(200), 3);
        assert_eq!(pieces(255), 8);
        assert_eq!(pieces(256), 2);
        assert_eq!(tuples(2, 2), "VALUES (?, ?), (?, ?)");
    }

    #[test]
    fn postgres_gets_one_statement_of_arrays() {
        assert_eq!(many("{rows}", rows(300)).statements(true).len(), 1);
        assert_eq!(many("{rows}", rows(10_001)).statements(true).len(), 3);
        assert!(many("{rows}", rows(0)).statements(true).is_empty());
    }
}
