//! `/audit`: changes to an account and all below it with their actors, and refused attempts.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use crate::app::access::Caller;
use crate::domain::audit::{self, Change, Deed, Doer, Who};
use crate::domain::id::{AuditId, KeyId};
use crate::http::typed::{Call, Limit, ListPlace, Next, Problem, WithHeaders, page, successes};
use crate::store::{AuditFilter, Cursor, Page};
use crate::wire::{self, DECIMAL, Date, Id, Moment, Number, Seconds, Texts, Word, mark, schema_of};

/// A change, or an attempt that was refused.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AuditEntry")]
pub struct Entry {
    /// The id of the entry.
    id: Id,
    /// When the change was made.
    date: Date,
    /// The date in Unix seconds.
    timestamp: Seconds,
    /// The change.
    action: Word<Deed>,
    /// The account that was changed.
    account_id: Option<Number>,
    /// The part of the account that was changed: an address, the id of a key and the like.
    object: String,
    /// The values before, as texts by field; a list for a repeated field.
    before: Map<String, Value>,
    /// The values after, in the same form.
    after: Map<String, Value>,
    /// The actor.
    by: By,
    /// The address of the actor; null where it is not shown.
    #[schemars(example = &"192.0.2.7")]
    remote_address: Option<String>,
    /// The request of the actor.
    request_id: Option<Id>,
    /// How many attempts this entry counts; 1 for a change.
    count: u64,
}

/// An actor.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct By {
    /// The kind of actor.
    #[schemars(extend("enum" = ["key", "operator", "gateway"]))]
    r#type: &'static str,
    /// The key; null where it is not shown.
    key_id: Option<Id>,
    /// The account that owned the key.
    account_id: Option<Number>,
    /// The member, if it was a member's key; null where it is not shown.
    member_id: Option<Number>,
}

/// Lists changes to an account and all below it, with their actors
///
/// Newest first. A page may end before it is full: next and Link lead on.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct List {
    /// Only this kind of change.
    action: Option<Word<Deed>>,
    /// Only by this key, this account with its members, this member, the operator or the gateway.
    by: Option<Actor>,
    /// Only changes from then on.
    since: Option<Moment>,
    /// Only changes before then.
    until: Option<Moment>,
    limit: Option<Limit>,
    /// Only older items: `next`, a cursor, or the id of an item.
    before: Option<ListPlace>,
    /// Only newer items: a cursor, or the id of an item.
    after: Option<ListPlace>,
}

/// A key by its UUID, an account or a member by its id, or one of two words.
#[derive(Clone, Copy, Debug)]
struct Actor(Doer);

schema_of!([] Actor, "Actor", json!({
    "anyOf": [
        { "type": "string", "enum": ["operator", "gateway"] },
        { "type": "string", "format": "uuid" },
        { "type": "string", "pattern": DECIMAL, mark::KIND: mark::USER_ID },
    ],
    mark::EXPECTED: "the id of a key, of an account or of a member, or one of: operator, gateway",
}));

impl<'de> Deserialize<'de> for Actor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let doer = match &*text {
            "operator" => Some(Doer::Operator),
            "gateway" => Some(Doer::Gateway),
            _ => match wire::uuid(&text) {
                Some(id) => Some(Doer::Key(KeyId(id))),
                None => text.parse().ok().map(Doer::User),
            },
        };
        doer.map(Self).ok_or_else(|| D::Error::custom("no actor"))
    }
}

successes! {
    Listed {
        /// Newest first.
        audit: Texts<Entry>,
        /// Send it as `before` to get the next page; null on the last page.
        next: Option<Next>,
    } = OK "audit log found", pages;
}

/// Returns a page, which ends before it is full after passing over many entries.
pub async fn list(call: Call, request: List) -> Result<WithHeaders<Listed>, Problem> {
    let (log, scope) = (&call.http.use_cases.audit, &call.target.scope);
    let find = |id| log.place_of(scope, AuditId(id));
    let mut page =
        page::requested(&call, request.limit, request.before, request.after, find).await?;
    let filter = &AuditFilter {
        deed: request.action.map(|Word(deed)| deed),
        doer: request.by.map(|Actor(doer)| doer),
        since: request.since.map(|Moment(at)| at),
        until: request.until.map(|Moment(at)| at),
    };
    page.until = log.end_of_entries(scope, filter, &page, call.http.rules.limits.max_walk).await?;
    let part = |part: Page| async move { log.entries(scope, filter, &part).await };
    let row = |one: &audit::Entry| {
        page::row(Cursor { at: one.at, id: one.id.0 }, &shape(one, &call.caller))
    };
    let rows = page::read(&call, page, part, row).await?;
    Ok(rows.linked(&call, Listed { audit: rows.list()?, next: rows.next() }))
}

fn shape(entry: &audit::Entry, caller: &Caller) -> Entry {
    let audit::Actor { who, remote, request, once: _ } = &entry.actor;
    let seen = is_seen(who, caller);
    Entry {
        id: Id(entry.id.0),
        date: Date(entry.at),
        timestamp: Seconds(entry.at),
        action: Word(entry.deed),
        account_id: entry.lineage.ids().last().map(Number::from),
        object: entry.object.clone(),
        before: values(&entry.changes, |change| change.before.as_ref()),
        after: values(&entry.changes, |change| change.after.as_ref()),
        by: by(who, seen),
        remote_address: remote.filter(|_| seen).map(|address| address.to_string()),
        request_id: request.map(Id),
        count: entry.count,
    }
}

/// Whether the caller sees the details of an actor: key, member and addresses. Those of an account
/// above the caller's own are hidden. A restricted member sees only its own, and those of its
/// Agents.
fn is_seen(who: &Who, caller: &Caller) -> bool {
    let Who::Key { account, member, .. } = who else { return true };
    let Some(agents) = caller.permitted() else {
        let mut above = caller.account.lineage.ids().filter(|id| *id != caller.account.id);
        return !above.any(|above| above == *account);
    };
    let own = caller.member.as_ref().map(|member| member.id);
    *member == own || member.is_none() && agents.contains(account)
}

fn by(who: &Who, seen: bool) -> By {
    let (r#type, key, account, member) = match who {
        Who::Operator => ("operator", None, None, None),
        Who::Gateway => ("gateway", None, None, None),
        Who::Key { key, account, member } => ("key", Some(key), Some(*account), *member),
    };
    By {
        r#type,
        key_id: key.filter(|_| seen).map(|key| Id(key.0)),
        account_id: account.map(Number::from),
        member_id: member.filter(|_| seen).map(Number::from),
    }
}

/// Values by field; a list for a repeated field.
fn values<'e>(
    changes: &'e [Change],
    side: impl Fn(&'e Change) -> Option<&'e String>,
) -> Map<String, Value> {
    let mut values = Map::new();
    for change in changes {
        let Some(value) = side(change) else { continue };
        match values.get_mut(&change.field) {
            None => drop(values.insert(change.field.clone(), value.as_str().into())),
            Some(Value::Array(list)) => list.push(value.as_str().into()),
            Some(one) => *one = json!([one.take(), value]),
        }
    }
    values
}
