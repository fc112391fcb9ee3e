//! Lists and records of the reading commands: scope, page and output.

use std::sync::Arc;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use serde::Serialize;
use serde_json::Value;

use super::account_name::AccountName;
use super::global_args::GlobalArgs;
use super::{Failure, plain, print_json};
use crate::app::access::Access;
use crate::app::mailbox::Mailbox;
use crate::app::tenancy::Tenancy;
use crate::domain::account::{Account, AccountType};
use crate::domain::scope::Scope;
use crate::run;
use crate::store::{Cursor, Direction, Page, Store, StoreError};

/// Selects the rows of a list.
#[derive(Args, Debug)]
pub(super) struct Rows {
    /// The account whose rows are shown, with those of all below it [default: all accounts]
    pub account: Option<AccountName>,
    /// Most rows to show
    // All rows are in memory at once.
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = RangedU64ValueParser::<u32>::new().range(1..=500))]
    pub limit: u32,
}

impl Rows {
    /// The newest rows, or those before a cursor.
    pub fn page(&self, before: Option<Cursor>) -> Page {
        let from = before.map(|place| (Direction::Before, place));
        Page { limit: self.limit, from, until: None }
    }
}

/// Opens the mailbox, with the scope of an account and all below it.
pub(super) async fn mailbox(
    global: &GlobalArgs,
    account: Option<&AccountName>,
) -> Result<(Mailbox, Scope), Failure> {
    let store = global.open().await?;
    let scope = scope(global, &store, account).await?;
    Ok((Mailbox::new(store), scope))
}

/// The scope of an account and all below it; without a name, of all accounts.
pub(super) async fn scope(
    global: &GlobalArgs,
    store: &Store,
    account: Option<&AccountName>,
) -> Result<Scope, Failure> {
    let account = match account {
        Some(name) => {
            let rules = Arc::new(global.rules()?.access);
            name.account(&Tenancy::new(store.clone(), run::system_mint(), rules)).await?
        }
        None => partner(store).await?.ok_or("the store has no accounts: run `gatepost init`")?,
    };
    Ok(Access::of_operator(&account))
}

/// The account above all others; None if there are no accounts.
pub(super) async fn partner(store: &Store) -> Result<Option<Account>, StoreError> {
    Ok(store.accounts(Some(AccountType::Partner)).await?.into_iter().next())
}

/// Prints one line per record; with `--json`, an array of API records.
pub(super) fn print_all(
    global: &GlobalArgs,
    records: impl Iterator<Item = impl Serialize>,
    line: impl Fn(&Value) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let shown = records.map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?;
    match global.json {
        true => print_json(&Value::from(shown)),
        false => shown.iter().try_for_each(line),
    }
}

/// Prints a record; with `--json`, the API record.
pub(super) fn print_one(
    global: &GlobalArgs,
    record: impl Serialize,
    show: impl Fn(&Value) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let shown = serde_json::to_value(record)?;
    if global.json { print_json(&shown) } else { show(&shown) }
}

/// The text at a JSON Pointer (RFC 6901), made safe for a terminal; a dash if there is none.
pub(super) fn text(record: &Value, place: &str) -> String {
    let text = record.pointer(place).and_then(Value::as_str).filter(|text| !text.is_empty());
    plain::lines(text.unwrap_or("-"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_place_without_a_text_is_a_dash() {
        let record = json!({ "a": { "b": "x\u{1b}y" }, "c": "", "d": 1 });
        assert_eq!(text(&record, "/a/b"), "x\u{fffd}y");
        for place in ["/c", "/d", "/e"] {
            assert_eq!(text(&record, place), "-");
        }
    }
}
