//! The account tree.

use super::addresses::{self, Claim, Claimed};
use super::audit::{self, Note};
use super::db::{Store, Transaction, settled};
use super::error::StoreError;
use super::row::Columns;
use super::sql::{Row, Statement, sql};
use super::{directory, gates};
use crate::domain::account::{Account, AccountType, Lineage};
use crate::domain::address::Address;
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::id::AccountId;
use crate::domain::policy::Mode;

/// An account to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAccount {
    pub kind: AccountType,
    pub name: String,
    pub username: String,
    /// Present exactly when the kind has a level above it.
    pub parent: Option<AccountId>,
    /// Of an Agent; a domain that nobody owns is claimed for its organization.
    pub addresses: Vec<Address>,
}

/// What became of a new account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    Account(Box<Account>),
    /// The parent does not exist or is not of the level above.
    NoParent,
    /// A store has one partner, and has it already.
    HasPartner,
    /// This address cannot be the Agent's; nothing was made.
    Refused(Address, Claimed),
}

impl Store {
    /// Makes an account below its parent; an Agent gets its addresses, at most `most`, and its
    /// policy: `allowlist`, empty (closed until opened).
    pub async fn create_account(
        &self,
        new: &NewAccount,
        most: u64,
        act: Act<'_>,
    ) -> Result<Created, StoreError> {
        settled!(self.try_create(new, most, act))
    }

    async fn try_create(
        &self,
        new: &NewAccount,
        most: u64,
        act: Act<'_>,
    ) -> Result<Created, StoreError> {
        let now = act.at;
        let mut tx = self.begin().await?;
        let above = match new.parent {
            None if new.kind.parent().is_none() => Lineage::default(),
            None => return Ok(Created::NoParent),
            Some(parent) => match find(&mut tx, parent).await? {
                Some(parent) if Some(parent.kind) == new.kind.parent() => parent.lineage,
                _ => return Ok(Created::NoParent),
            },
        };
        let ids = next_user_ids(&mut tx, 1).await?;
        let id = ids
            .first()
            .and_then(|id| AccountId::new(*id))
            .ok_or_else(|| StoreError::Corrupt { table: "user_ids", detail: format!("{ids:?}") })?;
        let account = Account {
            id,
            kind: new.kind,
            name: new.name.clone(),
            username: new.username.clone(),
            parent: new.parent,
            lineage: above.with(new.kind, id),
            active: true,
            created_at: now,
        };
        if !insert(&mut tx, &account).await? {
            return Ok(Created::HasPartner);
        }
        if account.kind == AccountType::Agent {
            sql("INSERT INTO inbound_policies (agent_id, mode, version, updated_at)
                 VALUES ($1, $2, 1, $3)")
            .bind(id.get())
            .bind(Mode::Allowlist.as_str())
            .bind(now.millis())
            .execute(tx.on())
            .await?;
        }
        for address in &new.addresses {
            let domain_for = account.lineage.organization;
            let claim = Claim { agent: &account, address, catch_all: false, domain_for, most, now };
            match addresses::claim(&mut tx, &claim).await? {
                Claimed::Yes => {}
                why => return Ok(Created::Refused(address.clone(), why)),
            }
        }
        let changes =
            [Change::made("accountType", account.kind), Change::made("name", &account.name)];
        let (deed, object) = (Deed::AccountCreated, account.name.clone());
        let made = Note { account: id, deed, object, changes: &changes };
        audit::note(&mut tx, self.mint(), act, made).await?;
        directory::changed(&mut tx).await?;
        tx.commit().await?;
        Ok(Created::Account(Box::new(account)))
    }

    /// One account.
    pub async fn account(&self, id: AccountId) -> Result<Option<Account>, StoreError> {
        let row = select("WHERE id = $1").bind(id.get()).fetch_optional(self.reader()).await?;
        row.as_ref().map(account).transpose()
    }

    /// The accounts whose level is `kind`, or all, oldest first.
    pub async fn accounts(&self, kind: Option<AccountType>) -> Result<Vec<Account>, StoreError> {
        // Asked for the partner with every refusal at RCPT: it must not read all accounts.
        let query = match kind {
            None => select("ORDER BY id"),
            Some(kind) => select("WHERE kind = $1 ORDER BY id").bind(kind.as_str()),
        };
        let rows = query.fetch_all(self.reader()).await?;
        rows.iter().map(account).collect()
    }

    /// Up to `limit` accounts behind `after`, oldest first.
    pub async fn accounts_after(
        &self,
        after: Option<AccountId>,
        limit: usize,
    ) -> Result<Vec<Account>, StoreError> {
        let rows = select("WHERE id > $1 ORDER BY id LIMIT $2")
            .bind(after.map_or(0, AccountId::get))
            .bind(i64::try_from(limit).unwrap_or(i64::MAX))
            .fetch_all(self.reader())
            .await?;
        rows.iter().map(account).collect()
    }

    /// Whether the account and all its ancestors are active.
    pub async fn is_active(&self, account: &Account) -> Result<bool, StoreError> {
        let lineage = account.lineage;
        let row = sql("SELECT MIN(active) AS active FROM accounts WHERE id IN ($1, $2, $3, $4)")
            .bind(lineage.partner)
            .bind(lineage.reseller)
            .bind(lineage.organization)
            .bind(lineage.agent)
            .fetch_one(self.reader())
            .await?;
        Ok(Columns { table: "accounts", row: &row }.optional_integer("active")? == Some(1))
    }

    /// Switches an account on or off; answers whether it exists.
    pub async fn set_active(
        &self,
        id: AccountId,
        active: bool,
        act: Act<'_>,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        gates::close_account(&mut tx, id).await?;
        let changed = sql("UPDATE accounts SET active = $2 WHERE id = $1 AND active <> $2")
            .bind(id.get())
            .bind(i64::from(active))
            .execute(tx.on())
            .await?;
        if changed > 0 {
            let changes = [Change::new("active", Some(!active), Some(active))];
            let (deed, object) = (Deed::AccountUpdated, id.to_string());
            let updated = Note { account: id, deed, object, changes: &changes };
            audit::note(&mut tx, self.mint(), act, updated).await?;
            directory::changed(&mut tx).await?;
        }
        tx.commit().await?;
        Ok(changed > 0 || self.account(id).await?.is_some())
    }
}

/// The next ids of the one sequence of accounts, members and contacts. PostgreSQL's own sequence
/// leaves gaps, but nobody waits for whom it gave the id before.
pub(super) async fn next_user_ids(
    tx: &mut Transaction,
    count: usize,
) -> Result<Vec<i64>, StoreError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let rows = sql("UPDATE user_ids SET last = last + $1 RETURNING last AS id")
        .on_postgres("SELECT nextval('user_ids') AS id FROM generate_series(1, $1)")
        .bind(i64::try_from(count).unwrap_or(i64::MAX))
        .fetch_all(tx.on())
        .await?;
    let id = |row: &Row| Columns { table: "user_ids", row }.integer("id");
    match rows.as_slice() {
        // SQLite says where the sequence ends now.
        [last @ Row::Sqlite(_)] => {
            let last = id(last)?;
            Ok((last.saturating_sub(i64::try_from(count).unwrap_or(i64::MAX)) + 1..=last).collect())
        }
        rows => rows.iter().map(id).collect(),
    }
}

/// Accounts. Columns are named, because a statement that PostgreSQL has prepared does not survive
/// another gateway's migration that adds one to `*`.
fn select(rest: &'static str) -> Statement {
    let mut query = sql("SELECT ");
    query.push(COLUMNS).push(" FROM accounts ").push(rest);
    query
}

/// What `account` reads of a row, whatever else was joined to it.
pub(super) const COLUMNS: &str = "accounts.id, kind, name, username, parent_id, partner_id,
     reseller_id, organization_id, agent_id, active, accounts.created_at";

pub(super) async fn find(
    tx: &mut Transaction,
    id: AccountId,
) -> Result<Option<Account>, StoreError> {
    let row = select("WHERE id = $1").bind(id.get()).fetch_optional(tx.on()).await?;
    row.as_ref().map(account).transpose()
}

/// Answers whether there was room: a store has one partner.
async fn insert(tx: &mut Transaction, account: &Account) -> Result<bool, StoreError> {
    sql("INSERT INTO accounts (id, kind, name, username, parent_id, partner_id, reseller_id,
                               organization_id, agent_id, active, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 1, $10)
         ON CONFLICT (kind) WHERE kind = 'partner' DO NOTHING")
    .bind(account.id.get())
    .bind(account.kind.as_str())
    .bind(account.name.clone())
    .bind(account.username.clone())
    .bind(account.parent)
    .bind(account.lineage.partner)
    .bind(account.lineage.reseller)
    .bind(account.lineage.organization)
    .bind(account.lineage.agent)
    .bind(account.created_at.millis())
    .execute(tx.on())
    .await
    .map(|made| made > 0)
}

pub(super) fn account(row: &Row) -> Result<Account, StoreError> {
    let columns = Columns { table: "accounts", row };
    Ok(Account {
        id: columns.account("id")?,
        kind: columns.word("kind")?,
        name: columns.text("name")?,
        username: columns.text("username")?,
        parent: columns.optional_account("parent_id")?,
        lineage: columns.lineage()?,
        active: columns.flag("active")?,
        created_at: columns.time("created_at")?,
    })
}
