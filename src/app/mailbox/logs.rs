//! The conversation log: pages of rows, and values as JSON or as cells of a table.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Mailbox;
use crate::domain::condition::LogFilter;
use crate::domain::log_field::{Kind, LogField, LogValue};
use crate::domain::scope::Scope;
use crate::store::{Cursor, LogRow, Page, StoreError};

/// The page of this number, counted from 1, if each page has `size` rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberedPage {
    pub number: u64,
    pub size: u32,
}

/// A page of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogPage {
    pub rows: Vec<LogRow>,
    /// Matching rows among those that were read.
    pub total: u64,
    /// Whether all rows of the requested time were read.
    pub complete: bool,
}

/// The start of a page of the log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogStart {
    /// `None` if the page lies behind the last matching row.
    pub page: Option<Page>,
    /// The last place to read; `None` if all rows of the time are read.
    pub until: Option<Cursor>,
}

impl Mailbox {
    /// Returns a page. Reads the newest `most` rows within the time of the filter, and none older.
    pub async fn log_page(
        &self,
        scope: &Scope,
        filter: &LogFilter,
        wanted: NumberedPage,
        fields: &[LogField],
        most: u32,
    ) -> Result<LogPage, StoreError> {
        let start = self.log_start(scope, filter, wanted, most).await?;
        let rows = match &start.page {
            Some(page) => self.store.logs(scope, filter, page, fields).await?,
            None => Vec::new(),
        };
        let found = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        // A first page that is not full has all rows.
        let total = if found < wanted.size && wanted.number <= 1 {
            found.into()
        } else {
            let whole = Page { limit: u32::MAX, from: None, until: start.until };
            self.store.count_logs(scope, filter, &whole).await?
        };
        Ok(LogPage { rows, total, complete: start.until.is_none() })
    }

    /// Returns the start of a page, and the end of what the request reads.
    pub async fn log_start(
        &self,
        scope: &Scope,
        filter: &LogFilter,
        wanted: NumberedPage,
        most: u32,
    ) -> Result<LogStart, StoreError> {
        let until = self.store.end_of_log(scope, filter.time(), most.saturating_add(1)).await?;
        let page = Page { limit: wanted.size, from: None, until };
        let skip = wanted.number.saturating_sub(1).saturating_mul(wanted.size.into());
        if skip == 0 {
            return Ok(LogStart { page: Some(page), until });
        }
        let place = self.store.log_place(scope, filter, until, skip).await?;
        Ok(LogStart { page: place.map(|place| page.behind(place)), until })
    }

    /// Returns the next rows of the log from `page` on.
    pub async fn logs(
        &self,
        scope: &Scope,
        filter: &LogFilter,
        page: &Page,
        fields: &[LogField],
    ) -> Result<Vec<LogRow>, StoreError> {
        self.store.logs(scope, filter, page, fields).await
    }
}

/// A row as JSON, with the requested fields by their names.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct LogRecord(Map<String, Value>);

impl LogRecord {
    pub fn of(row: &LogRow, fields: &[LogField]) -> Self {
        let named = fields.iter().zip(&row.values);
        Self(named.map(|(field, value)| (field.name().to_owned(), shown(value))).collect())
    }
}

impl JsonSchema for LogRecord {
    fn schema_name() -> Cow<'static, str> {
        "LogRow".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let schema = |field: &LogField| {
            let about = field.about();
            match field.kind() {
                Kind::Integer => json!({ "type": ["integer", "null"], "description": about }),
                Kind::Real => json!({ "type": ["number", "null"], "description": about }),
                Kind::Text => json!({ "type": ["string", "null"], "description": about }),
                Kind::Id => {
                    json!({ "type": ["string", "null"], "format": "uuid", "description": about })
                }
                Kind::Time => {
                    json!({ "type": ["string", "null"], "format": "date-time", "description": about })
                }
                Kind::Unfilled => json!({ "type": "null", "description": about }),
            }
        };
        let all = LogField::ALL.iter().map(|field| (field.name().to_owned(), schema(field)));
        json_schema!({
            "type": "object", "properties": all.collect::<Map<_, _>>(),
            "description": "A row, with the fields that were asked for.",
        })
    }
}

fn shown(value: &LogValue) -> Value {
    match value {
        LogValue::Null => Value::Null,
        LogValue::Integer(number) => (*number).into(),
        LogValue::Real(number) => as_number(*number),
        LogValue::Text(text) => text.as_str().into(),
        LogValue::Id(id) => id.to_string().into(),
        LogValue::Time(at) => at.to_string().into(),
    }
}

/// Writes a number as JSON; a whole one has no fraction.
pub fn as_number(number: f64) -> Value {
    serde_json::from_str(&number.to_string()).unwrap_or(Value::Null)
}

/// Writes a value as a cell of a table; null is an empty one. A spreadsheet would run a text that
/// begins like a formula. The cell gets an apostrophe in front, which marks it as text (threats D:
/// what strangers write is shown to people).
pub fn cell(value: &LogValue) -> String {
    match value {
        LogValue::Null => String::new(),
        LogValue::Text(text) if text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) => {
            format!("'{text}")
        }
        LogValue::Integer(number) => number.to_string(),
        LogValue::Real(number) => number.to_string(),
        LogValue::Text(text) => text.clone(),
        LogValue::Id(id) => id.to_string(),
        LogValue::Time(at) => at.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_begins_like_a_formula() {
        for text in ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "\n=1"] {
            let shown = cell(&LogValue::Text(text.into()));
            assert_eq!(shown, format!("'{text}"));
        }
        for text in ["", "a=1", "'", " =1"] {
            assert_eq!(cell(&LogValue::Text(text.into())), text);
        }
        assert_eq!(cell(&LogValue::Integer(-1)), "-1");
        assert_eq!(cell(&LogValue::Null), "");
    }

    #[test]
    fn whole_numbers_have_no_fraction() {
        for (number, shown) in [(3.0, "3"), (0.5, "0.5"), (-2.0, "-2"), (f64::NAN, "null")] {
            assert_eq!(as_number(number).to_string(), shown);
        }
    }
}
