//! The addresses of Agents, and what the decision about a recipient rests on.

use super::audit::{self, Note};
use super::directory;
use super::domains;
use crate::domain::account::{Account, Lineage};
use crate::domain::address::Address;
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::id::{AccountId, Mint, RelayId};
use crate::domain::policy::Mode;
use crate::domain::relay::Relayed;
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, settled, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, sql};

/// What became of a claim to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The Agent has it, from now or since before.
    Yes,
    /// Its domain belongs to no ancestor of the Agent.
    DomainNotOurs,
    /// Another Agent has the address.
    InUse,
    /// Another address is the domain's catch-all.
    CatchAllInUse,
    /// The Agent has as many as it may.
    TooMany,
}

/// What the decision about one recipient rests on. The commit reads it again: a decision counts
/// only while its standing is unchanged (contract §2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The Agent still answers to the address, by having it or as the domain's catch-all.
    pub answers: bool,
    /// The Agent and all its ancestors are active.
    pub active: bool,
    pub mode: Mode,
    pub policy_version: i64,
    /// The sender is on the Agent's list.
    pub listed: bool,
    /// The application that is asked about mail for the Agent.
    pub relay: Option<Relayed>,
}

/// An Agent to which a message is addressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addressed {
    pub lineage: Lineage,
    pub username: String,
    pub standing: Standing,
}

/// An Agent, the address under which it was reached, and who wrote.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    pub agent: AccountId,
    pub address: &'a Address,
    pub sender: &'a Address,
}

impl Base {
    /// What a decision about this Agent, this address and this sender would rest on now.
    pub async fn standing(
        &self,
        agent: AccountId,
        address: &Address,
        sender: &Address,
    ) -> Result<Option<Standing>, StoreError> {
        let question = Question { agent, address, sender };
        let addressed = standings(self.reader(), &[question]).await?.pop().flatten();
        Ok(addressed.map(|addressed| addressed.standing))
    }

    /// The addresses of an Agent with their catch-all flags, by domain and local part.
    pub async fn addresses(&self, agent: AccountId) -> Result<Vec<(Address, bool)>, StoreError> {
        let rows = sql("SELECT local || '@' || domain AS address, catch_all FROM addresses
             WHERE agent_id = $1 ORDER BY domain, local")
        .bind(agent.get())
        .fetch_all(self.reader())
        .await?;
        rows.iter()
            .map(|row| {
                let columns = Columns { table: "addresses", row };
                Ok((columns.address("address")?, columns.flag("catch_all")?))
            })
            .collect()
    }

    /// Gives an address to an Agent, in a domain of one of its ancestors, unless it would have
    /// more than `most`. With `claim_domain_for`, a domain that nobody owns is claimed for that
    /// account first.
    pub async fn claim_address(
        &self,
        agent: &Account,
        address: &Address,
        catch_all: bool,
        claim_domain_for: Option<AccountId>,
        most: u64,
        act: Act<'_>,
    ) -> Result<Claimed, StoreError> {
        let claim = Claim { agent, address, catch_all, domain_for: claim_domain_for, most, act };
        settled!(self.try_claim(&claim))
    }

    async fn try_claim(&self, wanted: &Claim<'_>) -> Result<Claimed, StoreError> {
        let mut tx = self.begin().await?;
        let claimed = claim(&mut tx, self.mint(), wanted).await?;
        if claimed == Claimed::Yes {
            directory::changed(&mut tx).await?;
            tx.commit().await?;
        }
        Ok(claimed)
    }

    /// Takes an address from an Agent; answers whether it had it.
    pub async fn release_address(
        &self,
        agent: AccountId,
        address: &Address,
        act: Act<'_>,
    ) -> Result<bool, StoreError> {
        transact!(self, async |tx| {
            gates::close_domain(&mut tx, address.domain()).await?;
            let done =
                sql("DELETE FROM addresses WHERE domain = $1 AND local = $2 AND agent_id = $3")
                    .bind(address.domain().as_str())
                    .bind(address.local())
                    .bind(agent.get())
                    .execute(tx.on())
                    .await?;
            if done > 0 {
                let (account, object) = (agent, address.to_string());
                let removed = Note { account, deed: Deed::AddressRemoved, object, changes: &[] };
                audit::note(&mut tx, self.mint(), act, removed).await?;
                directory::changed(&mut tx).await?;
            }
            tx.commit().await?;
            Ok(done > 0)
        })
    }
}

/// An address that an Agent is to have.
pub struct Claim<'a> {
    pub agent: &'a Account,
    pub address: &'a Address,
    pub catch_all: bool,
    /// Whose a domain becomes that nobody owns.
    pub domain_for: Option<AccountId>,
    /// How many addresses an Agent may have.
    pub most: u64,
    pub act: Act<'a>,
}

/// Claims an address within a transaction, which must be dropped unless this answers `Yes`. What
/// is new of it, and of its domain, is in the audit log.
pub async fn claim(
    tx: &mut Transaction,
    mint: &Mint,
    wanted: &Claim<'_>,
) -> Result<Claimed, StoreError> {
    let &Claim { agent, address, catch_all, domain_for, most, act } = wanted;
    let domain = address.domain();
    // Claims of one Agent in several domains count one after the other.
    gates::close_account(tx, agent.id).await?;
    gates::close_domain(tx, domain).await?;
    if let Some(account) = domain_for
        && domains::insert(tx, domain, account, act.at).await?
    {
        let object = domain.to_string();
        let added = Note { account, deed: Deed::DomainAdded, object, changes: &[] };
        audit::note(tx, mint, act, added).await?;
    }
    if !owns(&agent.lineage, domains::owner(tx, domain, "FOR KEY SHARE").await?) {
        return Ok(Claimed::DomainNotOurs);
    }
    if catch_all && catch_all_of_another(tx, address).await? {
        return Ok(Claimed::CatchAllInUse);
    }
    if has_no_room(tx, agent.id, address, most).await? {
        return Ok(Claimed::TooMany);
    }
    let before = catch_all_before(tx, wanted).await?;
    let done = sql("INSERT INTO addresses (domain, local, agent_id, catch_all, created_at)
         VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (domain, local) DO UPDATE SET catch_all = excluded.catch_all
            WHERE addresses.agent_id = excluded.agent_id")
    .bind(domain.as_str())
    .bind(address.local())
    .bind(agent.id)
    .bind(i64::from(catch_all))
    .bind(act.at)
    .execute(tx.on())
    .await?;
    if done == 0 {
        return Ok(Claimed::InUse);
    }
    if before != Some(catch_all) {
        let changes = [Change::new("catchAll", before, Some(catch_all))];
        let (account, object) = (agent.id, address.to_string());
        let added = Note { account, deed: Deed::AddressAdded, object, changes: &changes };
        audit::note(tx, mint, act, added).await?;
    }
    Ok(Claimed::Yes)
}

/// Whether the Agent has the address already, and as its domain's catch-all.
async fn catch_all_before(
    tx: &mut Transaction,
    wanted: &Claim<'_>,
) -> Result<Option<bool>, StoreError> {
    let row = sql("SELECT catch_all FROM addresses
                   WHERE domain = $1 AND local = $2 AND agent_id = $3")
    .bind(wanted.address.domain().as_str())
    .bind(wanted.address.local())
    .bind(wanted.agent.id)
    .fetch_optional(tx.on())
    .await?;
    row.map(|row| Columns { table: "addresses", row: &row }.flag("catch_all")).transpose()
}

/// One that the Agent has already takes no more room.
async fn has_no_room(
    tx: &mut Transaction,
    agent: AccountId,
    address: &Address,
    most: u64,
) -> Result<bool, StoreError> {
    let row = sql("SELECT COUNT(*) AS held,
                COUNT(CASE WHEN domain = $2 AND local = $3 THEN 1 END) AS this
         FROM addresses WHERE agent_id = $1")
    .bind(agent)
    .bind(address.domain().as_str())
    .bind(address.local())
    .fetch_one(tx.on())
    .await?;
    let columns = Columns { table: "addresses", row: &row };
    Ok(columns.count("this")? == 0 && columns.count("held")? >= most)
}

/// A domain has one catch-all Agent address.
async fn catch_all_of_another(tx: &mut Transaction, address: &Address) -> Result<bool, StoreError> {
    let taken =
        sql("SELECT local FROM addresses WHERE domain = $1 AND catch_all = 1 AND local <> $2")
            .bind(address.domain().as_str())
            .bind(address.local())
            .fetch_optional(tx.on())
            .await?;
    Ok(taken.is_some())
}

fn owns(lineage: &Lineage, owner: Option<AccountId>) -> bool {
    owner.is_some_and(|owner| lineage.ids().any(|id| id == owner))
}

/// Reads standings on any connection: before the decision, and again inside the commit. One for
/// each question, in their order, also of an Agent that was deleted; `None` where the account is none.
pub async fn standings(
    on: Connection<'_>,
    questions: &[Question<'_>],
) -> Result<Vec<Option<Addressed>>, StoreError> {
    let rows = questions.iter().enumerate().map(|(place, question)| {
        let Question { agent, address, sender } = question;
        vec![
            i64::try_from(place).unwrap_or(i64::MAX).into(),
            (*agent).into(),
            address.domain().as_str().into(),
            address.local().into(),
            sender.to_string().into(),
        ]
    });
    let found = many(
        "WITH given (place, agent, host, mailbox, sender) AS ({rows})
         SELECT place, mode, version, me.partner_id, me.reseller_id, me.organization_id, me.agent_id,
                me.username,
                (SELECT MIN(CASE WHEN deleted_at IS NULL THEN active ELSE 0 END)
                 FROM accounts AS above
                 WHERE above.id IN (me.partner_id, me.reseller_id, me.organization_id, me.id))
                    AS active,
                CAST(CASE WHEN COALESCE(
                         (SELECT agent_id FROM addresses
                          WHERE domain = given.host AND local = given.mailbox),
                         (SELECT agent_id FROM addresses
                          WHERE domain = given.host AND catch_all = 1)) = given.agent
                     THEN 1 ELSE 0 END AS BIGINT) AS answers,
                (SELECT COUNT(*) FROM allowed_senders
                 WHERE agent_id = given.agent AND address = given.sender) AS listed,
                relays.id AS relay, relays.revision AS relay_revision
         FROM given CROSS JOIN accounts AS me CROSS JOIN inbound_policies
         LEFT JOIN relays ON relays.id = COALESCE(
             (SELECT id FROM relays WHERE account_id = me.id AND kind = 'smtp'),
             (SELECT id FROM relays WHERE account_id = me.organization_id AND kind = 'smtp'),
             (SELECT id FROM relays WHERE account_id = me.reseller_id AND kind = 'smtp'),
             (SELECT id FROM relays WHERE account_id = me.partner_id AND kind = 'smtp'))
         WHERE me.id = given.agent AND inbound_policies.agent_id = given.agent",
        rows.collect(),
    )
    .fetch_all(on)
    .await?;
    let mut standings = vec![None; questions.len()];
    for row in &found {
        let columns = Columns { table: "inbound_policies", row };
        let place = usize::try_from(columns.integer("place")?).unwrap_or(usize::MAX);
        if let Some(standing) = standings.get_mut(place) {
            *standing = Some(Addressed {
                lineage: columns.lineage()?,
                username: columns.text("username")?,
                standing: Standing {
                    answers: columns.flag("answers")?,
                    active: columns.flag("active")?,
                    mode: columns.word("mode")?,
                    policy_version: columns.integer("version")?,
                    listed: columns.flag("listed")?,
                    relay: relayed(&columns)?,
                },
            });
        }
    }
    Ok(standings)
}

fn relayed(columns: &Columns<'_>) -> Result<Option<Relayed>, StoreError> {
    let id = columns.optional_uuid("relay")?.map(RelayId);
    id.map(|id| Ok(Relayed { id, revision: columns.integer("relay_revision")? })).transpose()
}
