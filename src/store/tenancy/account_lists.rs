//! Lists of accounts of one level in a scope, the oldest first. A request reads a bounded number of
//! rows, however many its filter leaves out.

use super::accounts::{account, select};
use crate::domain::account::{Account, AccountType};
use crate::domain::clock::Timestamp;
use crate::domain::id::AccountId;
use crate::domain::scope::Scope;
use crate::store::base::Base;
use crate::store::base::page::within;
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Statement, sql};

/// Conditions on the accounts of a list; absent fields match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountFilter {
    pub active: Option<bool>,
    /// Part of the name, without regard to ASCII case.
    pub text: Option<String>,
    /// Created at this time or later.
    pub since: Option<Timestamp>,
    /// Created before this time.
    pub before: Option<Timestamp>,
    pub external_id: Option<String>,
    /// `productPlanId` in the details.
    pub plan: Option<String>,
    /// `externalBillingId` in the details.
    pub billing: Option<String>,
    /// `servicePremium` in the details; an account without it is not subscribed.
    pub subscribed: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountPage {
    /// Only accounts behind this one.
    pub after: Option<AccountId>,
    /// Matching accounts to pass over.
    pub skip: u32,
    pub limit: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountList {
    pub accounts: Vec<Account>,
    /// The number of matching accounts among those read.
    pub total: u64,
    /// The account behind which the next page begins; None on the last page.
    pub next: Option<AccountId>,
}

impl Base {
    /// Returns a page of the accounts of level `kind` in `scope`. Reads at most `most` accounts.
    pub async fn list_accounts(
        &self,
        scope: &Scope,
        kind: AccountType,
        filter: &AccountFilter,
        page: AccountPage,
        most: u32,
    ) -> Result<AccountList, StoreError> {
        let postgres = self.reader().is_postgres();
        // Appends the statement that reads the first `most` accounts of an index range.
        let walk = |query: &mut Statement| {
            query.push(select("AND kind = ").text()).push_value(kind.as_str()).push(" AND ");
            within(query, scope);
            if let Some(permitted) = scope.permitted().filter(|permitted| !permitted.is_empty()) {
                // By primary key, because the index of the range would read all other Agents, too.
                let ids: Vec<String> = permitted.iter().map(|id| id.get().to_string()).collect();
                query.push(" AND id IN (").push(&ids.join(", ")).push(")");
            }
            query.push(" AND id > ").push_value(page.after.map_or(0, AccountId::get));
            query.push(" ORDER BY id LIMIT ").push_value(i64::from(most));
        };
        let mut query = sql("SELECT COUNT(*) AS walked, MAX(id) AS last, COUNT(CASE WHEN ");
        push_filter(&mut query, filter, postgres);
        query.push(" THEN 1 END) AS total FROM (");
        walk(&mut query);
        query.push(") AS walked");
        let row = query.fetch_one(self.reader()).await?;
        let columns = Columns { table: "accounts", row: &row };
        let (walked, total) = (columns.count("walked")?, columns.count("total")?);
        let last = columns.optional_account("last")?;

        let mut query = sql("SELECT * FROM (");
        walk(&mut query);
        query.push(") AS walked WHERE ");
        push_filter(&mut query, filter, postgres);
        query.push(" ORDER BY id LIMIT ").push_value(i64::from(page.limit));
        query.push(" OFFSET ").push_value(i64::from(page.skip));
        let rows = query.fetch_all(self.reader()).await?;
        let accounts: Vec<Account> = rows.iter().map(account).collect::<Result<_, _>>()?;
        let shown = accounts.len() as u64 + u64::from(page.skip);
        let next = match accounts.last() {
            Some(account) if shown < total => Some(account.id),
            _ => last.filter(|_| walked >= u64::from(most)),
        };
        Ok(AccountList { accounts, total, next })
    }

    /// Returns up to `limit` accounts in `scope` with this external id.
    pub async fn accounts_by_external_id(
        &self,
        scope: &Scope,
        external_id: &str,
        limit: u32,
    ) -> Result<Vec<Account>, StoreError> {
        let mut query = select("AND external_id = $1 AND ").bind(external_id);
        within(&mut query, scope);
        query.push(" ORDER BY id LIMIT ").push_value(i64::from(limit));
        let rows = query.fetch_all(self.reader()).await?;
        rows.iter().map(account).collect()
    }
}

fn push_filter(query: &mut Statement, filter: &AccountFilter, postgres: bool) {
    query.push("1 = 1");
    if let Some(active) = filter.active {
        query.push(" AND active = ").push_value(i64::from(active));
    }
    if let Some(text) = &filter.text {
        query.push(" AND lower(name) LIKE ").push_value(like_pattern(text)).push(" ESCAPE '!'");
    }
    if let Some(since) = filter.since {
        query.push(" AND created_at >= ").push_value(since);
    }
    if let Some(before) = filter.before {
        query.push(" AND created_at < ").push_value(before);
    }
    if let Some(external_id) = &filter.external_id {
        query.push(" AND external_id = ").push_value(external_id.as_str());
    }
    for (name, wanted) in [("productPlanId", &filter.plan), ("externalBillingId", &filter.billing)]
    {
        if let Some(wanted) = wanted {
            query.push(" AND ").push(&detail(name, postgres)).push(" = ");
            query.push_value(wanted.as_str());
        }
    }
    if let Some(subscribed) = filter.subscribed {
        let yes = if postgres { "'true'" } else { "1" };
        query.push(" AND CASE WHEN ").push(&detail("servicePremium", postgres)).push(" = ");
        query.push(yes).push(" THEN 1 ELSE 0 END = ").push_value(i64::from(subscribed));
    }
}

/// The SQL of a field in the details. `name` is a constant, never user input.
fn detail(name: &'static str, postgres: bool) -> String {
    if postgres {
        format!("CAST(details AS JSON) ->> '{name}'")
    } else {
        format!("json_extract(details, '$.{name}')")
    }
}

/// Returns the LIKE pattern for this text anywhere in a value.
fn like_pattern(text: &str) -> String {
    let text = text.to_ascii_lowercase().replace('!', "!!");
    format!("%{}%", text.replace('%', "!%").replace('_', "!_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_for_stands_for_itself() {
        assert_eq!(like_pattern("50%_Off!"), "%50!%!_off!!%");
    }
}
