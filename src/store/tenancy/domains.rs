//! Mail domains, the accounts that they belong to, and the accounts that say so until they prove it.
//!
//! A claim stays when the domain becomes another account's: nobody's proof reaches into the rows of
//! somebody else. Its account finds the domain taken when it asks again, and can withdraw it.

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

/// A domain that an account has, or says that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldDomain {
    pub domain: DomainName,
    pub account: AccountId,
    /// What a TXT record must hold before the domain is the account's; `None` when it is.
    pub challenge: Option<String>,
}

/// What became of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainClaim {
    /// The account has the domain already.
    Owned,
    /// Another account has it.
    Taken,
    /// From now on, this must be proven.
    Made,
    /// It has been claimed before, with this challenge.
    Pending(String),
    /// The account has claimed as many domains as it may, without proving them.
    TooManyClaims,
    /// The account has as many domains as it may, claimed ones included.
    TooManyDomains,
    /// There is no such account any more.
    NoAccount,
}

/// What became of a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proven {
    /// The domain is the account's.
    Yes,
    /// Another account was first.
    Taken,
    /// The claim was withdrawn meanwhile.
    NoClaim,
}

/// How many domains an account may have by its own proof.
#[derive(Clone, Copy, Debug)]
pub struct DomainLimits {
    /// Claimed and not proven.
    pub claims: u64,
    /// Altogether.
    pub domains: u64,
}

impl Base {
    /// Gives `domain` to `account` unless somebody has it; answers who has it now.
    pub async fn claim_domain(
        &self,
        domain: &DomainName,
        account: AccountId,
        act: Act<'_>,
    ) -> Result<AccountId, StoreError> {
        let mut tx = self.begin().await?;
        gates::close_domain(&mut tx, domain).await?;
        let new = insert(&mut tx, domain, account, act.at).await?;
        let owner = owner(&mut tx, domain, "FOR KEY SHARE").await?.unwrap_or(account);
        if new {
            self.added(&mut tx, domain, account, act).await?;
        }
        tx.commit().await?;
        Ok(owner)
    }

    /// Finds the account's claim to a domain, or makes one with this challenge.
    pub async fn pending_claim(
        &self,
        domain: &DomainName,
        account: AccountId,
        challenge: &str,
        limits: DomainLimits,
        act: Act<'_>,
    ) -> Result<DomainClaim, StoreError> {
        transact!(self, async |tx| {
            // Claims of one account count one after the other.
            gates::close_account(&mut tx, account).await?;
            gates::close_domain(&mut tx, domain).await?;
            match owner(&mut tx, domain, "FOR KEY SHARE").await? {
                Some(owner) if owner == account => return Ok(DomainClaim::Owned),
                Some(_) => return Ok(DomainClaim::Taken),
                None => {}
            }
            if let Some(challenge) = challenge_of(&mut tx, domain, account).await? {
                return Ok(DomainClaim::Pending(challenge));
            }
            let (owned, claimed) = held(&mut tx, account).await?;
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
            let object = domain.to_string();
            let note = Note { account, deed: Deed::DomainClaimed, object, changes: &[] };
            audit::note(&mut tx, self.mint(), act, note).await?;
            tx.commit().await?;
            Ok(DomainClaim::Made)
        })
    }

    /// Gives `account` the domain that it claimed with this challenge: the caller has seen the
    /// proof.
    pub async fn prove_domain(
        &self,
        domain: &DomainName,
        account: AccountId,
        challenge: &str,
        act: Act<'_>,
    ) -> Result<Proven, StoreError> {
        transact!(self, async |tx| {
            gates::close_account(&mut tx, account).await?;
            gates::close_domain(&mut tx, domain).await?;
            // Another request may have proven it, or withdrawn it and claimed it again.
            match owner(&mut tx, domain, "FOR KEY SHARE").await? {
                Some(owner) if owner == account => return Ok(Proven::Yes),
                Some(_) => return Ok(Proven::Taken),
                None => {}
            }
            if challenge_of(&mut tx, domain, account).await?.as_deref() != Some(challenge) {
                return Ok(Proven::NoClaim);
            }
            let new = insert(&mut tx, domain, account, act.at).await?;
            if !new {
                return Ok(Proven::Taken);
            }
            self.added(&mut tx, domain, account, act).await?;
            tx.commit().await?;
            Ok(Proven::Yes)
        })
    }

    async fn added(
        &self,
        tx: &mut Transaction,
        domain: &DomainName,
        account: AccountId,
        act: Act<'_>,
    ) -> Result<(), StoreError> {
        let object = domain.to_string();
        let added = Note { account, deed: Deed::DomainAdded, object, changes: &[] };
        audit::note(tx, self.mint(), act, added).await?;
        directory::changed(tx).await
    }

    /// The account that a domain belongs to.
    pub async fn domain_owner(&self, domain: &DomainName) -> Result<Option<AccountId>, StoreError> {
        let row = sql("SELECT account_id FROM domains WHERE name = $1")
            .bind(domain.as_str())
            .fetch_optional(self.reader())
            .await?;
        row.map(|row| Columns { table: "domains", row: &row }.account("account_id")).transpose()
    }

    /// The domains of one account, or all, and those that it claims, by name.
    pub async fn domains(&self, account: Option<AccountId>) -> Result<Vec<HeldDomain>, StoreError> {
        let query = match account {
            None => sql("SELECT name, account_id, NULL AS challenge FROM domains
                 UNION ALL SELECT domain, account_id, challenge FROM domain_claims
                 ORDER BY name, account_id"),
            Some(account) => {
                sql("SELECT name, account_id, NULL AS challenge FROM domains WHERE account_id = $1
                 UNION ALL
                 SELECT domain, account_id, challenge FROM domain_claims WHERE account_id = $1
                 ORDER BY name, account_id")
                .bind(account)
            }
        };
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

    /// Gives a domain up, or the claim to it; answers `Some(n)` with the number of addresses that
    /// still use it, and keeps it then; `Some(0)` when it is gone; `None` when `account` had neither.
    pub async fn remove_domain(
        &self,
        domain: &DomainName,
        account: AccountId,
        act: Act<'_>,
    ) -> Result<Option<u64>, StoreError> {
        transact!(self, async |tx| {
            gates::close_domain(&mut tx, domain).await?;
            // Whoever gives out an address in it waits, and finds it gone.
            let owned = owner(&mut tx, domain, "FOR UPDATE").await? == Some(account);
            if owned {
                let row = sql("SELECT COUNT(*) AS used FROM addresses WHERE domain = $1")
                    .bind(domain.as_str())
                    .fetch_one(tx.on())
                    .await?;
                let used = Columns { table: "addresses", row: &row }.count("used")?;
                if used > 0 {
                    return Ok(Some(used));
                }
                let of_the_domain =
                    sql("DELETE FROM domains WHERE name = $1").bind(domain.as_str());
                of_the_domain.execute(tx.on()).await?;
            } else if !withdraw(&mut tx, domain, account).await? {
                return Ok(None);
            }
            let (object, changes) = (domain.to_string(), [Change::gone("verified", owned)]);
            let removed = Note { account, deed: Deed::DomainRemoved, object, changes: &changes };
            audit::note(&mut tx, self.mint(), act, removed).await?;
            if owned {
                directory::changed(&mut tx).await?;
            }
            tx.commit().await?;
            Ok(Some(0))
        })
    }
}

/// Answers whether nobody had it; then the account has nothing to prove any more.
pub async fn insert(
    tx: &mut Transaction,
    domain: &DomainName,
    account: AccountId,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let made = sql("INSERT INTO domains (name, account_id, created_at) VALUES ($1, $2, $3)
         ON CONFLICT (name) DO NOTHING")
    .bind(domain.as_str())
    .bind(account.get())
    .bind(now.millis())
    .execute(tx.on())
    .await?;
    if made > 0 {
        withdraw(tx, domain, account).await?;
    }
    Ok(made > 0)
}

/// Ends the claim of an account; answers whether there was one.
async fn withdraw(
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

/// Who has a domain now, and until this transaction ends.
pub async fn owner(
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

/// Of the account's claim to a domain, if there is one.
async fn challenge_of(
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

/// How many domains an account has, and how many it claims.
async fn held(tx: &mut Transaction, account: AccountId) -> Result<(u64, u64), StoreError> {
    let row = sql("SELECT (SELECT COUNT(*) FROM domains WHERE account_id = $1) AS owned,
                (SELECT COUNT(*) FROM domain_claims WHERE account_id = $1) AS claimed")
    .bind(account)
    .fetch_one(tx.on())
    .await?;
    let columns = Columns { table: "domain_claims", row: &row };
    Ok((columns.count("owned")?, columns.count("claimed")?))
}
