//! Members: people with access to an account. A removed member keeps its row, so that its id is
//! never used again and the audit log can name it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::accounts;
use super::audit::{self, Note};
use crate::domain::account::{Account, AccountType};
use crate::domain::address::Address;
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::event::EventName;
use crate::domain::id::{AccountId, MemberId};
use crate::domain::member::{Member, Role};
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, Row, Statement, sql};
use crate::store::events::announcements::{AccountEvent, announce_account_event};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMember {
    pub account: AccountId,
    pub email: Address,
    pub role: Role,
    pub permitted: BTreeSet<AccountId>,
}

/// Changes of a member; None keeps a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberChange {
    pub email: Option<Address>,
    pub role: Option<Role>,
    pub permitted: Option<BTreeSet<AccountId>>,
}

/// The member to change or to remove.
#[derive(Clone, Copy, Debug)]
pub struct MemberTarget {
    pub id: MemberId,
    /// The Agent on which alone the member may act, before and after: nobody who manages one Agent
    /// changes a member of several.
    pub agent: Option<AccountId>,
}

impl From<MemberId> for MemberTarget {
    fn from(id: MemberId) -> Self {
        Self { id, agent: None }
    }
}

/// The result of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberOutcome {
    /// The member after the change; a removed one as it was.
    Done(Box<Member>),
    /// The account is missing, or is an Agent, which has no members.
    NoAccount,
    NoMember,
    EmailTaken,
    /// The account has as many members as it may.
    TooMany,
    /// This is not an Agent below the account.
    NotAnAgent(AccountId),
    /// The member, of this account, may act on more than the Agent of the target.
    ActsOnMore(AccountId),
    /// The account would be left without an unrestricted administrator.
    LastAdministrator,
}

impl Base {
    /// Inserts a member, unless the account has `most`, and announces it with the data from `told`.
    pub async fn insert_member(
        &self,
        new: &NewMember,
        most: usize,
        told: &(dyn Fn(&Member) -> Value + Sync),
        act: Act<'_>,
    ) -> Result<MemberOutcome, StoreError> {
        transact!(self, async |tx| {
            gates::take_turn(&mut tx, "members", new.account.get()).await?;
            let account = accounts::find(&mut tx, new.account).await?;
            let Some(account) = account.filter(|account| account.kind != AccountType::Agent) else {
                return Ok(MemberOutcome::NoAccount);
            };
            // Gates before rows, as the deletion of an account.
            gates::pass_accounts(&mut tx, account.lineage.ids().collect()).await?;
            if let Some(foreign) = foreign_agent(&mut tx, account.id, &new.permitted, &[]).await? {
                return Ok(MemberOutcome::NotAnAgent(foreign));
            }
            let others = of_account(tx.on(), account.id).await?;
            if others.iter().any(|other| other.email == new.email) {
                return Ok(MemberOutcome::EmailTaken);
            }
            if others.len() >= most {
                return Ok(MemberOutcome::TooMany);
            }
            let member = Member {
                id: accounts::next_user_id(&mut tx, MemberId::new).await?,
                account: account.id,
                lineage: account.lineage,
                email: new.email.clone(),
                role: new.role,
                permitted: new.permitted.iter().copied().collect(),
                created_at: act.at,
            };
            sql("INSERT INTO members (id, account_id, email, role, permitted, created_at)
                 VALUES ($1, $2, $3, $4, $5, $6)")
            .bind(member.id.get())
            .bind(account.id)
            .bind(member.email.to_string())
            .bind(member.role.as_str())
            .bind(as_json(&member.permitted))
            .bind(act.at)
            .execute(tx.on())
            .await?;
            let changes = [
                Change::made("email", &member.email),
                Change::made("role", member.role),
                Change::made("permittedAccountIds", as_json(&member.permitted)),
            ];
            let note = Note::new(account.id, Deed::MemberInvited, &member.id, &changes);
            audit::note(&mut tx, self.mint(), act, note).await?;
            let (name, at, lineage) = (EventName::MemberInvited, act.at, member.lineage);
            let event = AccountEvent { name, at, lineage, data: told(&member) };
            announce_account_event(&mut tx, self.mint(), event).await?;
            tx.commit().await?;
            Ok(MemberOutcome::Done(Box::new(member)))
        })
    }

    /// Returns a member, unless it was removed or its account deleted.
    pub async fn member(&self, id: MemberId) -> Result<Option<Member>, StoreError> {
        find(self.reader(), id).await
    }

    /// Returns the account with this id, or the member with this id and its account: ids are of one
    /// sequence. None if deleted or removed. Always one statement, so that timing does not tell a
    /// foreign id from an unused one.
    pub async fn account_or_member(
        &self,
        id: AccountId,
    ) -> Result<Option<(Account, Option<Member>)>, StoreError> {
        let mut query = sql("SELECT ");
        query.push(COLUMNS).push(", ").push(accounts::COLUMNS).push(
            " FROM accounts
              LEFT JOIN members ON members.id = $1 AND account_id = accounts.id
                  AND removed_at IS NULL
             WHERE deleted_at IS NULL AND accounts.id = COALESCE(
                 (SELECT account_id FROM members WHERE id = $1 AND removed_at IS NULL), $1)",
        );
        let row = query.bind(id).fetch_optional(self.reader()).await?;
        row.as_ref().map(with_account).transpose()
    }

    /// Returns the members of an account, without those of accounts below it, the oldest first.
    pub async fn members(&self, account: AccountId) -> Result<Vec<Member>, StoreError> {
        of_account(self.reader(), account).await
    }

    /// Changes a member. Its list may keep Agents that it has, even deleted ones: a list that
    /// shrank by itself could become empty, and an empty list restricts nothing.
    pub async fn update_member(
        &self,
        target: impl Into<MemberTarget>,
        change: &MemberChange,
        act: Act<'_>,
    ) -> Result<MemberOutcome, StoreError> {
        let MemberTarget { id, agent } = target.into();
        transact!(self, async |tx| {
            let Some((before, others)) = find_among_others(&mut tx, id).await? else {
                return Ok(MemberOutcome::NoMember);
            };
            if !before.stays_within(agent, change.permitted.as_ref()) {
                return Ok(MemberOutcome::ActsOnMore(before.account));
            }
            if let Some(permitted) = &change.permitted {
                let known = &before.permitted;
                if let Some(foreign) =
                    foreign_agent(&mut tx, before.account, permitted, known).await?
                {
                    return Ok(MemberOutcome::NotAnAgent(foreign));
                }
            }
            let permitted = change.permitted.as_ref().map(|ids| ids.iter().copied().collect());
            let after = Member {
                email: change.email.clone().unwrap_or_else(|| before.email.clone()),
                role: change.role.unwrap_or(before.role),
                permitted: permitted.unwrap_or_else(|| before.permitted.clone()),
                ..before.clone()
            };
            if others.iter().any(|other| other.email == after.email) {
                return Ok(MemberOutcome::EmailTaken);
            }
            if !after.is_unrestricted_administrator() && is_last(&before, &others) {
                return Ok(MemberOutcome::LastAdministrator);
            }
            let changes = differences(&before, &after);
            if !changes.is_empty() {
                sql("UPDATE members SET email = $2, role = $3, permitted = $4 WHERE id = $1")
                    .bind(id.get())
                    .bind(after.email.to_string())
                    .bind(after.role.as_str())
                    .bind(as_json(&after.permitted))
                    .execute(tx.on())
                    .await?;
                let note = Note::new(after.account, Deed::MemberUpdated, &id, &changes);
                audit::note(&mut tx, self.mint(), act, note).await?;
            }
            tx.commit().await?;
            Ok(MemberOutcome::Done(Box::new(after)))
        })
    }

    /// Removes a member, and revokes its keys.
    pub async fn remove_member(
        &self,
        target: impl Into<MemberTarget>,
        act: Act<'_>,
    ) -> Result<MemberOutcome, StoreError> {
        let MemberTarget { id, agent } = target.into();
        transact!(self, async |tx| {
            let Some((member, others)) = find_among_others(&mut tx, id).await? else {
                return Ok(MemberOutcome::NoMember);
            };
            if !member.stays_within(agent, None) {
                return Ok(MemberOutcome::ActsOnMore(member.account));
            }
            if is_last(&member, &others) {
                return Ok(MemberOutcome::LastAdministrator);
            }
            sql("UPDATE members SET removed_at = $2 WHERE id = $1")
                .bind(id.get())
                .bind(act.at)
                .execute(tx.on())
                .await?;
            let revoked = sql("UPDATE keys SET revoked_at = $2
                               WHERE member_id = $1 AND revoked_at IS NULL")
            .bind(id.get())
            .bind(act.at)
            .execute(tx.on())
            .await?;
            let changes = [
                Change::gone("email", &member.email),
                Change::gone("role", member.role),
                Change::gone("permittedAccountIds", as_json(&member.permitted)),
                Change::gone("keys", revoked),
            ];
            let note = Note::new(member.account, Deed::MemberRemoved, &id, &changes);
            audit::note(&mut tx, self.mint(), act, note).await?;
            tx.commit().await?;
            Ok(MemberOutcome::Done(Box::new(member)))
        })
    }
}

/// Returns the member and the others of its account. Queues with changes of this account's members.
async fn find_among_others(
    tx: &mut Transaction,
    id: MemberId,
) -> Result<Option<(Member, Vec<Member>)>, StoreError> {
    let Some(found) = find(tx.on(), id).await? else { return Ok(None) };
    // A member never moves to another account.
    gates::take_turn(tx, "members", found.account.get()).await?;
    let mut all = of_account(tx.on(), found.account).await?;
    let place = all.iter().position(|one| one.id == id);
    Ok(place.map(|place| (all.remove(place), all)))
}

async fn find(on: Connection<'_>, id: MemberId) -> Result<Option<Member>, StoreError> {
    let row = select("AND members.id = $1").bind(id.get()).fetch_optional(on).await?;
    row.as_ref().map(member).transpose()
}

async fn of_account(on: Connection<'_>, account: AccountId) -> Result<Vec<Member>, StoreError> {
    let query = select("AND account_id = $1 ORDER BY members.id").bind(account);
    query.fetch_all(on).await?.iter().map(member).collect()
}

fn is_last(member: &Member, others: &[Member]) -> bool {
    let others = others.iter().any(Member::is_unrestricted_administrator);
    member.is_unrestricted_administrator() && !others
}

/// Returns the first id that is neither an Agent below the account nor in `known`.
async fn foreign_agent(
    tx: &mut Transaction,
    account: AccountId,
    permitted: &BTreeSet<AccountId>,
    known: &[AccountId],
) -> Result<Option<AccountId>, StoreError> {
    let rows = many(
        "WITH given (agent) AS ({rows})
         SELECT accounts.id FROM given CROSS JOIN accounts
         WHERE accounts.id = given.agent AND kind = 'account' AND deleted_at IS NULL
           AND $1 IN (partner_id, reseller_id, organization_id)",
        permitted.iter().map(|id| vec![(*id).into()]).collect(),
    )
    .bind(account)
    .fetch_all(tx.on())
    .await?;
    let mut found: BTreeSet<AccountId> = known.iter().copied().collect();
    for row in &rows {
        found.insert(Columns { table: "accounts", row }.account("id")?);
    }
    Ok(permitted.difference(&found).next().copied())
}

fn differences(before: &Member, after: &Member) -> Vec<Change> {
    let fields = [
        ("email", before.email.to_string(), after.email.to_string()),
        ("role", before.role.to_string(), after.role.to_string()),
        ("permittedAccountIds", as_json(&before.permitted), as_json(&after.permitted)),
    ];
    let changed = fields.into_iter().filter(|(_, before, after)| before != after);
    changed.map(|(field, before, after)| Change::new(field, Some(before), Some(after))).collect()
}

fn as_json(permitted: &[AccountId]) -> String {
    Value::from_iter(permitted.iter().map(|id| id.get())).to_string()
}

fn select(rest: &'static str) -> Statement {
    let mut query = sql("SELECT ");
    query.push(COLUMNS).push(
        ", partner_id, reseller_id, organization_id, agent_id
         FROM members JOIN accounts ON accounts.id = account_id
         WHERE removed_at IS NULL AND deleted_at IS NULL ",
    );
    query.push(rest);
    query
}

/// The columns that [`member`] reads besides the lineage of its account.
pub const COLUMNS: &str = "members.id AS member_id, account_id, email, role,
     permitted, members.created_at AS member_created_at";

/// Reads an account, and its member if the row has one.
pub fn with_account(row: &Row) -> Result<(Account, Option<Member>), StoreError> {
    let is_member = Columns { table: "members", row }.optional_integer("member_id")?;
    let member = is_member.map(|_| member(row)).transpose()?;
    Ok((accounts::account(row)?, member))
}

pub fn member(row: &Row) -> Result<Member, StoreError> {
    let columns = Columns { table: "members", row };
    let (id, permitted) = (columns.integer("member_id")?, columns.json::<Vec<i64>>("permitted")?);
    let permitted = permitted.into_iter().map(|id| {
        AccountId::new(id).ok_or_else(|| {
            columns.corrupt(format!("permitted holds {id}, which is not an account id"))
        })
    });
    Ok(Member {
        id: MemberId::new(id).ok_or_else(|| columns.corrupt(format!("{id} is not a member id")))?,
        account: columns.account("account_id")?,
        lineage: columns.lineage()?,
        email: columns.address("email")?,
        role: columns.word("role")?,
        permitted: permitted.collect::<Result<_, _>>()?,
        created_at: columns.time("member_created_at")?,
    })
}
