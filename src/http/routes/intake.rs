//! `/email/intake`: the verdict on every message, and its reasons.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::mailbox::intake::{IntakeRecord, WholeIntakeRecord};
use crate::domain::contact::Handle;
use crate::domain::id::{AccountId, IntakeId};
use crate::domain::intake_record;
use crate::domain::reason::Reason;
use crate::domain::verdict::Outcome;
use crate::http::typed::{
    Call, Limit, ListPlace, Next, Problem, WithHeaders, page, refused, successes, wrong,
};
use crate::store::{Cursor, IntakeFilter, Page};
use crate::wire::{Id, Moment, Named, Texts, Word};

/// RFC 5321 §4.5.3.1.3: a path has at most 256 octets.
const LONGEST_PATH: usize = 256;

/// Lists intake records
///
/// Newest first. A page may end before it is full: next continues.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct List {
    /// Records of this Agent.
    agent_id: Option<Named<AccountId>>,
    /// Alias of agentId.
    agent: Option<Named<AccountId>>,
    /// Records of this sender; other sources than email as sms:+15551231234.
    #[schemars(example = &"boss@good.example")]
    sender: Option<String>,
    /// Records of this recipient.
    #[schemars(length(max = LONGEST_PATH))]
    recipient: Option<String>,
    /// Records with this verdict.
    verdict: Option<Word<Outcome>>,
    /// Records with this reason.
    reason: Option<Word<Reason>>,
    /// Records from then on.
    since: Option<Moment>,
    /// Records before then.
    until: Option<Moment>,
    limit: Option<Limit>,
    /// Only older items: `next`, a cursor, or the id of an item.
    before: Option<ListPlace>,
    /// Only newer items: a cursor, or the id of an item. `next` continues with older ones here,
    /// too.
    after: Option<ListPlace>,
}

/// Returns a page, which ends before it is full after passing over many records; `next` continues
/// after them.
pub async fn list(call: Call, request: List) -> Result<WithHeaders<Listed>, Problem> {
    let sender = request.sender.as_deref().map(Handle::asked).transpose();
    let filter = IntakeFilter {
        sender: sender.map_err(|error| refused("sender", &error))?,
        recipient: request.recipient,
        verdict: request.verdict.map(|Word(verdict)| verdict),
        reason: request.reason.map(|Word(reason)| reason),
        since: request.since.map(|Moment(at)| at),
        until: request.until.map(|Moment(at)| at),
    };
    let scope = match (request.agent_id, request.agent) {
        (None, None) => call.target.scope.clone(),
        (Some(Named(agent)), None) => call.agent_named("agentId", agent).await?.scope,
        (None, Some(Named(agent))) => call.agent_named("agent", agent).await?.scope,
        (Some(_), Some(_)) => {
            return Err(wrong("agent", "is the same filter as agentId: send one"));
        }
    };
    let mailbox = &call.http.use_cases.mailbox;
    let find = async |id| {
        let found = mailbox.intake_record(&scope, IntakeId(id)).await?;
        Ok(found.as_ref().map(place))
    };
    let mut page =
        page::requested(&call, request.limit, request.before, request.after, find).await?;
    let most = call.http.rules.limits.max_walk;
    page.until = mailbox.end_of_intake_records(&scope, &filter, &page, most).await?;
    let (scope, filter) = (&scope, &filter);
    let part = |part: Page| async move { mailbox.intake_records(scope, filter, &part).await };
    let row = |one: &intake_record::IntakeRecord| page::row(place(one), &IntakeRecord::from(one));
    let rows = page::read(&call, page, part, row).await?;
    Ok(rows.linked(&call, Listed { intake: rows.list()?, next: rows.next() }))
}

/// Shows an intake record with its evidence
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Show {
    /// The record.
    id: Id,
}

pub async fn show(call: Call, request: Show) -> Result<RecordAnswer, Problem> {
    let Id(id) = request.id;
    let record =
        call.http.use_cases.mailbox.intake_record(&call.target.scope, IntakeId(id)).await?;
    let record = record.ok_or_else(|| Problem::not_found("intake record"))?;
    Ok(RecordAnswer { intake: (&record).into() })
}

successes! {
    Listed {
        /// Newest first.
        intake: Texts<IntakeRecord>,
        /// Send it as `before` to get the next page; null on the last page.
        next: Option<Next>,
    } = OK "intake records found", pages;
    RecordAnswer { intake: WholeIntakeRecord } = OK "intake record found";
}

fn place(record: &intake_record::IntakeRecord) -> Cursor {
    Cursor { at: record.at, id: record.id.0 }
}
