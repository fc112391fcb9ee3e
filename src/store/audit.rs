//! The audit log: a row is written in the transaction of what it tells, so that nothing is done
//! without one.

use serde_json::json;

use super::db::{Store, Transaction};
use super::error::StoreError;
use super::page::{Page, within};
use super::row::Columns;
use super::sql::{Row, sql};
use crate::domain::audit::{Act, Actor, Change, Deed, Entry, Who};
use crate::domain::id::{AccountId, AuditId, KeyId, MemberId, Mint};
use crate::domain::scope::Scope;

/// What was done to an account.
pub(super) struct Note<'a> {
    pub account: AccountId,
    pub deed: Deed,
    /// What exactly it was done to; never a secret.
    pub object: String,
    pub changes: &'a [Change],
}

/// Writes down who did what. A request that may be carried out once only is refused here
/// (`StoreError::Repeated`) if it was, and one about an account that was deleted meanwhile
/// (`StoreError::NoAccount`): its transaction must be dropped then.
pub(super) async fn note(
    tx: &mut Transaction,
    mint: &Mint,
    act: Act<'_>,
    note: Note<'_>,
) -> Result<(), StoreError> {
    let Actor { who, remote, request, once } = act.by;
    if let Some(once) = once {
        let new = sql("INSERT INTO idempotency_keys (digest, request, created_at)
                       VALUES ($1, $2, $3) ON CONFLICT (digest) DO NOTHING")
        .bind(once.digest.as_slice())
        .bind(once.request.as_slice())
        .bind(act.at)
        .execute(tx.on())
        .await?;
        if new == 0 {
            return Err(StoreError::Repeated);
        }
    }
    let (actor, key, account, member) = match who {
        Who::Operator => ("operator", None, None, None),
        Who::Gateway => ("gateway", None, None, None),
        Who::Key { key, account, member } => ("key", Some(key.0), Some(*account), *member),
    };
    let changes = note.changes.iter().map(|one| json!([one.field, one.before, one.after]));
    let written = sql(
        "INSERT INTO audit_entries (id, at, partner_id, reseller_id, organization_id, agent_id, deed, object,
                            changes, actor, actor_account, actor_member, key_id, remote_address,
                            request_id, count)
         SELECT $1, $2, partner_id, reseller_id, organization_id, agent_id, $3, $4, $5, $6, $7, $8,
                $9, $10, $11, 1
         FROM accounts WHERE id = $12 AND deleted_at IS NULL",
    )
    // Whoever deletes the account waits, and sees what was done to it.
    .locking("FOR SHARE")
    .bind(mint.uuid())
    .bind(act.at)
    .bind(note.deed.as_str())
    .bind(note.object)
    .bind(serde_json::Value::from_iter(changes).to_string())
    .bind(actor)
    .bind(account)
    .bind(member.map(MemberId::get))
    .bind(key)
    .bind(remote.map(|address| address.to_string()))
    .bind(*request)
    .bind(note.account)
    .execute(tx.on())
    .await?;
    match written {
        1 => Ok(()),
        0 => Err(StoreError::NoAccount),
        rows => Err(StoreError::Corrupt {
            table: "audit_entries",
            detail: format!("{rows} rows for one note"),
        }),
    }
}

impl Store {
    /// A page of what was done in this scope, the newest first.
    pub async fn audit(&self, scope: &Scope, page: &Page) -> Result<Vec<Entry>, StoreError> {
        let mut query =
            sql("SELECT id, at, partner_id, reseller_id, organization_id, agent_id, deed,
                    object, changes, actor, actor_account, actor_member, key_id, remote_address,
                    request_id, count FROM audit_entries WHERE ");
        within(&mut query, scope);
        page.read(&mut query);
        let rows = query.fetch_all(self.reader()).await?;
        let entries: Vec<Entry> = rows.iter().map(entry).collect::<Result<_, _>>()?;
        Ok(page.shown(entries))
    }
}

fn entry(row: &Row) -> Result<Entry, StoreError> {
    let columns = Columns { table: "audit_entries", row };
    let who = match columns.text("actor")?.as_str() {
        "operator" => Who::Operator,
        "gateway" => Who::Gateway,
        _ => Who::Key {
            key: KeyId(columns.uuid("key_id")?),
            account: columns.account("actor_account")?,
            member: columns.optional_integer("actor_member")?.and_then(MemberId::new),
        },
    };
    let changes: Vec<(String, Option<String>, Option<String>)> = columns.json("changes")?;
    let change = |(field, before, after)| Change { field, before, after };
    Ok(Entry {
        id: AuditId(columns.uuid("id")?),
        at: columns.time("at")?,
        lineage: columns.lineage()?,
        deed: columns.word("deed")?,
        object: columns.text("object")?,
        changes: changes.into_iter().map(change).collect(),
        actor: Actor {
            who,
            remote: columns.optional_word("remote_address")?,
            request: columns.optional_uuid("request_id")?,
            once: None,
        },
        count: columns.count("count")?,
    })
}
