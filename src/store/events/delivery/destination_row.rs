//! Conversion of destinations from and to rows, and to entries of the audit log.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::health::health;
use crate::domain::audit::{Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::destination::{CustomHeader, Destination, Disabled, FormerSecret, Wants};
use crate::domain::id::DestinationId;
use crate::domain::secret::Secret;
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Row, Statement};
use crate::store::tenancy::audit::Note;

/// The columns that [`destination`] reads, and `removed_at`; unambiguous in a join.
pub const COLUMNS: &str = "destinations.id, account_id, url, category, label, secret,
     destinations.created_at, removed_at, ordered, payload, headers, former_secrets,
     secret_rotated_at, disabled_at, disabled_reason, failures, failing_since, last_failure_at,
     rests_until";

/// Selects destinations. Names the columns: see `accounts::select`.
pub fn select(rest: &'static str) -> Statement {
    Statement::of(format!("SELECT {COLUMNS} FROM destinations {rest}").into())
}

pub fn destination(row: &Row) -> Result<Destination, StoreError> {
    let columns = Columns { table: "destinations", row };
    Ok(Destination {
        id: DestinationId(columns.uuid("id")?),
        account: columns.account("account_id")?,
        url: columns.word("url")?,
        category: columns.word("category")?,
        label: columns.text("label")?,
        wants: Wants {
            ordered: columns.flag("ordered")?,
            payload: columns.word("payload")?,
            headers: read_headers(&columns)?,
        },
        secret: Secret::new(columns.bytes("secret")?),
        secret_rotated_at: columns.optional_time("secret_rotated_at")?,
        former_secrets: read_former_secrets(&columns)?,
        disabled: match columns.optional_time("disabled_at")? {
            Some(at) => Some(Disabled { at, reason: columns.text("disabled_reason")? }),
            None => None,
        },
        health: health(row)?,
        created_at: columns.time("created_at")?,
    })
}

/// Makes an entry of the audit log about a change of this destination.
pub fn note_about<'a>(destination: &Destination, deed: Deed, changes: &'a [Change]) -> Note<'a> {
    Note { account: destination.account, deed, object: destination.id.to_string(), changes }
}

/// Returns the stored form of custom headers. Their values are always text.
pub fn headers(headers: &[CustomHeader]) -> String {
    let pair = |header: &CustomHeader| {
        json!([header.name, String::from_utf8_lossy(header.value.expose())])
    };
    headers.iter().map(pair).collect::<serde_json::Value>().to_string()
}

pub fn former_secrets(former: &[FormerSecret]) -> String {
    let pair =
        |one: &FormerSecret| json!([STANDARD.encode(one.secret.expose()), one.until.millis()]);
    former.iter().map(pair).collect::<serde_json::Value>().to_string()
}

fn read_headers(columns: &Columns<'_>) -> Result<Vec<CustomHeader>, StoreError> {
    let pairs: Vec<(String, String)> = columns.json("headers")?;
    let header = |(name, value): (String, String)| CustomHeader { name, value: Secret::new(value) };
    Ok(pairs.into_iter().map(header).collect())
}

pub fn read_former_secrets(columns: &Columns<'_>) -> Result<Vec<FormerSecret>, StoreError> {
    let pairs: Vec<(String, i64)> = columns.json("former_secrets")?;
    let former = |(secret, until): (String, i64)| {
        let secret = STANDARD.decode(secret).map_err(|error| columns.corrupt(error))?;
        Ok(FormerSecret { secret: Secret::new(secret), until: Timestamp::from_millis(until) })
    };
    pairs.into_iter().map(former).collect()
}
