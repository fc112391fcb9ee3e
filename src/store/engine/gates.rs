//! Who waits for whom on PostgreSQL: commits pass the gates of the accounts and of the domain that
//! their standing rests on; a change of one of these closes its gate first.
//!
//! Row locks alone do not do. A row that is always locked by some commit (all of them rest on the
//! partner's) keeps a change waiting for ever, because those who share it do not queue; and an
//! address that takes a catch-all's place has no row before. Here they queue, and nothing is
//! written to the accounts' rows. SQLite has one writer and needs no gates.

use std::collections::BTreeSet;

use super::database::Transaction;
use super::error::StoreError;
use super::many::many;
use super::sql::{Value, sql};
use crate::domain::domain_name::DomainName;
use crate::domain::id::AccountId;

/// The same for accounts alone: what their destinations get is written.
pub async fn pass_accounts(
    tx: &mut Transaction,
    accounts: BTreeSet<AccountId>,
) -> Result<(), StoreError> {
    if !tx.has_company() {
        return Ok(());
    }
    pass_all(tx, accounts, BTreeSet::new()).await
}

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

/// Lets the commits that have passed the gate of this account end, and no other begin until this
/// transaction ends: for changes of its state, its policy, its list, its destinations.
pub async fn close_account(tx: &mut Transaction, account: AccountId) -> Result<(), StoreError> {
    close_accounts(tx, &[account]).await
}

/// The same for several accounts.
pub async fn close_accounts(
    tx: &mut Transaction,
    accounts: &[AccountId],
) -> Result<(), StoreError> {
    if !tx.has_company() {
        return Ok(());
    }
    many(
        "WITH given (account) AS ({rows}),
         gates AS MATERIALIZED (
             SELECT hashtextextended('account', account) AS gate FROM given ORDER BY gate)
         SELECT COUNT(pg_advisory_xact_lock(gate)) AS closed FROM gates",
        accounts.iter().map(|account| vec![(*account).into()]).collect(),
    )
    .execute(tx.on())
    .await
    .map(drop)
}

/// The same for several, while others are passed with them, in the one order: their destinations
/// hear of it.
pub async fn close_and_pass(
    tx: &mut Transaction,
    closed: &BTreeSet<AccountId>,
    passed: &BTreeSet<AccountId>,
) -> Result<(), StoreError> {
    if !tx.has_company() {
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

/// The same for an account and all below it: whatever is done there passes its gate. Those `above`
/// are passed with it, in the one order, because their destinations hear of it.
pub async fn close_below(
    tx: &mut Transaction,
    account: AccountId,
    above: &[AccountId],
) -> Result<(), StoreError> {
    close_and_pass(tx, &BTreeSet::from([account]), &above.iter().copied().collect()).await
}

/// Lets the claims under way end, and no other begin until this transaction ends: deliveries come
/// before those that wait in their rooms. Claims pass this gate (`claims.rs`).
pub async fn close_rooms(tx: &mut Transaction) -> Result<(), StoreError> {
    queue(tx, "rooms", 0).await
}

/// The same for a domain: for changes of its addresses.
pub async fn close_domain(tx: &mut Transaction, domain: &DomainName) -> Result<(), StoreError> {
    if !tx.has_company() {
        return Ok(());
    }
    sql("SELECT pg_advisory_xact_lock(hashtextextended('domain ' || $1, 0))")
        .bind(domain.as_str())
        .execute(tx.on())
        .await
        .map(drop)
}

/// One after the other for each account or member, until the transaction ends: what it owns of this
/// kind is counted or compared. Not by its row, which every commit below the account holds.
pub async fn queue(tx: &mut Transaction, what: &'static str, owner: i64) -> Result<(), StoreError> {
    if !tx.has_company() {
        return Ok(());
    }
    sql("SELECT pg_advisory_xact_lock(hashtextextended($1, $2))")
        .bind(what)
        .bind(owner)
        .execute(tx.on())
        .await
        .map(drop)
}

/// Whether this transaction alone does work of this kind until it ends, on any gateway. Whoever
/// comes second goes on without: the work is done anyway.
pub async fn alone(tx: &mut Transaction, work: &'static str) -> Result<bool, StoreError> {
    if !tx.has_company() {
        return Ok(true);
    }
    let row = sql("SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0)) AS alone")
        .bind(work)
        .fetch_one(tx.on())
        .await?;
    Ok(row.get("alone")?)
}
