//! The audit log. Each entry is written in the transaction of the change that it records.

use serde_json::json;

use super::idempotency;
use crate::domain::audit::{Act, Actor, Change, Deed, Doer, Entry, Who};
use crate::domain::clock::{TimeRange, Timestamp};
use crate::domain::id::{AccountId, AuditId, KeyId, MemberId, Mint};
use crate::domain::scope::Scope;
use crate::store::base::Base;
use crate::store::base::page::{Page, within};
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::row::{Columns, stored};
use crate::store::engine::sql::{Row, Statement, sql};

/// A change of an account, for the log.
pub struct Note<'a> {
    pub account: AccountId,
    pub deed: Deed,
    /// The object of the change; never a secret.
    pub object: String,
    pub changes: &'a [Change],
}

impl<'a> Note<'a> {
    pub fn new(
        account: AccountId,
        deed: Deed,
        object: &impl ToString,
        changes: &'a [Change],
    ) -> Self {
        Self { account, deed, object: object.to_string(), changes }
    }
}

/// Conditions on the entries of a list; absent fields match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    pub deed: Option<Deed>,
    pub doer: Option<Doer>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

/// Writes an entry and remembers the Idempotency-Key of the request. Fails with `Repeated` if
/// another request used the key, with `NoAccount` if the account was deleted: the transaction must
/// be dropped.
pub async fn note(
    tx: &mut Transaction,
    mint: &Mint,
    act: Act<'_>,
    note: Note<'_>,
) -> Result<(), StoreError> {
    if let Some(once) = &act.by.once {
        // A caller without a request id gets a new holder each time.
        let holder = act.by.request.unwrap_or_else(|| mint.uuid());
        let now = mint.clock().steady_of(act.at);
        if !idempotency::remember(tx, once, holder, now, None).await? {
            return Err(StoreError::Repeated);
        }
    }
    match insert(tx, AuditId(mint.uuid()), act, note, 1).await? {
        1 => Ok(()),
        0 => Err(StoreError::NoAccount),
        rows => Err(StoreError::Corrupt {
            table: "audit_entries",
            detail: format!("expected 1 new row, found {rows}"),
        }),
    }
}

async fn insert(
    tx: &mut Transaction,
    id: AuditId,
    act: Act<'_>,
    note: Note<'_>,
    count: u64,
) -> Result<u64, StoreError> {
    let Actor { who, remote, request, once: _ } = act.by;
    let (actor, key, account, member) = match who {
        Who::Operator => ("operator", None, None, None),
        Who::Gateway => ("gateway", None, None, None),
        Who::Key { key, account, member } => ("key", Some(key.0), Some(*account), *member),
    };
    let changes = note.changes.iter().map(|one| json!([one.field, one.before, one.after]));
    let mut query = sql("INSERT INTO audit_entries
                (id, at, partner_id, reseller_id, organization_id, agent_id, deed, object, changes,
                 actor, actor_account, actor_member, key_id, remote_address, request_id, count)
         SELECT $1, $2, partner_id, reseller_id, organization_id, agent_id, $3, $4, $5, $6, $7, $8,
                $9, $10, $11, $13
         FROM accounts WHERE id = $12 AND deleted_at IS NULL");
    // A deletion of the account waits, and then sees this change.
    query.push(if tx.has_concurrent_writers() { " FOR SHARE" } else { "" });
    query.push(" ON CONFLICT (id) DO UPDATE SET count = audit_entries.count + excluded.count");
    query
        .bind(id.0)
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
        .bind(stored(count))
        .execute(tx.on())
        .await
}

impl Base {
    /// Returns a page of the matching entries in `scope`, the newest first.
    pub async fn audit(
        &self,
        scope: &Scope,
        filter: &AuditFilter,
        page: &Page,
    ) -> Result<Vec<Entry>, StoreError> {
        let mut query =
            sql("SELECT id, at, partner_id, reseller_id, organization_id, agent_id, deed,
                    object, changes, actor, actor_account, actor_member, key_id, remote_address,
                    request_id, count FROM audit_entries WHERE ");
        within(&mut query, scope);
        filter.narrow(&mut query);
        page.read_between(&mut query, TimeRange { since: filter.since, before: filter.until });
        let rows = query.fetch_all(self.reader()).await?;
        let entries: Vec<Entry> = rows.iter().map(entry).collect::<Result<_, _>>()?;
        Ok(page.newest_first(entries))
    }

    /// Adds to the count of refused attempts in the entry with this id; the first call creates it.
    /// The entry belongs to the key's account; a deleted account gets none.
    pub async fn count_denials(
        &self,
        id: AuditId,
        act: Act<'_>,
        operation: &str,
        count: u64,
    ) -> Result<(), StoreError> {
        let Who::Key { account, .. } = act.by.who else { return Ok(()) };
        transact!(self, async |tx| {
            let denied = Note::new(account, Deed::AccessDenied, &operation, &[]);
            insert(&mut tx, id, act, denied, count).await?;
            tx.commit().await
        })
    }
}

impl AuditFilter {
    /// Whether the filter may leave out entries within its time.
    pub fn passes_over(&self) -> bool {
        let Self { deed, doer, since: _, until: _ } = self;
        deed.is_some() || doer.is_some()
    }

    /// Appends a comparison for each field that is given. The page compares the time.
    fn narrow(&self, query: &mut Statement) {
        if let Some(deed) = self.deed {
            query.push(" AND deed = ").push_value(deed.as_str());
        }
        match self.doer {
            None => query,
            Some(Doer::Operator) => query.push(" AND actor = 'operator'"),
            Some(Doer::Gateway) => query.push(" AND actor = 'gateway'"),
            Some(Doer::Key(key)) => query.push(" AND key_id = ").push_value(key.0),
            Some(Doer::User(id)) => {
                query.push(" AND (actor_account = ").push_value(id);
                query.push(" OR actor_member = ").push_value(id).push(")")
            }
        };
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
