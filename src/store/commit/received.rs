//! Messages from an account's own platform, written as mail is, in the same groups. Their
//! conditions are fewer: the Agent must be active, and the request not carried out before.

use std::collections::{BTreeMap, BTreeSet};

use super::prepared::PreparedCommit;
use crate::domain::account::{Account, AccountType};
use crate::domain::id::AccountId;
use crate::domain::scope::Scope;
use crate::store::base::Base;
use crate::store::base::page::within;
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::mailbox::entry::Arrived;
use crate::store::tenancy::accounts;
use crate::store::tenancy::idempotency;

impl Base {
    /// Returns up to `limit` Agents in `scope` that have this username; several may.
    pub async fn agents_called(
        &self,
        scope: &Scope,
        username: &str,
        limit: u32,
    ) -> Result<Vec<Account>, StoreError> {
        let mut query = accounts::select("AND username = $1 AND kind = $2 AND ")
            .bind(username)
            .bind(AccountType::Agent.as_str());
        within(&mut query, scope);
        query.push(" ORDER BY id LIMIT ").push_value(i64::from(limit));
        let rows = query.fetch_all(self.reader()).await?;
        rows.iter().map(accounts::account).collect()
    }
}

/// Returns the Agents of platform messages that are active, with all accounts above them. Their
/// gates are passed: they stay active until the transaction ends.
pub async fn active(
    tx: &mut Transaction,
    arrived: &[&Arrived],
) -> Result<BTreeSet<AccountId>, StoreError> {
    let agents = arrived.iter().filter(|one| one.decided.is_none()).map(|one| one.agent);
    let agents: BTreeSet<AccountId> = agents.collect();
    let found = many(
        "WITH given (agent) AS ({rows})
         SELECT me.id AS agent,
                (SELECT MIN(CASE WHEN deleted_at IS NULL THEN active ELSE 0 END)
                 FROM accounts AS above
                 WHERE above.id IN (me.partner_id, me.reseller_id, me.organization_id, me.id))
                    AS active
         FROM given CROSS JOIN accounts AS me WHERE me.id = given.agent",
        agents.into_iter().map(|agent| vec![agent.into()]).collect(),
    )
    .fetch_all(tx.on())
    .await?;
    let mut active = BTreeSet::new();
    for row in &found {
        let columns = Columns { table: "accounts", row };
        if columns.flag("active")? {
            active.insert(columns.account("agent")?);
        }
    }
    Ok(active)
}

/// Remembers the requests that are not `put_off`, in the order of their digests. Returns the places
/// in the group of those already carried out.
pub async fn repeated(
    tx: &mut Transaction,
    group: &[PreparedCommit],
    put_off: &[bool],
) -> Result<BTreeSet<usize>, StoreError> {
    let mut requests = BTreeMap::new();
    for (place, (prepared, put_off)) in group.iter().zip(put_off).enumerate() {
        let once = prepared.arrived().find_map(|one| one.once).filter(|_| !put_off);
        if let Some((once, holder)) = once {
            requests.insert((once.digest, place), (once, holder, prepared.now));
        }
    }
    let mut repeated = BTreeSet::new();
    for ((_, place), (once, holder, now)) in requests {
        if !idempotency::remember(tx, &once, holder, now, None).await? {
            repeated.insert(place);
        }
    }
    Ok(repeated)
}
