//! The account tree: creating accounts and finding those that are not deleted.

use serde_json::{Value, json};

use super::addresses::{self, AddressClaim, Claimed};
use super::app_rows;
use super::audit::{self, Note};
use super::directory;
use crate::domain::account::{Account, AccountType, Details, Lineage};
use crate::domain::address::Address;
use crate::domain::app::AppRecord;
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::event::EventName;
use crate::domain::id::AccountId;
use crate::domain::policy::Mode;
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Row, Statement, sql};
use crate::store::events::announcements::{AccountEvent, announce_account_event};

/// Makes the record of an account for events.
pub type MakeRecord = fn(&Account) -> Value;

#[derive(Clone, Debug)]
pub struct NewAccount {
    /// A reserved id, or None for the next one.
    pub id: Option<AccountId>,
    pub kind: AccountType,
    pub name: String,
    pub username: String,
    /// Present exactly when the kind has a level above it.
    pub parent: Option<AccountId>,
    /// For an Agent. A domain without an owner is claimed for its organization.
    pub addresses: Vec<Address>,
    pub active: bool,
    pub external_id: Option<String>,
    pub details: Details,
    /// For an organization: the name of an Agent to create with it.
    pub first_agent: Option<String>,
    /// For an account with a reserved id: its first integrations.
    pub integrations: Vec<AppRecord>,
    pub make_record: MakeRecord,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountCreation {
    Account(Box<Account>),
    /// An organization, and its first Agent.
    WithAgent(Box<(Account, Account)>),
    /// The parent is missing, or not of the level above.
    NoParent,
    /// The store has its one partner already.
    HasPartner,
    /// Another account below this parent has this external id.
    ExternalIdTaken,
    /// The Agent cannot have this address; nothing was created.
    Refused(Address, Claimed),
}

impl NewAccount {
    /// An active account with this name, without addresses and details.
    pub fn plain(
        kind: AccountType,
        name: &str,
        parent: Option<AccountId>,
        make_record: MakeRecord,
    ) -> Self {
        Self {
            id: None,
            kind,
            name: name.to_owned(),
            username: name.to_owned(),
            parent,
            addresses: Vec::new(),
            active: true,
            external_id: None,
            details: Details::new(),
            first_agent: None,
            integrations: Vec::new(),
            make_record,
        }
    }
}

impl Base {
    /// Creates an account below its parent. An Agent gets its addresses, at most `most`, and an
    /// empty allowlist as its policy (closed until opened).
    pub async fn create_account(
        &self,
        new: &NewAccount,
        most: u64,
        act: Act<'_>,
    ) -> Result<AccountCreation, StoreError> {
        transact!(self, async |tx| {
            let Some(above) = lineage_above(&mut tx, new).await? else {
                return Ok(AccountCreation::NoParent);
            };
            if external_id_taken(&mut tx, new.parent, new.external_id.as_deref()).await? {
                return Ok(AccountCreation::ExternalIdTaken);
            }
            let Some(made) = self.insert_account(&mut tx, new, above, act).await? else {
                return Ok(AccountCreation::HasPartner);
            };
            for record in &new.integrations {
                app_rows::insert(&mut tx, record, u64::MAX).await?;
            }
            for address in &new.addresses {
                let (agent, domain_for) = (&made, made.lineage.organization);
                let claim = AddressClaim { agent, address, catch_all: false, domain_for, most };
                match addresses::claim(&mut tx, self.mint(), &claim, act).await? {
                    Claimed::Yes => {}
                    why => return Ok(AccountCreation::Refused(address.clone(), why)),
                }
            }
            let mut agent = None;
            if let Some(name) = &new.first_agent {
                let parent = Some(made.id);
                let first = NewAccount::plain(AccountType::Agent, name, parent, new.make_record);
                agent = self.insert_account(&mut tx, &first, made.lineage, act).await?;
            }
            directory::changed(&mut tx).await?;
            tx.commit().await?;
            Ok(match agent {
                None => AccountCreation::Account(Box::new(made)),
                Some(agent) => AccountCreation::WithAgent(Box::new((made, agent))),
            })
        })
    }

    /// Inserts an account with its audit entry and its event. Returns None for a second partner.
    async fn insert_account(
        &self,
        tx: &mut Transaction,
        new: &NewAccount,
        above: Lineage,
        act: Act<'_>,
    ) -> Result<Option<Account>, StoreError> {
        let id = match new.id {
            Some(reserved) => reserved,
            None => next_user_id(tx, AccountId::new).await?,
        };
        let account = Account {
            id,
            kind: new.kind,
            name: new.name.clone(),
            username: new.username.clone(),
            parent: new.parent,
            lineage: above.with(new.kind, id),
            active: new.active,
            created_at: act.at,
            external_id: new.external_id.clone(),
            details: new.details.clone(),
        };
        let is_new = insert(tx, &account).await?;
        if !is_new {
            return Ok(None);
        }
        let mut changes =
            vec![Change::made("accountType", account.kind), Change::made("name", &account.name)];
        changes.extend(account.external_id.iter().map(|id| Change::made("externalAccountId", id)));
        let integrations = new.integrations.iter().map(|one| &one.app);
        changes.extend(integrations.map(|app| Change::made("integration", app)));
        let note = Note::new(id, Deed::AccountCreated, &account.name, &changes);
        audit::note(tx, self.mint(), act, note).await?;
        let (name, at, lineage) = (EventName::AccountCreated, act.at, account.lineage);
        let data = json!({ "account": (new.make_record)(&account) });
        let event = AccountEvent { name, at, lineage, data };
        announce_account_event(tx, self.mint(), event).await?;
        Ok(Some(account))
    }

    /// Reserves an id for a new account, to seal its secrets for this id. An unused id is lost.
    pub async fn reserve_account_id(&self) -> Result<AccountId, StoreError> {
        transact!(self, async |tx| {
            let id = next_user_id(&mut tx, AccountId::new).await?;
            tx.commit().await?;
            Ok(id)
        })
    }

    /// Returns an account, unless it was deleted.
    pub async fn account(&self, id: AccountId) -> Result<Option<Account>, StoreError> {
        let row = select("AND id = $1").bind(id).fetch_optional(self.reader()).await?;
        row.as_ref().map(account).transpose()
    }

    /// Returns the Agent that answered at RCPT, even if it was deleted since: its standing decides
    /// the verdict, and the record still belongs to it.
    pub async fn account_even_deleted(&self, id: AccountId) -> Result<Option<Account>, StoreError> {
        let mut query = sql("SELECT ");
        query.push(COLUMNS).push(" FROM accounts WHERE id = ").push_value(id);
        let row = query.fetch_optional(self.reader()).await?;
        row.as_ref().map(account).transpose()
    }

    /// Returns the accounts of level `kind`, or all, the oldest first.
    pub async fn accounts(&self, kind: Option<AccountType>) -> Result<Vec<Account>, StoreError> {
        let query = match kind {
            None => select("ORDER BY id"),
            Some(kind) => select("AND kind = $1 ORDER BY id").bind(kind.as_str()),
        };
        let rows = query.fetch_all(self.reader()).await?;
        rows.iter().map(account).collect()
    }

    /// Whether the account and all accounts above it exist and are active.
    pub async fn is_active(&self, account: &Account) -> Result<bool, StoreError> {
        let lineage = account.lineage;
        let row = sql("SELECT MIN(CASE WHEN deleted_at IS NULL THEN active ELSE 0 END) AS active
                       FROM accounts WHERE id IN ($1, $2, $3, $4)")
        .bind(lineage.partner)
        .bind(lineage.reseller)
        .bind(lineage.organization)
        .bind(lineage.agent)
        .fetch_one(self.reader())
        .await?;
        Ok(Columns { table: "accounts", row: &row }.optional_integer("active")? == Some(1))
    }
}

/// Returns the lineage of the parent, or None if it is missing or of another level. Passes its
/// gates: a deletion of the parent, or of an account above it, waits until the transaction ends.
async fn lineage_above(
    tx: &mut Transaction,
    new: &NewAccount,
) -> Result<Option<Lineage>, StoreError> {
    let Some(parent) = new.parent else {
        return Ok(new.kind.parent().is_none().then(Lineage::default));
    };
    let found = passed(tx, parent).await?;
    let fits = found.filter(|found| Some(found.kind) == new.kind.parent());
    Ok(fits.map(|found| found.lineage))
}

/// Whether an account directly below `parent` has this external id; false without a parent or an
/// id. Locks the external ids below `parent` until the transaction ends.
pub async fn external_id_taken(
    tx: &mut Transaction,
    parent: Option<AccountId>,
    external_id: Option<&str>,
) -> Result<bool, StoreError> {
    let (Some(parent), Some(external_id)) = (parent, external_id) else { return Ok(false) };
    if tx.has_concurrent_writers() {
        sql("SELECT pg_advisory_xact_lock(hashtextextended('external ids', $1))")
            .bind(parent)
            .execute(tx.on())
            .await?;
    }
    let taken = sql("SELECT id FROM accounts
                     WHERE parent_id = $1 AND external_id = $2 AND deleted_at IS NULL")
    .bind(parent)
    .bind(external_id)
    .fetch_optional(tx.on())
    .await?;
    Ok(taken.is_some())
}

/// Returns the next ids of the sequence that accounts, members and contacts share. On PostgreSQL
/// the sequence leaves gaps, but no transaction waits for another one.
pub async fn next_user_ids(tx: &mut Transaction, count: usize) -> Result<Vec<i64>, StoreError> {
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
        // SQLite returns the end of the sequence.
        [last @ Row::Sqlite(_)] => {
            let last = id(last)?;
            Ok((last.saturating_sub(i64::try_from(count).unwrap_or(i64::MAX)) + 1..=last).collect())
        }
        rows => rows.iter().map(id).collect(),
    }
}

/// Returns the next id of the sequence, made by `id_of`.
pub async fn next_user_id<T>(
    tx: &mut Transaction,
    id_of: fn(i64) -> Option<T>,
) -> Result<T, StoreError> {
    let ids = next_user_ids(tx, 1).await?;
    let id = ids.first().and_then(|id| id_of(*id));
    id.ok_or_else(|| StoreError::Corrupt { table: "user_ids", detail: format!("{ids:?}") })
}

/// Selects accounts that are not deleted. Names the columns: a statement with `*` that PostgreSQL
/// has prepared fails after another gateway's migration adds a column.
pub fn select(rest: &'static str) -> Statement {
    let mut query = sql("SELECT ");
    query.push(COLUMNS).push(" FROM accounts WHERE deleted_at IS NULL ").push(rest);
    query
}

/// The columns that `account` reads, unambiguous in a join.
pub const COLUMNS: &str = "accounts.id, kind, name, username, parent_id, partner_id,
     reseller_id, organization_id, agent_id, active, accounts.created_at, external_id, details";

pub async fn find(tx: &mut Transaction, id: AccountId) -> Result<Option<Account>, StoreError> {
    let row = select("AND id = $1").bind(id).fetch_optional(tx.on()).await?;
    row.as_ref().map(account).transpose()
}

/// Returns an account that is not deleted, and keeps it until the transaction ends. Passes the
/// gates of its lineage before any row is locked, as a deletion does: no two wait in a circle.
pub async fn passed(tx: &mut Transaction, id: AccountId) -> Result<Option<Account>, StoreError> {
    let Some(found) = find(tx, id).await? else { return Ok(None) };
    gates::pass_accounts(tx, found.lineage.ids().collect()).await?;
    find(tx, id).await
}

/// Inserts an account, and the policy of an Agent. Returns false for a second partner.
async fn insert(tx: &mut Transaction, account: &Account) -> Result<bool, StoreError> {
    let done = sql("INSERT INTO accounts (id, kind, name, username, parent_id, partner_id,
                               reseller_id, organization_id, agent_id, active, created_at,
                               external_id, details, plan)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
         ON CONFLICT (kind) WHERE kind = 'partner' DO NOTHING")
    .bind(account.id)
    .bind(account.kind.as_str())
    .bind(account.name.clone())
    .bind(account.username.clone())
    .bind(account.parent)
    .bind(account.lineage.partner)
    .bind(account.lineage.reseller)
    .bind(account.lineage.organization)
    .bind(account.lineage.agent)
    .bind(i64::from(account.active))
    .bind(account.created_at)
    .bind(account.external_id.clone())
    .bind(details_column(&account.details))
    .bind(account.plan())
    .execute(tx.on())
    .await?;
    if done > 0 && account.kind == AccountType::Agent {
        sql("INSERT INTO inbound_policies (agent_id, mode, version, updated_at)
             VALUES ($1, $2, 1, $3)")
        .bind(account.id)
        .bind(Mode::Allowlist.as_str())
        .bind(account.created_at)
        .execute(tx.on())
        .await?;
    }
    Ok(done > 0)
}

/// Returns the details as the database stores them.
pub fn details_column(details: &Details) -> Option<String> {
    (!details.is_empty()).then(|| Value::Object(details.clone()).to_string())
}

pub fn account(row: &Row) -> Result<Account, StoreError> {
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
        external_id: columns.optional_text("external_id")?,
        details: columns.optional_json("details")?.unwrap_or_default(),
    })
}
