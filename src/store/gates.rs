//! Who waits for whom on PostgreSQL: commits pass the gates of the accounts and of the domain that
//! their standing rests on; a change of one of these closes its gate first.
//!
//! Row locks alone do not do. A row that is always locked by some commit (all of them rest on the
//! partner's) keeps a change waiting for ever, because those who share it do not queue; and an
//! address that takes a catch-all's place has no row before. Here they queue, and nothing is
//! written to the accounts' rows. SQLite has one writer and needs no gates.

use super::db::Transaction;
use super::error::StoreError;
use super::sql::sql;
use crate::domain::account::Lineage;
use crate::domain::address::Address;
use crate::domain::domain_name::DomainName;
use crate::domain::id::AccountId;

/// Keeps the standing of a recipient as it is until the transaction ends: a change of the policy,
/// of the address or of an account above waits, and one that came first is seen by the statements
/// that follow. (They must follow: what one statement sees is from before its locks.)
pub(super) async fn pass(
    tx: &mut Transaction,
    lineage: &Lineage,
    agent: AccountId,
    address: &Address,
) -> Result<(), StoreError> {
    if !tx.has_company() {
        return Ok(());
    }
    sql("WITH accounts AS MATERIALIZED (
             SELECT pg_advisory_xact_lock_shared(hashtextextended('account', id))
             FROM unnest(CAST(ARRAY[$2, $3, $4, $1] AS BIGINT[])) AS id WHERE id IS NOT NULL),
         domain AS MATERIALIZED (
             SELECT pg_advisory_xact_lock_shared(hashtextextended('domain ' || $5, 0))),
         policy AS (SELECT 1 FROM inbound_policies WHERE agent_id = $1 FOR SHARE)
         SELECT (SELECT COUNT(*) FROM accounts) + (SELECT COUNT(*) FROM domain)
              + (SELECT COUNT(*) FROM policy) AS passed")
    .bind(agent)
    .bind(lineage.partner)
    .bind(lineage.reseller)
    .bind(lineage.organization)
    .bind(address.domain().as_str())
    .fetch_one(tx.on())
    .await
    .map(drop)
}

/// Lets the commits that have passed the gate of this account end, and no other begin until this
/// transaction ends: for changes of its state, its policy, its list.
pub(super) async fn close_account(
    tx: &mut Transaction,
    account: AccountId,
) -> Result<(), StoreError> {
    if !tx.has_company() {
        return Ok(());
    }
    sql("SELECT pg_advisory_xact_lock(hashtextextended('account', $1))")
        .bind(account)
        .execute(tx.on())
        .await
        .map(drop)
}

/// The same for a domain: for changes of its addresses.
pub(super) async fn close_domain(
    tx: &mut Transaction,
    domain: &DomainName,
) -> Result<(), StoreError> {
    if !tx.has_company() {
        return Ok(());
    }
    sql("SELECT pg_advisory_xact_lock(hashtextextended('domain ' || $1, 0))")
        .bind(domain.as_str())
        .execute(tx.on())
        .await
        .map(drop)
}

/// Whether this transaction alone does work of this kind until it ends, on any gateway. Whoever
/// comes second goes on without: the work is done anyway.
pub(super) async fn alone(tx: &mut Transaction, work: &'static str) -> Result<bool, StoreError> {
    if !tx.has_company() {
        return Ok(true);
    }
    let row = sql("SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0)) AS alone")
        .bind(work)
        .fetch_one(tx.on())
        .await?;
    Ok(row.get("alone")?)
}
