//! Mail domains and the accounts that they belong to.

use super::audit::{self, Note};
use super::db::{Store, Transaction};
use super::directory;
use super::error::StoreError;
use super::row::Columns;
use super::sql::sql;
use crate::domain::audit::{Act, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::domain_name::DomainName;
use crate::domain::id::AccountId;

impl Store {
    /// Gives `domain` to `account` unless somebody has it; answers who has it now.
    pub async fn claim_domain(
        &self,
        domain: &DomainName,
        account: AccountId,
        act: Act<'_>,
    ) -> Result<AccountId, StoreError> {
        let mut tx = self.begin().await?;
        let new = insert(&mut tx, domain, account, act.at).await?;
        let owner = owner(&mut tx, domain, "FOR KEY SHARE").await?.unwrap_or(account);
        if new {
            let object = domain.to_string();
            let added = Note { account, deed: Deed::DomainAdded, object, changes: &[] };
            audit::note(&mut tx, self.mint(), act, added).await?;
            directory::changed(&mut tx).await?;
        }
        tx.commit().await?;
        Ok(owner)
    }

    /// The account that a domain belongs to.
    pub async fn domain_owner(&self, domain: &DomainName) -> Result<Option<AccountId>, StoreError> {
        let row = sql("SELECT account_id FROM domains WHERE name = $1")
            .bind(domain.as_str())
            .fetch_optional(self.reader())
            .await?;
        row.map(|row| Columns { table: "domains", row: &row }.account("account_id")).transpose()
    }

    /// The domains of one account, or all, by name.
    pub async fn domains(
        &self,
        account: Option<AccountId>,
    ) -> Result<Vec<(DomainName, AccountId)>, StoreError> {
        let query = match account {
            None => sql("SELECT name, account_id FROM domains ORDER BY name"),
            Some(account) => {
                sql("SELECT name, account_id FROM domains WHERE account_id = $1 ORDER BY name")
                    .bind(account)
            }
        };
        let rows = query.fetch_all(self.reader()).await?;
        rows.iter()
            .map(|row| {
                let columns = Columns { table: "domains", row };
                let name = DomainName::kept(&columns.text("name")?)
                    .map_err(|error| columns.corrupt(error))?;
                Ok((name, columns.account("account_id")?))
            })
            .collect()
    }

    /// Gives a domain up; answers `Some(n)` with the number of addresses that still use it, and
    /// keeps it then; `Some(0)` when it is gone; `None` when `account` did not have it.
    pub async fn remove_domain(
        &self,
        domain: &DomainName,
        account: AccountId,
        act: Act<'_>,
    ) -> Result<Option<u64>, StoreError> {
        let mut tx = self.begin().await?;
        // Whoever gives out an address in it waits, and finds it gone.
        if owner(&mut tx, domain, "FOR UPDATE").await? != Some(account) {
            return Ok(None);
        }
        let row = sql("SELECT COUNT(*) AS used FROM addresses WHERE domain = $1")
            .bind(domain.as_str())
            .fetch_one(tx.on())
            .await?;
        let used = Columns { table: "addresses", row: &row }.count("used")?;
        if used == 0 {
            sql("DELETE FROM domains WHERE name = $1")
                .bind(domain.as_str())
                .execute(tx.on())
                .await?;
            let object = domain.to_string();
            let removed = Note { account, deed: Deed::DomainRemoved, object, changes: &[] };
            audit::note(&mut tx, self.mint(), act, removed).await?;
            directory::changed(&mut tx).await?;
            tx.commit().await?;
        }
        Ok(Some(used))
    }
}

/// Answers whether nobody had it.
pub(super) async fn insert(
    tx: &mut Transaction,
    domain: &DomainName,
    account: AccountId,
    now: Timestamp,
) -> Result<bool, StoreError> {
    sql("INSERT INTO domains (name, account_id, created_at) VALUES ($1, $2, $3)
         ON CONFLICT (name) DO NOTHING")
    .bind(domain.as_str())
    .bind(account.get())
    .bind(now.millis())
    .execute(tx.on())
    .await
    .map(|made| made > 0)
}

/// Who has a domain now, and until this transaction ends.
pub(super) async fn owner(
    tx: &mut Transaction,
    domain: &DomainName,
    locking: &'static str,
) -> Result<Option<AccountId>, StoreError> {
    let row = sql("SELECT account_id FROM domains WHERE name = $1")
        .locking(locking)
        .bind(domain.as_str())
        .fetch_optional(tx.on())
        .await?;
    row.map(|row| Columns { table: "domains", row: &row }.account("account_id")).transpose()
}
