//! `[{name: value}, …]`: the headers that webhooks and relays are sent with, as v2 writes them.

use serde_json::Value;

use crate::http::call::Call;
use crate::http::error::Problem;

/// Names and values; `None` where there is no such field. `example` is a name and its text, with the
/// quotation marks between them.
pub(super) fn read(call: &Call, example: &str) -> Result<Option<Vec<(String, String)>>, Problem> {
    let Some(value) = call.body().get("headers") else { return Ok(None) };
    let items = value.as_array().ok_or_else(|| {
        Problem::invalid(format!("headers must be an array, such as [{{\"{example}\"}}]"))
    })?;
    let field = |(at, item): (usize, &Value)| {
        single(item).ok_or_else(|| {
            Problem::invalid(format!(
                "headers[{at}] must be an object of one name and its text, such as \
                 {{\"{example}\"}}"
            ))
        })
    };
    items.iter().enumerate().map(field).collect::<Result<_, _>>().map(Some)
}

fn single(item: &Value) -> Option<(String, String)> {
    let mut fields = item.as_object()?.iter();
    match (fields.next(), fields.next()) {
        (Some((name, Value::String(value))), None) => Some((name.clone(), value.clone())),
        _ => None,
    }
}
