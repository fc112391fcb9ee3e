//! Addresses of Agents, and the standing on which a verdict about a recipient rests.

use std::borrow::Cow;

use super::audit::{self, Note};
use super::directory;
use super::domains;
use super::feature_columns::{feature_columns, has};
use crate::domain::account::{Account, Lineage};
use crate::domain::address::Address;
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::feature::{Feature, Offer};
use crate::domain::id::{AccountId, Mint, RelayId};
use crate::domain::policy::Mode;
use crate::domain::relay::Relayed;
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, sql};

/// An address of an Agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldAddress {
    pub address: Address,
    /// Gets all mail for the domain that no other address gets.
    pub catch_all: bool,
}

/// The result of a claim to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The Agent has the address.
    Yes,
    /// No account above the Agent owns the domain.
    DomainNotOurs,
    InUse,
    CatchAllInUse,
    /// The Agent has as many addresses as it may.
    TooMany,
}

/// The facts on which the verdict about a recipient rests. The commit reads them again: a verdict
/// counts only while its standing is unchanged (contract §2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The Agent answers to the address: it has the address, or is the catch-all of the domain.
    pub answers: bool,
    /// The Agent and all accounts above it are active.
    pub active: bool,
    /// The Agent has the feature `inboundEmail`.
    pub takes_mail: bool,
    pub mode: Mode,
    pub policy_version: i64,
    /// The sender is on the Agent's allowlist.
    pub listed: bool,
    /// The relay that decides about mail for the Agent.
    pub relay: Option<Relayed>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressedAgent {
    pub lineage: Lineage,
    pub username: String,
    pub standing: Standing,
}

/// An Agent, the address that a sender used, and the sender.
#[derive(Clone, Debug)]
pub struct StandingQuestion<'a> {
    pub agent: AccountId,
    pub address: Cow<'a, Address>,
    pub sender: Cow<'a, Address>,
}

impl Base {
    /// Returns the current standing for this Agent, address and sender. Reads on this store's own
    /// connections; `Store::addressed` reads on those of mail.
    pub async fn standing(
        &self,
        agent: AccountId,
        address: &Address,
        sender: &Address,
    ) -> Result<Option<Standing>, StoreError> {
        let (address, sender) = (Cow::Borrowed(address), Cow::Borrowed(sender));
        let question = StandingQuestion { agent, address, sender };
        let addressed = standings(self.reader(), &self.offer, &[question]).await?.pop().flatten();
        Ok(addressed.map(|addressed| addressed.standing))
    }

    /// Returns the addresses of an Agent, by domain and local part.
    pub async fn addresses(&self, agent: AccountId) -> Result<Vec<HeldAddress>, StoreError> {
        let rows = sql("SELECT local || '@' || domain AS address, catch_all FROM addresses
             WHERE agent_id = $1 ORDER BY domain, local")
        .bind(agent.get())
        .fetch_all(self.reader())
        .await?;
        rows.iter()
            .map(|row| {
                let columns = Columns { table: "addresses", row };
                let (address, catch_all) =
                    (columns.address("address")?, columns.flag("catch_all")?);
                Ok(HeldAddress { address, catch_all })
            })
            .collect()
    }

    /// Gives an Agent an address in a domain of an account above it.
    pub async fn claim_address(
        &self,
        wanted: &AddressClaim<'_>,
        act: Act<'_>,
    ) -> Result<Claimed, StoreError> {
        transact!(self, async |tx| {
            let claimed = claim(&mut tx, self.mint(), wanted, act).await?;
            if claimed == Claimed::Yes {
                directory::changed(&mut tx).await?;
                tx.commit().await?;
            }
            Ok(claimed)
        })
    }

    /// Takes an address from an Agent. Returns whether the Agent had it.
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
                let note = Note::new(agent, Deed::AddressRemoved, address, &[]);
                audit::note(&mut tx, self.mint(), act, note).await?;
                directory::changed(&mut tx).await?;
            }
            tx.commit().await?;
            Ok(done > 0)
        })
    }
}

/// An address to give to an Agent.
#[derive(Clone, Copy, Debug)]
pub struct AddressClaim<'a> {
    pub agent: &'a Account,
    pub address: &'a Address,
    pub catch_all: bool,
    /// The account that first gets the domain, if that has no owner.
    pub domain_for: Option<AccountId>,
    /// The most addresses that an Agent may have.
    pub most: u64,
}

/// Claims an address and writes the audit entries. The caller must drop the transaction unless the
/// result is `Yes`. Closes the gate of the Agent, then the gate of the domain.
pub async fn claim(
    tx: &mut Transaction,
    mint: &Mint,
    wanted: &AddressClaim<'_>,
    act: Act<'_>,
) -> Result<Claimed, StoreError> {
    let &AddressClaim { agent, address, catch_all, domain_for, most: _ } = wanted;
    let domain = address.domain();
    // Serializes the claims of one Agent in several domains, for the count.
    gates::close_account(tx, agent.id).await?;
    gates::close_domain(tx, domain).await?;
    if let Some(account) = domain_for
        && domains::insert(tx, domain, account, act.at).await?
    {
        let note = Note::new(account, Deed::DomainAdded, domain, &[]);
        audit::note(tx, mint, act, note).await?;
    }
    let owner = domains::find_owner(tx, domain, "FOR KEY SHARE").await?;
    if !agent.lineage.ids().any(|id| Some(id) == owner) {
        return Ok(Claimed::DomainNotOurs);
    }
    if catch_all && catch_all_of_another(tx, address).await? {
        return Ok(Claimed::CatchAllInUse);
    }
    if is_full(tx, wanted).await? {
        return Ok(Claimed::TooMany);
    }
    let row = sql("SELECT catch_all FROM addresses
                   WHERE domain = $1 AND local = $2 AND agent_id = $3")
    .bind(domain.as_str())
    .bind(address.local())
    .bind(agent.id)
    .fetch_optional(tx.on())
    .await?;
    let flag = row.map(|row| Columns { table: "addresses", row: &row }.flag("catch_all"));
    let before = flag.transpose()?;
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
        let note = Note::new(agent.id, Deed::AddressAdded, address, &changes);
        audit::note(tx, mint, act, note).await?;
    }
    Ok(Claimed::Yes)
}

/// Whether the Agent has as many addresses as it may, and this one is not among them.
async fn is_full(tx: &mut Transaction, wanted: &AddressClaim<'_>) -> Result<bool, StoreError> {
    let AddressClaim { agent, address, most, .. } = wanted;
    let row = sql("SELECT COUNT(*) AS held,
                COUNT(CASE WHEN domain = $2 AND local = $3 THEN 1 END) AS this
         FROM addresses WHERE agent_id = $1")
    .bind(agent.id)
    .bind(address.domain().as_str())
    .bind(address.local())
    .fetch_one(tx.on())
    .await?;
    let columns = Columns { table: "addresses", row: &row };
    Ok(columns.count("this")? == 0 && columns.count("held")? >= *most)
}

/// Whether another address is the catch-all of the domain.
async fn catch_all_of_another(tx: &mut Transaction, address: &Address) -> Result<bool, StoreError> {
    let taken =
        sql("SELECT local FROM addresses WHERE domain = $1 AND catch_all = 1 AND local <> $2")
            .bind(address.domain().as_str())
            .bind(address.local())
            .fetch_optional(tx.on())
            .await?;
    Ok(taken.is_some())
}

/// Reads standings on any connection: before the verdict, and again in the commit. Returns one per
/// question, in their order, also for deleted Agents; None if the account is not an Agent.
pub async fn standings(
    on: Connection<'_>,
    offer: &Offer,
    questions: &[StandingQuestion<'_>],
) -> Result<Vec<Option<AddressedAgent>>, StoreError> {
    let rows = questions.iter().enumerate().map(|(place, question)| {
        let StandingQuestion { agent, address, sender } = question;
        vec![
            i64::try_from(place).unwrap_or(i64::MAX).into(),
            (*agent).into(),
            address.domain().as_str().into(),
            address.local().into(),
            sender.to_string().into(),
        ]
    });
    let found = many(
        concat!(
        "WITH given (place, agent, host, mailbox, sender) AS ({rows})
         SELECT place, mode, version, me.partner_id, me.reseller_id, me.organization_id, me.agent_id,
                me.username,",
        feature_columns!("inboundEmail" of "me"),
        ",
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
         WHERE me.id = given.agent AND inbound_policies.agent_id = given.agent"
        ),
        rows.collect(),
    )
    .fetch_all(on)
    .await?;
    let mut standings = vec![None; questions.len()];
    for row in &found {
        let columns = Columns { table: "inbound_policies", row };
        let place = usize::try_from(columns.integer("place")?).unwrap_or(usize::MAX);
        if let Some(standing) = standings.get_mut(place) {
            *standing = Some(AddressedAgent {
                lineage: columns.lineage()?,
                username: columns.text("username")?,
                standing: Standing {
                    answers: columns.flag("answers")?,
                    active: columns.flag("active")?,
                    takes_mail: has(&columns, offer, Feature::InboundEmail)?,
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
