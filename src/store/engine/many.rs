//! Statements about many rows at once: `{rows}` in their text stands for a table of values.
//!
//! A batch costs its calls, not its rows. PostgreSQL takes each column as one array, so one
//! prepared statement serves any number of rows. SQLite has no arrays: rows are padded to the next
//! power of two, and LIMIT stops behind the real ones, so a few prepared statements serve any
//! number.

use std::borrow::Cow;

use super::error::StoreError;
use super::sql::{Column, Connection, Row, Statement, Value};

/// Most rows of one statement of SQLite: more gain nothing.
const PIECE: usize = 128;
/// Most placeholders of one statement of SQLite (SQLITE_MAX_VARIABLE_NUMBER is 32,766).
const PLACEHOLDERS: usize = 30_000;
/// Most rows of one statement of PostgreSQL, so that each ends within its time limit.
const ARRAY: usize = 5_000;
const ROWS: &str = "{rows}";

/// A statement and its rows. Without rows it is not run; with many it is run in pieces, which
/// outside of a transaction are several.
pub struct Many {
    text: Cow<'static, str>,
    locking: Option<&'static str>,
    values: Vec<Value>,
    rows: Vec<Vec<Value>>,
}

/// Makes a statement whose text has `{rows}` once: `WITH given (a, b) AS ({rows}) …`. Rows that
/// lock something must come in one order in all transactions, or they deadlock.
pub fn many(text: impl Into<Cow<'static, str>>, rows: Vec<Vec<Value>>) -> Many {
    Many { text: text.into(), locking: None, values: Vec::new(), rows }
}

impl Many {
    /// Binds the value of the next placeholder; placeholders are numbered before the rows.
    pub fn bind(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        self
    }

    /// Appends the order and the row locks, on PostgreSQL only.
    pub const fn locking(mut self, clause: &'static str) -> Self {
        self.locking = Some(clause);
        self
    }

    /// Returns the number of rows changed.
    pub async fn execute(self, mut on: Connection<'_>) -> Result<u64, StoreError> {
        let mut changed = 0;
        for statement in self.statements(on.is_postgres()) {
            changed += statement.execute(on.again()).await?;
        }
        Ok(changed)
    }

    /// Returns all rows, in no particular order.
    pub async fn fetch_all(self, mut on: Connection<'_>) -> Result<Vec<Row>, StoreError> {
        let mut found = Vec::new();
        for statement in self.statements(on.is_postgres()) {
            found.append(&mut statement.fetch_all(on.again()).await?);
        }
        Ok(found)
    }

    /// Asks all, in their order: in one call of SQLite, unless one of them has too many rows. Returns
    /// the rows of each, in no particular order.
    pub(in crate::store) async fn fetch_each<const N: usize>(
        all: [Self; N],
        mut on: Connection<'_>,
    ) -> Result<[Vec<Row>; N], StoreError> {
        let mut found = [const { Vec::new() }; N];
        let fits = all.iter().all(|one| one.rows.len() <= one.most());
        if let (Connection::Sqlite(one, trust), true) = (on.again(), fits) {
            let (places, parts): (Vec<_>, Vec<_>) =
                found.iter_mut().zip(all).filter(|(_, one)| !one.rows.is_empty()).unzip();
            if !parts.is_empty() {
                let rows = of_rows(parts).fetch_each(one, trust).await?;
                places.into_iter().zip(rows).for_each(|(place, rows)| *place = rows);
            }
            return Ok(found);
        }
        for (place, one) in found.iter_mut().zip(all) {
            *place = one.fetch_all(on.again()).await?;
        }
        Ok(found)
    }

    fn statements(self, postgres: bool) -> Vec<Statement> {
        let most = if postgres { ARRAY } else { self.most() };
        self.pieces(most).into_iter().map(|piece| one_call(vec![piece], postgres)).collect()
    }

    /// Returns how many rows fit into one statement of SQLite.
    fn most(&self) -> usize {
        let width = self.rows.first().map_or(1, Vec::len);
        (PLACEHOLDERS / width.max(1)).clamp(1, PIECE)
    }

    /// Splits the rows into statements of at most `most` each.
    fn pieces(mut self, most: usize) -> Vec<Self> {
        let mut pieces = Vec::new();
        while self.rows.len() > most {
            let rest = self.rows.split_off(most);
            let rows = std::mem::replace(&mut self.rows, rest);
            let (text, values) = (self.text.clone(), self.values.clone());
            pieces.push(Self { text, locking: self.locking, values, rows });
        }
        if !self.rows.is_empty() {
            pieces.push(self);
        }
        pieces
    }
}

/// Merges writing statements into one call, unless one of them has too many rows. Their results are
/// not returned. On PostgreSQL none of them sees the rows that another writes.
pub fn together(mut all: Vec<Many>, postgres: bool) -> Vec<Statement> {
    all.retain(|one| !one.rows.is_empty());
    let fits = |one: &Many| one.rows.len() <= if postgres { ARRAY } else { one.most() };
    match all.iter().all(fits) {
        _ if all.is_empty() => Vec::new(),
        true => vec![one_call(all, postgres)],
        false => all.into_iter().flat_map(|one| one.statements(postgres)).collect(),
    }
}

fn one_call(parts: Vec<Many>, postgres: bool) -> Statement {
    if postgres { of_arrays(parts) } else { of_rows(parts) }
}

/// Makes one call of SQLite: the statements in sequence, all padded to one number of rows. So there
/// is a text for each power of two, and not for each mixture of sizes.
fn of_rows(parts: Vec<Many>) -> Statement {
    let most = parts.iter().map(|one| one.rows.len()).max().unwrap_or(0);
    let size = most.next_power_of_two();
    let (mut texts, mut values) = (Vec::with_capacity(parts.len()), Vec::new());
    for Many { text, values: others, rows, .. } in parts {
        let (before, behind) = text.split_once(ROWS).unwrap_or((&text, ""));
        let (count, width) = (rows.len(), rows.first().map_or(0, Vec::len));
        // A placeholder without a number is the next one, also in the next statement of a call.
        let put = |text: &str, values: &mut Vec<Value>| {
            with_placeholders(text, |number| {
                values.extend(others.get(number.wrapping_sub(1)).cloned());
                "?".to_owned()
            })
        };
        let before = put(before, &mut values);
        values.extend(rows.into_iter().flatten());
        values.resize(values.len() + (size - count) * width, Value::Integer(None));
        values.push(i64::try_from(count).unwrap_or(i64::MAX).into());
        let behind = put(behind, &mut values);
        texts.push(format!("{before}{}{behind}", tuples(size, width)));
    }
    values.into_iter().fold(Statement::of(texts.join(";\n").into()), Statement::bind)
}

/// Makes one statement of PostgreSQL; several become its parts (`WITH`).
fn of_arrays(parts: Vec<Many>) -> Statement {
    let several = parts.len() > 1;
    let mut columns: Vec<Column> = Vec::new();
    let all: usize = parts.iter().map(|one| one.values.len()).sum();
    let (mut texts, mut values) = (Vec::with_capacity(parts.len()), Vec::with_capacity(all));
    for Many { text, locking, values: others, rows } in parts {
        let text = with_placeholders(&text, |number| format!("${}", values.len() + number));
        let mut own: Vec<Column> = rows.first().into_iter().flatten().map(Column::like).collect();
        for row in rows {
            own.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
        let first = all + columns.len() + 1;
        let arrays: Vec<String> = own
            .iter()
            .zip(first..)
            .map(|(column, number)| format!("CAST(${number} AS {}[])", column.kind()))
            .collect();
        let unnested = format!("SELECT * FROM UNNEST({})", arrays.join(", "));
        let locked = locking.map(|clause| format!(" {clause}")).unwrap_or_default();
        texts.push(text.replacen(ROWS, &unnested, 1) + &locked);
        values.extend(others);
        columns.extend(own);
    }
    let text = if several {
        let named = texts.iter().zip(1..).map(|(text, number)| format!("part{number} AS ({text})"));
        format!("WITH {} SELECT 1", named.collect::<Vec<_>>().join(", "))
    } else {
        texts.concat()
    };
    values.into_iter().fold(Statement::of(text.into()), Statement::bind).with_columns(columns)
}

/// Replaces each `$n` in the text by `of(n)`; any other `$` stays.
fn with_placeholders(text: &str, mut of: impl FnMut(usize) -> String) -> String {
    let mut parts = text.split('$');
    let mut put = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = part.split_at(digits);
        match number.parse() {
            Ok(number) => put.push_str(&of(number)),
            Err(_) => put.push('$'),
        }
        put.push_str(rest);
    }
    put
}

/// Returns `SELECT * FROM (VALUES (?, ?), (?, ?)) LIMIT 0 + ?`. No placeholder has a name: SQLite
/// compares each name with all others, which takes milliseconds for thousands. Behind LIMIT, SQLite
/// would plan the statement anew for each value of a bare `?`.
fn tuples(rows: usize, width: usize) -> String {
    let row = format!("({})", vec!["?"; width].join(", "));
    format!("SELECT * FROM (VALUES {}) LIMIT 0 + ?", vec![row; rows].join(", "))
}

impl Column {
    const fn like(value: &Value) -> Self {
        match value {
            Value::Integer(_) => Self::Integers(Vec::new()),
            Value::Text(_) => Self::Texts(Vec::new()),
            Value::Octets(_) => Self::Octets(Vec::new()),
            Value::Uuid(_) => Self::Uuids(Vec::new()),
        }
    }

    /// Appends a value, or null if it is not of the column's kind; the database may refuse that.
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

    fn calls(count: i64, postgres: bool) -> Vec<Statement> {
        many("{rows}", rows(count)).statements(postgres)
    }

    #[test]
    fn sqlite_gets_as_many_rows_as_the_next_power_of_two_has() {
        let sizes = [(0, 0), (1, 1), (3, 1), (128, 1), (129, 2), (200, 2), (257, 3)];
        for (count, wanted) in sizes {
            assert_eq!(calls(count, false).len(), wanted, "{count} rows");
        }
        let text = |count| calls(count, false)[0].text().to_owned();
        assert_eq!(text(2), "SELECT * FROM (VALUES (?, ?), (?, ?)) LIMIT 0 + ?");
        assert_eq!(text(5), text(8));
    }

    #[test]
    fn postgres_gets_one_statement_of_arrays() {
        assert_eq!(calls(300, true).len(), 1);
        assert_eq!(calls(10_001, true).len(), 3);
        assert!(calls(0, true).is_empty());
    }

    #[test]
    fn statements_that_only_write_are_one_call() {
        let parts = || {
            let first = many("INSERT INTO one {rows} ON CONFLICT DO UPDATE SET a = $1", rows(3));
            let second = many("DELETE FROM two WHERE $2 > $1 AND two IN ({rows})", rows(1));
            vec![first.bind(7), many("INSERT INTO none {rows}", rows(0)), second.bind(8).bind(9)]
        };
        let [one] = &together(parts(), false)[..] else { panic!("not one call") };
        let four = "SELECT * FROM (VALUES (?, ?), (?, ?), (?, ?), (?, ?)) LIMIT 0 + ?";
        assert_eq!(
            one.text(),
            format!(
                "INSERT INTO one {four} ON CONFLICT DO UPDATE SET a = ?;\n\
                 DELETE FROM two WHERE ? > ? AND two IN ({four})"
            )
        );
        let [one] = &together(parts(), true)[..] else { panic!("not one call") };
        let from = |first| {
            let second = first + 1;
            format!("SELECT * FROM UNNEST(CAST(${first} AS BIGINT[]), CAST(${second} AS TEXT[]))")
        };
        assert_eq!(
            one.text(),
            format!(
                "WITH part1 AS (INSERT INTO one {} ON CONFLICT DO UPDATE SET a = $1), \
                 part2 AS (DELETE FROM two WHERE $3 > $2 AND two IN ({})) SELECT 1",
                from(4),
                from(6)
            )
        );
        let many_rows = vec![many("{rows}", rows(2)), many("{rows}", rows(300))];
        assert_eq!(together(many_rows, false).len(), 4);
        assert!(together(Vec::new(), true).is_empty());
    }

    #[test]
    fn each_statement_of_a_call_keeps_its_own_locks() {
        let part = |clause| many("INSERT INTO one {rows}", rows(1)).locking(clause);
        let parts = || vec![part("FOR SHARE"), part("FOR UPDATE"), many("DELETE {rows}", rows(1))];
        let [one] = &together(parts(), true)[..] else { panic!("not one call") };
        for locked in [" FOR SHARE), part2 AS", " FOR UPDATE), part3 AS", "[]))) SELECT 1"] {
            assert!(one.text().contains(locked), "{}", one.text());
        }
        let [one] = &together(parts(), false)[..] else { panic!("not one call") };
        assert!(!one.text().contains(" FOR "), "SQLite has no locks: {}", one.text());
    }
}
