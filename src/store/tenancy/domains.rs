//! Mail domains: their owners, and the claims that accounts have not proven yet.
//!
//! A claim stays when another account proves the domain, because no proof changes another account's
//! rows. Its account gets `Taken` when it asks again, and can withdraw the claim.

use super::audit::{self, Note};
use super::directory;
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::domain_name::DomainName;
use crate::domain::id::AccountId;
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::sql;

/// A domain that an account owns or claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldDomain {
    pub domain: DomainName,
    pub account: AccountId,
    /// The value of the TXT record that proves the claim; None if the account owns the domain.
    pub challenge: Option<String>,
}

/// The result of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainClaim {
    /// The account owns the domain already.
    Owned,
    /// Another account owns the domain.
    Taken,
    /// A new claim, to be proven by the given challenge.
    Made,
    /// An earlier claim, with this challenge.
    Pending(String),
    /// The account has as many unproven claims as it may.
    TooManyClaims,
    /// The account has as many domains as it may, including claims.
    TooManyDomains,
    NoAccount,
}

/// The result of a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DomainProof {
    /// The account owns the domain.
    Yes,
    /// Another account owns the domain.
    Taken,
    /// The claim was withdrawn meanwhile.
    NoClaim,
}

/// The most domains of an account.
#[derive(Clone, Copy, Debug)]
pub struct DomainLimits {
    /// Unproven claims.
    pub claims: u64,
    /// Domains and claims together.
    pub domains: u64,
}

impl Base {
    /// Gives `domain` to `account` unless it has an owner. Returns the owner.
    pub async fn claim_domain(
        &self,
        domain: &DomainName,
        account: AccountId,
        act: Act<'_>,
    ) -> Result<AccountId, StoreError> {
        transact!(self, async |tx| {
            gates::close_domain(&mut tx, domain).await?;
            let new = insert(&mut tx, domain, account, act.at).await?;
            let owner = find_owner(&mut tx, domain, "FOR KEY SHARE").await?.unwrap_or(account);
            if new {
                self.note_added(&mut tx, domain, account, act).await?;
            }
            tx.commit().await?;
            Ok(owner)
        })
    }

    /// Returns the account's claim to a domain, or makes one with this challenge. Closes the gate
    /// of the account, then the gate of the domain.
    pub async fn pending_claim(
        &self,
        domain: &DomainName,
        account: AccountId,
        challenge: &str,
        limits: DomainLimits,
        act: Act<'_>,
    ) -> Result<DomainClaim, StoreError> {
        transact!(self, async |tx| {
            // Serializes the claims of one account, for the count.
            gates::close_account(&mut tx, account).await?;
            gates::close_domain(&mut tx, domain).await?;
            match find_owner(&mut tx, domain, "FOR KEY SHARE").await? {
                Some(owner) if owner == account => return Ok(DomainClaim::Owned),
                Some(_) => return Ok(DomainClaim::Taken),
                None => {}
            }
            if let Some(challenge) = find_challenge(&mut tx, domain, account).await? {
                return Ok(DomainClaim::Pending(challenge));
            }
            let row = sql("SELECT (SELECT COUNT(*) FROM domains WHERE account_id = $1) AS owned,
                    (SELECT COUNT(*) FROM domain_claims WHERE account_id = $1) AS claimed")
            .bind(account)
            .fetch_one(tx.on())
            .await?;
            let columns = Columns { table: "domain_claims", row: &row };
            let (owned, claimed) = (columns.count("owned")?, columns.count("claimed")?);
            if claimed >= limits.claims {
                return Ok(DomainClaim::TooManyClaims);
            }
            if owned.saturating_add(claimed) >= limits.domains {
                return Ok(DomainClaim::TooManyDomains);
            }
            let made = sql("INSERT INTO domain_claims (domain, account_id, challenge, created_at)
             SELECT $1, id, $3, $4 FROM accounts WHERE id = $2 AND deleted_at IS NULL")
            .bind(domain.as_str())
            .bind(account)
            .bind(challenge)
            .bind(act.at)
            .execute(tx.on())
            .await?;
            if made == 0 {
                return Ok(DomainClaim::NoAccount);
            }
            let note = Note::new(account, Deed::DomainClaimed, domain, &[]);
            audit::note(&mut tx, self.mint(), act, note).await?;
            tx.commit().await?;
            Ok(DomainClaim::Made)
        })
    }

    /// Gives `account` the domain that it claimed with this challenge, which the caller has seen.
    pub async fn prove_domain(
        &self,
        domain: &DomainName,
        account: AccountId,
        challenge: &str,
        act: Act<'_>,
    ) -> Result<DomainProof, StoreError> {
        transact!(self, async |tx| {
            gates::close_account(&mut tx, account).await?;
            gates::close_domain(&mut tx, domain).await?;
            // Another request may have proven the claim, or withdrawn and repeated it.
            match find_owner(&mut tx, domain, "FOR KEY SHARE").await? {
                Some(owner) if owner == account => return Ok(DomainProof::Yes),
                Some(_) => return Ok(DomainProof::Taken),
                None => {}
            }
            if find_challenge(&mut tx, domain, account).await?.as_deref() != Some(challenge) {
                return Ok(DomainProof::NoClaim);
            }
            let new = insert(&mut tx, domain, account, act.at).await?;
            if !new {
                return Ok(DomainProof::Taken);
            }
            self.note_added(&mut tx, domain, account, act).await?;
            tx.commit().await?;
            Ok(DomainProof::Yes)
        })
    }

    async fn note_added(
        &self,
        tx: &mut Transaction,
        domain: &DomainName,
        account: AccountId,
        act: Act<'_>,
    ) -> Result<(), StoreError> {
        let note = Note::new(account, Deed::DomainAdded, domain, &[]);
        audit::note(tx, self.mint(), act, note).await?;
        directory::changed(tx).await
    }

    /// Returns the domains and claims of one account, or of all, by name.
    pub async fn domains(&self, account: Option<AccountId>) -> Result<Vec<HeldDomain>, StoreError> {
        let only = if account.is_some() { " WHERE account_id = $1" } else { "" };
        let mut query = sql("SELECT name, account_id, NULL AS challenge FROM domains");
        query.push(only);
        query.push(" UNION ALL SELECT domain, account_id, challenge FROM domain_claims");
        query.push(only).push(" ORDER BY name, account_id");
        if let Some(account) = account {
            query = query.bind(account);
        }
        let rows = query.fetch_all(self.reader()).await?;
        rows.iter()
            .map(|row| {
                let columns = Columns { table: "domains", row };
                let domain = DomainName::kept(&columns.text("name")?)
                    .map_err(|error| columns.corrupt(error))?;
                let account = columns.account("account_id")?;
                Ok(HeldDomain { domain, account, challenge: columns.optional_text("challenge")? })
            })
            .collect()
    }

    /// Returns domains that have an owner, at most so many, by name from behind `after`.
    pub async fn owned_domains(
        &self,
        after: Option<&DomainName>,
        limit: u32,
    ) -> Result<Vec<DomainName>, StoreError> {
        let rows = sql("SELECT name FROM domains WHERE name > $1 ORDER BY name LIMIT $2")
            .bind(after.map_or("", DomainName::as_str))
            .bind(i64::from(limit))
            .fetch_all(self.reader())
            .await?;
        let domain = |row| {
            let columns = Columns { table: "domains", row };
            DomainName::kept(&columns.text("name")?).map_err(|error| columns.corrupt(error))
        };
        rows.iter().map(domain).collect()
    }

    /// Tells whether a domain has an owner: a claim is none.
    pub async fn has_domain(&self, domain: &DomainName) -> Result<bool, StoreError> {
        let query = sql("SELECT 1 FROM domains WHERE name = $1").bind(domain.as_str());
        Ok(query.fetch_optional(self.reader()).await?.is_some())
    }

    /// Tells whether an account has or claims a domain, or has an address in it.
    pub async fn is_domain_of(
        &self,
        domain: &DomainName,
        account: AccountId,
    ) -> Result<bool, StoreError> {
        let query = sql("SELECT 1 FROM domains WHERE name = $1 AND account_id = $2
             UNION ALL SELECT 1 FROM domain_claims WHERE domain = $1 AND account_id = $2
             UNION ALL SELECT 1 FROM addresses WHERE domain = $1 AND agent_id = $2 LIMIT 1");
        let query = query.bind(domain.as_str()).bind(account);
        Ok(query.fetch_optional(self.reader()).await?.is_some())
    }

    /// Removes a domain of `account`, or its claim. Returns `Some(0)` if it was removed; `Some(n)`
    /// if `n` addresses still use the domain, which then stays; None if there was neither.
    pub async fn remove_domain(
        &self,
        domain: &DomainName,
        account: AccountId,
        act: Act<'_>,
    ) -> Result<Option<u64>, StoreError> {
        transact!(self, async |tx| {
            gates::close_domain(&mut tx, domain).await?;
            // A transaction that gives out an address in the domain waits, and finds it removed.
            let owned = find_owner(&mut tx, domain, "FOR UPDATE").await? == Some(account);
            if owned {
                let row = sql("SELECT COUNT(*) AS used FROM addresses WHERE domain = $1")
                    .bind(domain.as_str())
                    .fetch_one(tx.on())
                    .await?;
                let used = Columns { table: "addresses", row: &row }.count("used")?;
                if used > 0 {
                    return Ok(Some(used));
                }
                let delete = sql("DELETE FROM domains WHERE name = $1").bind(domain.as_str());
                delete.execute(tx.on()).await?;
            } else if !delete_claim(&mut tx, domain, account).await? {
                return Ok(None);
            }
            let changes = [Change::gone("verified", owned)];
            let note = Note::new(account, Deed::DomainRemoved, domain, &changes);
            audit::note(&mut tx, self.mint(), act, note).await?;
            if owned {
                directory::changed(&mut tx).await?;
            }
            tx.commit().await?;
            Ok(Some(0))
        })
    }
}

/// Inserts a domain, and ends the account's claim to it. Returns whether the domain had no owner.
pub async fn insert(
    tx: &mut Transaction,
    domain: &DomainName,
    account: AccountId,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let made = sql("INSERT INTO domains (name, account_id, created_at) VALUES ($1, $2, $3)
         ON CONFLICT (name) DO NOTHING")
    .bind(domain.as_str())
    .bind(account)
    .bind(now)
    .execute(tx.on())
    .await?;
    if made > 0 {
        delete_claim(tx, domain, account).await?;
    }
    Ok(made > 0)
}

/// Deletes the claim of an account. Returns whether there was one.
async fn delete_claim(
    tx: &mut Transaction,
    domain: &DomainName,
    account: AccountId,
) -> Result<bool, StoreError> {
    sql("DELETE FROM domain_claims WHERE domain = $1 AND account_id = $2")
        .bind(domain.as_str())
        .bind(account)
        .execute(tx.on())
        .await
        .map(|ended| ended > 0)
}

/// Returns the owner of a domain; `locking` keeps the row until the transaction ends.
pub async fn find_owner(
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

/// Returns the challenge of the account's claim to a domain.
async fn find_challenge(
    tx: &mut Transaction,
    domain: &DomainName,
    account: AccountId,
) -> Result<Option<String>, StoreError> {
    let row = sql("SELECT challenge FROM domain_claims WHERE domain = $1 AND account_id = $2")
        .bind(domain.as_str())
        .bind(account)
        .fetch_optional(tx.on())
        .await?;
    row.map(|row| Columns { table: "domain_claims", row: &row }.text("challenge")).transpose()
}
