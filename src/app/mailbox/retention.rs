//! Retention: deletes rows older than `policies/retention.toml` keeps them, pass by pass.
//!
//! A pass walks through the steps, and within a step through the accounts. It deletes in short
//! transactions with pauses between them. One gateway deletes at a time. A pass that ended early
//! keeps its place in memory, and the next one continues there.

use std::error::Error;
use std::future::Future;
use std::mem;
use std::pin::pin;
use std::sync::Arc;

use tokio::time::sleep;

use crate::domain::clock::{Belief, Clock, Timestamp};
use crate::domain::id::AccountId;
use crate::rules::{RetainedKind, RetentionRules};
use crate::store::{Cursor, DueAccount, ExpiredRow, RetainingAccount, Store, StoreError};

#[derive(Debug)]
pub struct Retention {
    store: Store,
    clock: Clock,
    /// The clock for the ages of rows that carry a date; a step forward is not believed at once.
    belief: Belief,
    rules: Arc<RetentionRules>,
    place: PassPosition,
}

/// Rows that a pass deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    pub arrivals: u64,
    pub messages: u64,
    pub intake_records: u64,
    /// Events announced together count once.
    pub events: u64,
    pub audit: u64,
    /// Allowlist entries, configurations, versions and contacts of deleted accounts.
    pub leavings: u64,
    /// Idempotency-Keys that were kept long enough.
    pub requests: u64,
    /// Webhooks whose former secrets were deleted.
    pub secrets: u64,
    /// Sessions of the web console, and links to it, that expired.
    pub console_sessions: u64,
    /// Policies of reports on TLS.
    pub tls_reports: u64,
    pub batches: u64,
}

/// The steps of a pass, in this order.
#[derive(Clone, Copy)]
enum Step {
    Arrivals,
    /// Idempotency-Keys.
    Requests,
    /// Former secrets of webhooks that sign no more.
    Secrets,
    ConsoleSessions,
    /// Reports of senders on TLS.
    TlsReports,
    /// By account and its policy.
    Rows(RetainedKind),
    /// Rows left by deleted accounts. Contacts go after the messages that name them.
    Leavings,
}

const STEPS: &[Step] = &[
    Step::Arrivals,
    Step::Requests,
    Step::Secrets,
    Step::ConsoleSessions,
    Step::TlsReports,
    Step::Rows(RetainedKind::Messages),
    Step::Leavings,
    Step::Rows(RetainedKind::IntakeRecords),
    Step::Rows(RetainedKind::Events),
    Step::Rows(RetainedKind::Audit),
];

/// The place up to which the pass has come.
#[derive(Clone, Copy, Debug, Default)]
struct PassPosition {
    steps: usize,
    account: Option<AccountId>,
    /// The next account, whose rows are being deleted, and the last row deleted.
    row: Option<(AccountId, Cursor)>,
}

/// Why a pass ends early.
enum Halt {
    /// The pass has run `batches_per_pass` transactions.
    Enough,
    /// Another gateway is deleting.
    Taken,
    Failed(StoreError),
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl Retention {
    pub fn new(store: Store, clock: Clock, rules: Arc<RetentionRules>) -> Self {
        let belief = Belief::new(clock.clone(), rules.pass.calm());
        Self { store, clock, belief, rules, place: PassPosition::default() }
    }

    /// Runs passes until `stop`. Stopping rolls back the open transaction; its rows are still old
    /// when the next server starts.
    pub async fn run(mut self, stop: impl Future<Output = ()> + Send) {
        let passes = async {
            self.warn_of_unknown_accounts().await;
            loop {
                self.pass().await;
                sleep(self.rules.pass.interval()).await;
            }
        };
        tokio::select! {
            () = pin!(passes) => {}
            () = stop => {}
        }
    }

    /// Runs one pass. A failure ends it early and is only logged.
    pub async fn pass(&mut self) -> Passed {
        let mut passed = Passed::default();
        let ended = match self.run_steps(&mut passed).await {
            Ok(()) => "complete",
            Err(Halt::Enough) => "incomplete, the next pass continues",
            Err(Halt::Taken) => "left to another gateway",
            Err(Halt::Failed(error)) => {
                let error = &error as &(dyn Error + 'static);
                tracing::warn!(error, "retention failed; the next pass tries again");
                "failed"
            }
        };
        tracing::info!(
            retention.arrivals = passed.arrivals,
            retention.messages = passed.messages,
            retention.intake_records = passed.intake_records,
            retention.events = passed.events,
            retention.audit = passed.audit,
            retention.leavings = passed.leavings,
            retention.requests = passed.requests,
            retention.secrets = passed.secrets,
            retention.console_sessions = passed.console_sessions,
            retention.tls_reports = passed.tls_reports,
            retention.batches = passed.batches,
            "retention pass: {ended}"
        );
        passed
    }

    /// A misspelt id would keep rows forever, or delete rows that should stay.
    async fn warn_of_unknown_accounts(&self) {
        for id in self.rules.accounts() {
            match self.store.account(id).await {
                Ok(Some(_)) => {}
                Ok(None) => {
                    tracing::warn!("retention.toml names account {id}, which does not exist")
                }
                Err(error) => {
                    let error = &error as &(dyn Error + 'static);
                    return tracing::warn!(error, "cannot look up the accounts of retention.toml");
                }
            }
        }
    }

    async fn run_steps(&mut self, passed: &mut Passed) -> Result<(), Halt> {
        let (now, steady) = (self.belief.now(), self.clock.steady());
        while let Some(step) = STEPS.get(self.place.steps) {
            match step {
                Step::Arrivals => self.forget_arrivals(steady, passed).await?,
                Step::Requests => self.forget_requests(steady, passed).await?,
                Step::Secrets => self.forget_secrets(now, passed).await?,
                Step::ConsoleSessions => self.delete_console_sessions(now, passed).await?,
                Step::TlsReports => self.delete_tls_reports(now, passed).await?,
                Step::Rows(kept) => self.delete_rows_by_account(*kept, now, passed).await?,
                Step::Leavings => self.delete_all_leavings(passed).await?,
            }
            self.place = PassPosition { steps: self.place.steps + 1, ..PassPosition::default() };
        }
        self.place = PassPosition::default();
        Ok(())
    }

    async fn forget_arrivals(&self, now: Timestamp, passed: &mut Passed) -> Result<(), Halt> {
        loop {
            self.pause_between_batches(passed).await?;
            let gone = self.store.delete_arrivals(now, self.rows()).await?.ok_or(Halt::Taken)?;
            passed.batches += 1;
            passed.arrivals += gone;
            if gone < self.rules.pass.batch_rows.into() {
                return Ok(());
            }
        }
    }

    async fn forget_requests(&self, now: Timestamp, passed: &mut Passed) -> Result<(), Halt> {
        loop {
            let gone = self.store.forget_requests(now, self.rows()).await?.ok_or(Halt::Taken)?;
            passed.requests += gone;
            passed.batches += u64::from(gone > 0);
            if gone < self.rules.pass.batch_rows.into() {
                return Ok(());
            }
            self.pause_between_batches(passed).await?;
        }
    }

    async fn forget_secrets(&self, now: Timestamp, passed: &mut Passed) -> Result<(), Halt> {
        let mut behind = None;
        loop {
            let gone = self.store.forget_secrets(now, behind, self.rows()).await?;
            passed.secrets += gone.destinations;
            passed.batches += u64::from(gone.destinations > 0);
            behind = gone.more_behind;
            if behind.is_none() {
                return Ok(());
            }
            self.pause_between_batches(passed).await?;
        }
    }

    async fn delete_console_sessions(
        &self,
        now: Timestamp,
        passed: &mut Passed,
    ) -> Result<(), Halt> {
        loop {
            let gone = self.store.delete_console_sessions(now, self.rows()).await?;
            let gone = gone.ok_or(Halt::Taken)?;
            passed.console_sessions += gone;
            passed.batches += u64::from(gone > 0);
            if gone < self.rules.pass.batch_rows.into() {
                return Ok(());
            }
            self.pause_between_batches(passed).await?;
        }
    }

    async fn delete_tls_reports(&self, now: Timestamp, passed: &mut Passed) -> Result<(), Halt> {
        let until = now.minus(self.rules.tls_reports());
        loop {
            let gone = self.store.delete_tls_reports(until, self.rows()).await?;
            let gone = gone.ok_or(Halt::Taken)?;
            passed.tls_reports += gone;
            passed.batches += u64::from(gone > 0);
            if gone < self.rules.pass.batch_rows.into() {
                return Ok(());
            }
            self.pause_between_batches(passed).await?;
        }
    }

    async fn delete_rows_by_account(
        &mut self,
        kept: RetainedKind,
        now: Timestamp,
        passed: &mut Passed,
    ) -> Result<(), Halt> {
        loop {
            let accounts = self.store.accounts_after(self.place.account, self.rows()).await?;
            let Some(last) = accounts.last() else { return Ok(()) };
            let due: Vec<DueAccount> = accounts
                .iter()
                .filter_map(|keeper| {
                    let until = self.until(kept, keeper, now)?;
                    Some(DueAccount { account: keeper.account, kind: keeper.kind, until })
                })
                .collect();
            let due = self.store.with_expired(kept, &due).await?;
            self.delete_of(kept, &due, passed).await?;
            self.place.account = Some(last.account);
        }
    }

    /// Returns the time before which rows of an account are deleted, or None if they are kept
    /// forever. All mail of a deleted account goes at once. Its other rows, such as who deleted it,
    /// stay as long as those of any account.
    fn until(
        &self,
        kept: RetainedKind,
        keeper: &RetainingAccount,
        now: Timestamp,
    ) -> Option<Timestamp> {
        if keeper.deleted && kept == RetainedKind::Messages {
            return Some(Timestamp::from_millis(i64::MAX));
        }
        Some(now.minus(self.rules.keep(kept, &keeper.lineage)?))
    }

    async fn delete_all_leavings(&mut self, passed: &mut Passed) -> Result<(), Halt> {
        loop {
            let accounts = self.store.accounts_after(self.place.account, self.rows()).await?;
            let Some(last) = accounts.last() else { return Ok(()) };
            let deleted = accounts.iter().filter(|keeper| keeper.deleted);
            let deleted: Vec<AccountId> = deleted.map(|keeper| keeper.account).collect();
            for account in self.store.with_leftovers(&deleted).await? {
                loop {
                    self.pause_between_batches(passed).await?;
                    let gone = self.store.delete_leftovers(account, self.rows()).await?;
                    let gone = gone.ok_or(Halt::Taken)?;
                    passed.batches += 1;
                    passed.leavings += gone;
                    if gone < self.rules.pass.batch_rows.into() {
                        break;
                    }
                }
            }
            self.place.account = Some(last.account);
        }
    }

    /// Gathers expired rows of several accounts into batches, and deletes these.
    async fn delete_of(
        &mut self,
        kept: RetainedKind,
        due: &[DueAccount],
        passed: &mut Passed,
    ) -> Result<(), Halt> {
        let mut batch = Vec::new();
        let mut gathered = self.place.account;
        for due in due {
            let here = self.place.row.filter(|(account, _)| *account == due.account);
            let mut from = here.map(|(_, cursor)| cursor);
            loop {
                let room = self.rows().saturating_sub(batch.len());
                let found = self.store.expired(kept, due, from, room).await?;
                let more = found.len() == room;
                from = found.last().map(|row| row.place).or(from);
                batch.extend(found);
                if !more {
                    break;
                }
                self.delete(kept, mem::take(&mut batch), passed).await?;
                let row = from.map(|cursor| (due.account, cursor));
                self.place = PassPosition { account: gathered, row, ..self.place };
            }
            gathered = Some(due.account);
        }
        self.delete(kept, batch, passed).await
    }

    /// Deletes a batch in one transaction, or in several if many rows depend on it.
    async fn delete(
        &self,
        kept: RetainedKind,
        batch: Vec<ExpiredRow>,
        passed: &mut Passed,
    ) -> Result<(), Halt> {
        let mut rest = batch.as_slice();
        while !rest.is_empty() {
            self.pause_between_batches(passed).await?;
            let (now, later) = rest.split_at(self.as_many_as_fit(rest));
            let deleted = self.store.delete_expired(kept, now, self.rows()).await?;
            let deleted = deleted.ok_or(Halt::Taken)?;
            passed.batches += 1;
            *match kept {
                RetainedKind::Messages => &mut passed.messages,
                RetainedKind::IntakeRecords => &mut passed.intake_records,
                RetainedKind::Events => &mut passed.events,
                RetainedKind::Audit => &mut passed.audit,
            } += deleted.rows;
            if deleted.complete {
                rest = later;
            }
        }
        Ok(())
    }

    /// Counts the first rows that have at most `batch_bytes` together; at least one.
    fn as_many_as_fit(&self, rows: &[ExpiredRow]) -> usize {
        let mut octets = 0_u64;
        let fits = |row: &&ExpiredRow| {
            octets = octets.saturating_add(row.octets);
            octets <= self.rules.pass.batch_bytes
        };
        rows.iter().take_while(fits).count().max(1)
    }

    /// Ends the pass after `batches_per_pass`. Otherwise pauses, so that commits go first.
    async fn pause_between_batches(&self, passed: &Passed) -> Result<(), Halt> {
        if passed.batches >= self.rules.pass.batches_per_pass {
            return Err(Halt::Enough);
        }
        if passed.batches > 0 {
            sleep(self.rules.pass.pause()).await;
        }
        Ok(())
    }

    fn rows(&self) -> usize {
        usize::try_from(self.rules.pass.batch_rows).unwrap_or(usize::MAX)
    }
}
