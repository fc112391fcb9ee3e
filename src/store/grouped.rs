//! Methods whose work is done together with that of other callers (`engine/group.rs`): commits of
//! messages, counts of refusals, records of attempts, and questions that many ask at once.

use std::borrow::Cow;
use std::time::Duration;

use super::base::pending_records::PendingRecord;
use super::commit::batch::{CommitOutcome, EntryOutcome};
use super::commit::intake::{Commit, Committed, PlatformMessage, Receipt};
use super::commit::prepared::PreparedCommit;
use super::commit::refusals::PreparedRefusal;
use super::engine::database::TRIES;
use super::engine::error::StoreError;
use super::engine::group::{Group, GroupedWork};
use super::events::delivery::attempt_results::{EndedAttempt, Finished};
use super::events::delivery::current_contents::{CurrentContents, PositionRange};
use super::mailbox::contents::OriginalPlaces;
use super::opening::Store;
use super::tenancy::addresses::{AddressedAgent, StandingQuestion};
use super::tenancy::keys::KeyHolder;
use crate::domain::account::Account;
use crate::domain::address::Address;
use crate::domain::delivery::{Attempt, Claim, Outcome};
use crate::domain::id::{AccountId, IntakeId};
use crate::domain::intake_record::IntakeRecord;
use crate::domain::key::KeyHash;
use crate::domain::member::Member;
use crate::domain::repeats::LogCause;

/// Pause between two tries to write the record of a refusal.
const PAUSE: Duration = Duration::from_secs(1);

impl Store {
    /// Writes all of `commit` or nothing, together with others that wait. Puts large originals into
    /// the blob store first. Tries again, `TRIES` times in all, if one of them is erased
    /// meanwhile; then fails with `Conflict`.
    pub async fn commit(&self, commit: &Commit) -> Result<Committed, StoreError> {
        let mut places = OriginalPlaces::default();
        for _ in 0..TRIES {
            for accepted in commit.intakes.iter().filter_map(|intake| intake.accepted.as_ref()) {
                self.keep_raw(accepted.message.digest, &accepted.raw, &mut places).await?;
            }
            match self.commits.ask(PreparedCommit::of_mail(commit, &places).await?).await? {
                CommitOutcome::Done(outcomes) => {
                    let earlier = outcomes.into_iter().map(|outcome| match outcome {
                        EntryOutcome::Repeat(earlier) => Some(earlier),
                        EntryOutcome::Recorded | EntryOutcome::Stored(_) => None,
                    });
                    return Ok(Committed::Done(earlier.collect()));
                }
                CommitOutcome::Stale => return Ok(Committed::Stale),
                CommitOutcome::Repeated => return Err(StoreError::Repeated),
                CommitOutcome::Unkept => {}
            }
        }
        Err(StoreError::Conflict(None))
    }

    /// Writes the records of a commit that accepts nothing. Returns whether they are written
    /// already. On the embedded store they are written behind the reply: visible within a second,
    /// and lost only if the process dies before (contract §2.3); readers of records wait for them.
    /// They are written before this returns if too many wait or one is late, and on PostgreSQL,
    /// where another gateway may erase the subject of such a record meanwhile.
    pub async fn note(&self, commit: &Commit) -> Result<bool, StoreError> {
        self.check_trust()?;
        let prepared = PreparedCommit::of_mail(commit, &OriginalPlaces::default()).await?;
        let Some(pending) = self.register_pending(prepared.octets()) else {
            return self.commits.ask(prepared).await.map(|_| true);
        };
        self.write_behind(pending, &self.refusal_records, move || prepared.records(), drop);
        Ok(false)
    }

    /// Registers a record of so many bytes to be written behind the reply; None if it may not be.
    fn register_pending(&self, octets: usize) -> Option<PendingRecord> {
        self.embedded().and_then(|_| self.pending_records.register(octets))
    }

    /// Writes the record of a refusal in a task. Retries unless a row is the cause, or trust is
    /// lost.
    fn write_behind<T: GroupedWork>(
        &self,
        pending: PendingRecord,
        group: &Group<T>,
        job: impl Fn() -> T::Job + Send + 'static,
        then: impl FnOnce(T::Answer) + Send + 'static,
    ) {
        let (store, group) = (self.clone(), group.clone());
        tokio::spawn(async move {
            loop {
                let error = match group.ask(job()).await {
                    Ok(answer) => break then(answer),
                    Err(error) => error,
                };
                let is_final = error.is_caused_by_row() || store.check_trust().is_err();
                if let Some(left_out) = store.repeats.due(LogCause::Refusal) {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(
                        error,
                        left_out,
                        is_final,
                        "cannot write the record of a refusal"
                    );
                }
                if is_final {
                    break;
                }
                tokio::time::sleep(PAUSE).await;
            }
            drop(pending);
        });
    }

    /// Writes a platform's message or nothing, together with others that wait. Fails with
    /// `Repeated` if another request already used its Idempotency-Key.
    pub async fn receive(&self, posted: &PlatformMessage) -> Result<Receipt, StoreError> {
        let mut places = OriginalPlaces::default();
        let digest = posted.message.digest;
        for _ in 0..TRIES {
            self.keep_raw(digest, &posted.raw, &mut places).await?;
            let place = places.get(&digest).cloned().unwrap_or_default();
            let prepared = PreparedCommit::of_platform(posted, place).await?;
            match self.commits.ask(prepared).await? {
                CommitOutcome::Done(outcomes) => {
                    let stored = outcomes.into_iter().find_map(|outcome| match outcome {
                        EntryOutcome::Stored(contact) => Some(Receipt::Stored(contact)),
                        EntryOutcome::Recorded | EntryOutcome::Repeat(_) => None,
                    });
                    return stored.ok_or_else(|| StoreError::Corrupt {
                        table: "messages",
                        detail: format!("{} was written but cannot be found", posted.message.id),
                    });
                }
                CommitOutcome::Stale => return Ok(Receipt::Inactive),
                CommitOutcome::Repeated => return Err(StoreError::Repeated),
                CommitOutcome::Unkept => {}
            }
        }
        Err(StoreError::Conflict(None))
    }

    /// Counts a refusal that needs no record of its own. There is one record per source (a network,
    /// or the sender of a flood), reason, minute and owner, so that a guessing client costs one row
    /// a minute (contract §2.3). Returns the record that counts it, which is the given one for the
    /// first refusal. On the embedded store later ones are written behind the reply; one that times
    /// out and was written all the same is counted twice.
    pub async fn count_refusal(
        &self,
        record: &IntakeRecord,
        source: &str,
    ) -> Result<IntakeId, StoreError> {
        self.check_trust()?;
        let refused = PreparedRefusal::of(record, source)?;
        if let Some(first) = self.recent_refusals.find(&refused)
            && let Some(pending) = self.register_pending(refused.octets())
        {
            // If the record was erased meanwhile, later refusals are counted in the next one.
            let (recent, again) = (self.recent_refusals.clone(), refused.clone());
            let then = move |record| recent.keep(again, record);
            self.write_behind(pending, &self.refusals, move || refused.clone(), then);
            return Ok(first);
        }
        let counted_in = self.refusals.ask(refused.clone()).await?;
        if self.embedded().is_some() {
            self.recent_refusals.keep(refused, counted_in);
        }
        Ok(counted_in)
    }

    /// Records an attempt and its consequences, unless the claim was taken over meanwhile.
    pub async fn finish_delivery(
        &self,
        claim: &Claim,
        attempt: &Attempt,
        outcome: Outcome,
    ) -> Result<Finished, StoreError> {
        self.attempts.ask(EndedAttempt::new(claim, attempt, outcome, self.mint().clock())).await
    }

    /// Returns the directory's version, as it is after this was called. The embedded store reads it
    /// again only if it may have changed. Callers that come during a read share the next one: any
    /// number of sessions cost one statement at a time.
    pub async fn directory_version(&self) -> Result<i64, StoreError> {
        self.check_trust()?;
        let marked = self.embedded().and_then(|database| {
            let directory = &database.directory;
            directory.read().map(|mark| (directory, mark))
        });
        if let Some(version) = marked.and_then(|(directory, mark)| directory.version_at(mark)) {
            return Ok(version);
        }
        let version = self.versions.ask(()).await?;
        if let Some((directory, mark)) = marked {
            directory.remember(mark, version);
        }
        Ok(version)
    }

    /// Returns the Agent, even one deleted since RCPT, with its current standing for this address
    /// and this sender; None if it is no Agent. Reads once for all callers of the moment.
    pub async fn addressed(
        &self,
        agent: AccountId,
        address: &Address,
        sender: &Address,
    ) -> Result<Option<AddressedAgent>, StoreError> {
        let (address, sender) = (Cow::Owned(address.clone()), Cow::Owned(sender.clone()));
        self.recipients.ask(StandingQuestion { agent, address, sender }).await
    }

    /// Like `key_holder`, in one statement for all callers of the moment: those who follow the log.
    pub async fn key_holder_with_others(
        &self,
        hash: KeyHash,
    ) -> Result<Option<KeyHolder>, StoreError> {
        self.holders.ask(hash).await
    }

    /// Like `account_or_member`, in one statement for all callers of the moment.
    pub async fn account_or_member_with_others(
        &self,
        id: AccountId,
    ) -> Result<Option<(Account, Option<Member>)>, StoreError> {
        self.named.ask(id).await
    }

    /// Returns the current subjects of the events in `range`, of all accounts: a body made earlier
    /// may show one that is erased now. Reads once for all callers of the moment.
    pub async fn current_contents(
        &self,
        range: PositionRange,
    ) -> Result<CurrentContents, StoreError> {
        self.contents.ask(range).await
    }
}
