//! What is older than it is kept goes, pass by pass (`policies/retention.toml`).
//!
//! A pass walks the accounts from kind to kind and deletes in short transactions with pauses
//! between them. It is bounded: where it had to end, or was broken off, the next one goes on.

use std::error::Error;
use std::future::Future;
use std::mem;
use std::pin::pin;
use std::sync::Arc;

use tokio::time::sleep;

use crate::domain::clock::{Belief, Clock, Timestamp};
use crate::domain::id::AccountId;
use crate::rules::{Kept, RetentionRules};
use crate::store::{Cursor, Due, Expired, Keeper, Store, StoreError};

/// Deletes what is old, for as long as the server runs.
#[derive(Debug)]
pub struct Retention {
    store: Store,
    clock: Clock,
    /// The ages of what people date are counted by it.
    belief: Belief,
    rules: Arc<RetentionRules>,
    place: Place,
}

/// What a pass deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    pub arrivals: u64,
    pub messages: u64,
    pub intake_records: u64,
    /// Those that were announced together count once.
    pub events: u64,
    pub audit: u64,
    /// List entries and contacts of deleted accounts.
    pub leavings: u64,
    /// Requests that are carried out once, and were remembered long enough.
    pub requests: u64,
    /// Webhooks from which secrets were taken that sign no more.
    pub secrets: u64,
    /// Transactions.
    pub batches: u64,
}

/// What is seen to, one after the other.
#[derive(Clone, Copy)]
enum Step {
    Arrivals,
    /// Requests that are carried out once.
    Requests,
    /// Former secrets of webhooks that sign no more.
    Secrets,
    /// By account.
    Kept(Kept),
    /// What deleted accounts left. Contacts go after the messages that name them.
    Leavings,
}

const STEPS: &[Step] = &[
    Step::Arrivals,
    Step::Requests,
    Step::Secrets,
    Step::Kept(Kept::Messages),
    Step::Leavings,
    Step::Kept(Kept::IntakeRecords),
    Step::Kept(Kept::Events),
    Step::Kept(Kept::Audit),
];

/// Everything up to here has been seen to.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    steps: usize,
    account: Option<AccountId>,
    /// Of an account behind that one.
    row: Option<(AccountId, Cursor)>,
}

/// Why a pass ends before everything was seen to.
enum Halt {
    /// `batches_per_pass`.
    Enough,
    /// Another gateway is deleting at this moment.
    Taken,
    Failed(StoreError),
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl Retention {
    /// Deletes from this store.
    pub fn new(store: Store, clock: Clock, rules: Arc<RetentionRules>) -> Self {
        let belief = Belief::new(clock.clone(), rules.pass.calm());
        Self { store, clock, belief, rules, place: Place::default() }
    }

    /// Runs until `stop`; a transaction under way leaves nothing then, and what it was to delete
    /// is still old when the next server starts.
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

    /// One pass.
    pub async fn pass(&mut self) -> Passed {
        let mut passed = Passed::default();
        let ended = match self.go_through(&mut passed).await {
            Ok(()) => "complete",
            Err(Halt::Enough) => "goes on next time",
            Err(Halt::Taken) => "another gateway is at it",
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
            retention.batches = passed.batches,
            "retention pass: {ended}"
        );
        passed
    }

    /// A misspelt id would keep for ever what should go, or the other way round.
    async fn warn_of_unknown_accounts(&self) {
        for id in self.rules.accounts() {
            match self.store.account(id).await {
                Ok(Some(_)) => {}
                Ok(None) => tracing::warn!("retention.toml names account {id}: there is none"),
                Err(error) => {
                    let error = &error as &(dyn Error + 'static);
                    return tracing::warn!(error, "cannot look up the accounts of retention.toml");
                }
            }
        }
    }

    async fn go_through(&mut self, passed: &mut Passed) -> Result<(), Halt> {
        let (now, steady) = (self.belief.now(), self.clock.steady());
        while let Some(step) = STEPS.get(self.place.steps) {
            match step {
                Step::Arrivals => self.forget_arrivals(steady, passed).await?,
                Step::Requests => self.forget_requests(steady, passed).await?,
                Step::Secrets => self.forget_secrets(now, passed).await?,
                Step::Kept(kept) => self.go_through_accounts(*kept, now, passed).await?,
                Step::Leavings => self.clear_away(passed).await?,
            }
            self.place = Place { steps: self.place.steps + 1, ..Place::default() };
        }
        self.place = Place::default();
        Ok(())
    }

    async fn forget_arrivals(&self, now: Timestamp, passed: &mut Passed) -> Result<(), Halt> {
        loop {
            self.may_go_on(passed).await?;
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
            self.may_go_on(passed).await?;
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
            self.may_go_on(passed).await?;
        }
    }

    async fn go_through_accounts(
        &mut self,
        kept: Kept,
        now: Timestamp,
        passed: &mut Passed,
    ) -> Result<(), Halt> {
        loop {
            let accounts = self.store.accounts_after(self.place.account, self.rows()).await?;
            let Some(last) = accounts.last() else { return Ok(()) };
            let due: Vec<Due> = accounts
                .iter()
                .filter_map(|keeper| {
                    let until = self.until(kept, keeper, now)?;
                    Some(Due { account: keeper.account, kind: keeper.kind, until })
                })
                .collect();
            let due = self.store.with_expired(kept, &due).await?;
            self.delete_of(kept, &due, passed).await?;
            self.place.account = Some(last.account);
        }
    }

    /// Since when an account keeps something; `None` is ever since. Whoever deletes an account
    /// means its mail, which goes at once; that it was there, and who deleted it, is known as long
    /// as of any other.
    fn until(&self, kept: Kept, keeper: &Keeper, now: Timestamp) -> Option<Timestamp> {
        if keeper.deleted && kept == Kept::Messages {
            return Some(Timestamp::from_millis(i64::MAX));
        }
        Some(now.minus(self.rules.keep(kept, &keeper.lineage)?))
    }

    async fn clear_away(&mut self, passed: &mut Passed) -> Result<(), Halt> {
        loop {
            let accounts = self.store.accounts_after(self.place.account, self.rows()).await?;
            let Some(last) = accounts.last() else { return Ok(()) };
            let deleted = accounts.iter().filter(|keeper| keeper.deleted);
            let deleted: Vec<AccountId> = deleted.map(|keeper| keeper.account).collect();
            for account in self.store.with_leavings(&deleted).await? {
                loop {
                    self.may_go_on(passed).await?;
                    let gone = self.store.delete_leavings(account, self.rows()).await?;
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

    /// Gathers what is due, from account to account, into batches.
    async fn delete_of(
        &mut self,
        kept: Kept,
        due: &[Due],
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
                self.place = Place { account: gathered, row, ..self.place };
            }
            gathered = Some(due.account);
        }
        self.delete(kept, batch, passed).await
    }

    /// Deletes a batch in one transaction, or in several if much hangs on its rows.
    async fn delete(
        &self,
        kept: Kept,
        batch: Vec<Expired>,
        passed: &mut Passed,
    ) -> Result<(), Halt> {
        let mut rest = batch.as_slice();
        while !rest.is_empty() {
            self.may_go_on(passed).await?;
            let (now, later) = rest.split_at(self.as_many_as_fit(rest));
            let deleted = self.store.delete_expired(kept, now, self.rows()).await?;
            let deleted = deleted.ok_or(Halt::Taken)?;
            passed.batches += 1;
            *match kept {
                Kept::Messages => &mut passed.messages,
                Kept::IntakeRecords => &mut passed.intake_records,
                Kept::Events => &mut passed.events,
                Kept::Audit => &mut passed.audit,
            } += deleted.rows;
            if deleted.whole {
                rest = later;
            }
        }
        Ok(())
    }

    /// How many of the first messages have no more than `batch_bytes`; one always fits.
    fn as_many_as_fit(&self, rows: &[Expired]) -> usize {
        let mut octets = 0_u64;
        let fits = |row: &&Expired| {
            octets = octets.saturating_add(row.octets);
            octets <= self.rules.pass.batch_bytes
        };
        rows.iter().take_while(fits).count().max(1)
    }

    /// Pauses between two transactions, so that commits come first.
    async fn may_go_on(&self, passed: &Passed) -> Result<(), Halt> {
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
