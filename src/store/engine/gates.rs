//! Gates on PostgreSQL: advisory locks, held until the transaction ends. A commit passes (locks
//! shared) the gates of the accounts and domains that its standing rests on. A change of one of
//! them closes (locks exclusively) its gate first.
//!
//! Lock order: accounts before domains, and within each by the hash that is the gate. One call
//! locks all its gates in this order, so that gateways never wait in a circle.
//!
//! Row locks alone are not enough. Every commit rests on the partner's row: if each shared its
//! lock, a change would wait forever, because new sharers pass by those who wait. And an address
//! that replaces a catch-all has no row before. At a gate all queue, and no row of an account is
//! written. SQLite has one writer and needs no gates.

use std::collections::BTreeSet;

use super::database::Transaction;
use super::error::StoreError;
use super::many::many;
use super::sql::{Value, sql};
use crate::domain::domain_name::DomainName;
use crate::domain::id::AccountId;

/// Passes the gates of accounts alone: for events, which are written for their destinations.
pub async fn pass_accounts(
    tx: &mut Transaction,
    accounts: BTreeSet<AccountId>,
) -> Result<(), StoreError> {
    if tx.has_concurrent_writers() {
        pass_all(tx, accounts, BTreeSet::new()).await?;
    }
    Ok(())
}

/// Passes the gates of accounts and domains. The caller has checked that this is PostgreSQL.
pub async fn pass_all(
    tx: &mut Transaction,
    accounts: BTreeSet<AccountId>,
    domains: BTreeSet<&DomainName>,
) -> Result<(), StoreError> {
    let gate = |kind: i64, name: String, seed: i64| vec![kind.into(), name.into(), seed.into()];
    let accounts = accounts.iter().map(|id| gate(0, "account".to_owned(), id.get()));
    let domains = domains.iter().map(|name| gate(1, format!("domain {name}"), 0));
    let rows: Vec<Vec<Value>> = accounts.chain(domains).collect();
    many(
        "WITH given (kind, name, seed) AS ({rows}),
         gates AS MATERIALIZED (
             SELECT hashtextextended(name, seed) AS gate FROM given ORDER BY kind, gate)
         SELECT COUNT(pg_advisory_xact_lock_shared(gate)) AS passed FROM gates",
        rows,
    )
    .execute(tx.on())
    .await
    .map(drop)
}

/// Waits for the commits that have passed the gate of this account, and holds others back until
/// this transaction ends: for changes of its state, policy, list or destinations.
pub async fn close_account(tx: &mut Transaction, account: AccountId) -> Result<(), StoreError> {
    close_below(tx, account, &[]).await
}

/// Closes the gates of some accounts and passes those of others, all in the one order: destinations
/// of the passed ones receive events about the change.
pub async fn close_and_pass(
    tx: &mut Transaction,
    closed: &BTreeSet<AccountId>,
    passed: &BTreeSet<AccountId>,
) -> Result<(), StoreError> {
    if !tx.has_concurrent_writers() {
        return Ok(());
    }
    let passed = passed.difference(closed).map(|account| vec![(*account).into(), 0.into()]);
    let closed = closed.iter().map(|account| vec![(*account).into(), 1.into()]);
    many(
        "WITH given (account, closed) AS ({rows}),
         gates AS MATERIALIZED (
             SELECT hashtextextended('account', account) AS gate, closed FROM given ORDER BY gate)
         SELECT COUNT(CASE WHEN closed = 1 THEN CAST(pg_advisory_xact_lock(gate) AS TEXT)
                           ELSE CAST(pg_advisory_xact_lock_shared(gate) AS TEXT) END) AS settled
         FROM gates",
        closed.chain(passed).collect(),
    )
    .execute(tx.on())
    .await
    .map(drop)
}

/// Closes the gate of an account, which all work at or below it passes. Passes those of the
/// accounts `above` in the one order, because their destinations receive events about the change.
pub async fn close_below(
    tx: &mut Transaction,
    account: AccountId,
    above: &[AccountId],
) -> Result<(), StoreError> {
    close_and_pass(tx, &BTreeSet::from([account]), &above.iter().copied().collect()).await
}

/// Waits for the claims under way, and holds others back until this transaction ends: deliveries
/// are put before those waiting in their rooms. Claims pass this gate (`claims.rs`).
pub async fn close_rooms(tx: &mut Transaction) -> Result<(), StoreError> {
    take_turn(tx, "rooms", 0).await
}

/// Closes the gate of a domain: for changes of its addresses.
pub async fn close_domain(tx: &mut Transaction, domain: &DomainName) -> Result<(), StoreError> {
    take_turn(tx, &format!("domain {domain}"), 0).await
}

/// Lets one transaction at a time, per kind and owner (account or member), count or compare what
/// the owner has, until it ends. The owner's row is not locked: commits below the account hold it.
pub async fn take_turn(tx: &mut Transaction, kind: &str, owner: i64) -> Result<(), StoreError> {
    if !tx.has_concurrent_writers() {
        return Ok(());
    }
    sql("SELECT pg_advisory_xact_lock(hashtextextended($1, $2))")
        .bind(kind)
        .bind(owner)
        .execute(tx.on())
        .await
        .map(drop)
}

/// Tries to be the only transaction that does this work, on all gateways, until it ends. Returns
/// false at once if another one is at it: the caller skips the work.
pub async fn try_alone(tx: &mut Transaction, work: &'static str) -> Result<bool, StoreError> {
    if !tx.has_concurrent_writers() {
        return Ok(true);
    }
    let row = sql("SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0)) AS alone")
        .bind(work)
        .fetch_one(tx.on())
        .await?;
    Ok(row.get("alone")?)
}
