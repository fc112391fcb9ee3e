//! Previews a draft of a policy: for the mail of the last days, by its records, or for one message,
//! by examining it. Writes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

use super::judge::{self, Case};
use super::{Examination, examine_file};
use crate::domain::account::{Account, Lineage};
use crate::domain::address::Address;
use crate::domain::clock::{TimeRange, Timestamp};
use crate::domain::draft::Draft;
use crate::domain::id::Mint;
use crate::domain::intake_record::IntakeRecord;
use crate::domain::policy::Mode;
use crate::domain::ports::{Client, Envelope, Recipient};
use crate::domain::scope::Scope;
use crate::domain::source::Source;
use crate::domain::verdict::Verdict;
use crate::rules::{BareLineEnds, IntakeRules, RetainedKind, RetentionRules};
use crate::store::{
    Cursor, Direction, List, Page, PastVerdict, Standing, Store, StoreError, truncate_page,
};
use crate::verify::Authenticator;

const DAY: Duration = Duration::from_secs(86_400);
/// Records read from the store at a time.
const STEP: u32 = 500;

/// Computes the changes that a draft would make.
#[derive(Clone, Debug)]
pub struct Preview {
    store: Store,
    authenticator: Arc<Authenticator>,
    rules: Arc<IntakeRules>,
    bare_line_ends: BareLineEnds,
    retention: RetentionRules,
    mint: Mint,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedVerdict {
    pub past: PastVerdict,
    pub would: Verdict,
}

/// The verdicts on the mail of the last days, before and under the draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastPreview {
    pub was: Tally,
    pub would: Tally,
    /// The newest first.
    pub changed: Vec<ChangedVerdict>,
    /// Whether every record of these days was read.
    pub complete: bool,
    /// The beginning of the time that was read.
    pub since: Timestamp,
}

/// Number of records with each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Tally {
    /// Accepted records.
    pub accepted: u64,
    /// Refused records.
    pub refused: u64,
    /// Deferred records.
    pub deferred: u64,
}

impl Tally {
    pub const fn count(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Accepted => self.accepted += 1,
            Verdict::Refused(_) => self.refused += 1,
            Verdict::Deferred(_) => self.deferred += 1,
        }
    }

    pub const fn total(self) -> u64 {
        self.accepted + self.refused + self.deferred
    }
}

/// The records of one message under the present policy and under the draft; neither is stored.
#[derive(Clone, Debug)]
pub struct MessagePreview {
    pub current: IntakeRecord,
    pub draft: IntakeRecord,
}

impl Preview {
    /// Uses the records of `store`, and examines as the gateway does, with its `rules` and line
    /// ends. The `authenticator` is another than the gateway's.
    pub const fn new(
        store: Store,
        authenticator: Arc<Authenticator>,
        rules: Arc<IntakeRules>,
        bare_line_ends: BareLineEnds,
        retention: RetentionRules,
        mint: Mint,
    ) -> Self {
        Self { store, authenticator, rules, bare_line_ends, retention, mint }
    }

    pub fn max_message_bytes(&self) -> usize {
        self.rules.limits.max_message_bytes
    }

    /// How a CR or an LF that stands alone in a message is treated.
    pub const fn bare_line_ends(&self) -> BareLineEnds {
        self.bare_line_ends
    }

    /// Returns the days that records of an account of this lineage are kept.
    pub fn days(&self, lineage: &Lineage) -> u64 {
        let kept = self.retention.keep(RetainedKind::IntakeRecords, lineage);
        kept.map_or(u64::MAX, |kept| kept.as_secs() / DAY.as_secs())
    }

    /// Computes the verdicts of the last `days` under the draft, of `most` records at most.
    pub async fn past(
        &self,
        agent: &Account,
        scope: &Scope,
        draft: &Draft,
        days: u64,
        most: u32,
    ) -> Result<PastPreview, StoreError> {
        let mode = self.mode(agent).await?;
        let span = Duration::from_secs(days.saturating_mul(DAY.as_secs()));
        let since = self.mint.clock().now().minus(span);
        let (was, would) = (Tally::default(), Tally::default());
        let mut found = PastPreview { was, would, changed: Vec::new(), complete: true, since };
        let (mut left, mut from) = (most, None);
        // Records that wait to be erased are skipped; they count towards `most`.
        let until = self.end_of_past(scope, since, most).await?;
        loop {
            // Reads one more than is used, to learn whether there are more.
            let step = STEP.min(left);
            let page = Page { limit: step.saturating_add(1), from, until };
            let mut records = self.store.past_verdicts(scope, &page, since).await?;
            let more = truncate_page(&mut records, step);
            let last = records.last().map(|last| Cursor { at: last.at, id: last.id.0 });
            self.compare(agent, draft, mode, records, &mut found).await?;
            let Some(last) = last.filter(|_| more) else {
                if let Some(until) = until {
                    (found.complete, found.since) = (false, until.at);
                }
                return Ok(found);
            };
            left = left.saturating_sub(step);
            if left == 0 {
                (found.complete, found.since) = (false, last.at);
                return Ok(found);
            }
            from = Some((Direction::Before, last));
        }
    }

    async fn end_of_past(
        &self,
        scope: &Scope,
        since: Timestamp,
        most: u32,
    ) -> Result<Option<Cursor>, StoreError> {
        if self.store.erasures(0, 1).await?.is_empty() {
            return Ok(None);
        }
        let whole = Page { limit: 1, from: None, until: None };
        let time = TimeRange { since: Some(since), before: None };
        let most = most.saturating_add(1);
        self.store.end_of_walk(List::IntakeRecords, scope, &whole, time, most).await
    }

    async fn compare(
        &self,
        agent: &Account,
        draft: &Draft,
        mode: Mode,
        mut records: Vec<PastVerdict>,
        found: &mut PastPreview,
    ) -> Result<(), StoreError> {
        // A policy applies to mail only.
        records.retain(|record| record.source == Source::Email);
        let senders: BTreeSet<Address> =
            records.iter().filter_map(|record| record.sender.clone()).collect();
        let listed = self.store.listed_among(agent.id, &senders).await?;
        for past in records {
            let sender = past.sender.as_ref();
            let listed = sender.is_some_and(|sender| listed.contains(sender));
            let would = draft.verdict(past.verdict, sender, mode, listed);
            found.was.count(past.verdict);
            found.would.count(would);
            if would != past.verdict {
                found.changed.push(ChangedVerdict { past, would });
            }
        }
        Ok(())
    }

    /// Examines one message now, and makes its records under the policy and under the draft.
    pub async fn message(
        &self,
        agent: &Account,
        draft: &Draft,
        raw: &Bytes,
    ) -> Result<MessagePreview, StoreError> {
        let now = self.mint.clock().now();
        let address = self.store.addresses(agent.id).await?.into_iter().next();
        let recipient = address.map(|held| Recipient {
            agent: Some(agent.id),
            as_sent: held.address.to_string(),
            address: held.address,
            tag: None,
            shares: None,
        });
        let envelope = envelope(recipient.clone());
        let examination = examine_file(&self.authenticator, &self.rules, &envelope, raw, now).await;
        let current = self.standing(agent, recipient.as_ref(), &examination).await?;
        let listed = match &examination.sender {
            Some(sender) => draft.lists(sender, current.listed),
            None => current.listed,
        };
        let under = Standing { mode: draft.mode(current.mode), listed, ..current };
        let recipient = recipient.map(|recipient| recipient.as_sent).unwrap_or_default();
        let case = Case { envelope: &envelope, recipient: &recipient, visit: None, now };
        let record = |standing: &Standing| {
            let mut record = judge::record(&case, &examination, standing, &self.mint);
            (record.lineage, record.agent) = (agent.lineage, Some(agent.id));
            record
        };
        Ok(MessagePreview { current: record(&current), draft: record(&under) })
    }

    /// Returns the standing as if the Agent answered; without address and sender, its policy alone.
    async fn standing(
        &self,
        agent: &Account,
        recipient: Option<&Recipient>,
        examination: &Examination,
    ) -> Result<Standing, StoreError> {
        let address = recipient.map(|recipient| &recipient.address);
        let sender = examination.sender.as_ref();
        let standing = match (address.or(sender), sender.or(address)) {
            (Some(address), Some(sender)) => self.store.standing(agent.id, address, sender).await?,
            _ => None,
        };
        let standing = match standing {
            Some(standing) => standing,
            None => Standing {
                answers: true,
                active: agent.active,
                mode: self.mode(agent).await?,
                policy_version: 0,
                listed: false,
                relay: None,
            },
        };
        Ok(Standing { answers: true, ..standing })
    }

    async fn mode(&self, agent: &Account) -> Result<Mode, StoreError> {
        let policy = self.store.policy(agent.id).await?;
        let policy = policy.ok_or_else(|| StoreError::Corrupt {
            table: "inbound_policies",
            detail: format!("Agent {} has no policy", agent.id),
        })?;
        Ok(policy.mode)
    }
}

/// Makes the envelope of a file, whose client is unknown. SPF then has no identity, which changes
/// no verdict.
fn envelope(recipient: Option<Recipient>) -> Envelope {
    let client = Client {
        address: std::net::Ipv4Addr::UNSPECIFIED.into(),
        helo: String::new(),
        esmtp: true,
        tls: None,
    };
    Envelope {
        client,
        reverse_path: String::new(),
        recipients: recipient.into_iter().collect(),
        smtputf8: true,
        posted: None,
        open_for: Duration::ZERO,
    }
}
