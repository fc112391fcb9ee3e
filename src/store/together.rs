//! Methods whose work is done together with that of other callers (`engine/group.rs`): commits of
//! messages, counts of refusals, records of attempts, and questions that many ask at once.

use std::borrow::Cow;
use std::time::Duration;

use super::base::noting::OnItsWay;
use super::commit::batch::{Entered, Written};
use super::commit::intake::{Commit, Committed, Handed, Receipt};
use super::commit::ready::Ready;
use super::commit::refusals::Refused;
use super::engine::database::TRIES;
use super::engine::error::StoreError;
use super::engine::group::{Group, Together};
use super::events::delivery::attempt_results::{Ended, Finished};
use super::events::delivery::contents_now::ContentsNow;
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
        let mut kept = OriginalPlaces::default();
        for _ in 0..TRIES {
            for accepted in commit.intakes.iter().filter_map(|intake| intake.accepted.as_ref()) {
                self.keep_raw(accepted.message.digest, &accepted.raw, &mut kept).await?;
            }
            match self.intakes.ask(Ready::new(commit, &kept).await?).await? {
                Written::Done(entered) => {
                    let earlier = entered.into_iter().map(|entered| match entered {
                        Entered::Again(earlier) => Some(earlier),
                        Entered::Recorded | Entered::Stored(_) => None,
                    });
                    return Ok(Committed::Done(earlier.collect()));
                }
                Written::Stale => return Ok(Committed::Stale),
                Written::Repeated => return Err(StoreError::Repeated),
                Written::Unkept => {}
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
        let ready = Ready::new(commit, &OriginalPlaces::default()).await?;
        let Some(way) = self.set_out(ready.octets()) else {
            return self.intakes.ask(ready).await.map(|_| true);
        };
        self.write_behind(way, &self.noted, move || ready.records(), drop);
        Ok(false)
    }

    /// Registers a record of so many bytes to be written behind the reply; None if it may not be.
    fn set_out(&self, octets: usize) -> Option<OnItsWay> {
        self.embedded().and_then(|_| self.noting.set_out(octets))
    }

    /// Writes the record of a refusal in a task. Retries unless a row is the cause, or trust is
    /// lost.
    fn write_behind<T: Together>(
        &self,
        way: OnItsWay,
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
                let is_final = error.is_of_a_row() || store.check_trust().is_err();
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
            drop(way);
        });
    }

    /// Writes a platform's message or nothing, together with others that wait. Fails with
    /// `Repeated` if another request already used its Idempotency-Key.
    pub async fn receive(&self, handed: &Handed) -> Result<Receipt, StoreError> {
        let mut kept = OriginalPlaces::default();
        let digest = handed.message.digest;
        for _ in 0..TRIES {
            self.keep_raw(digest, &handed.raw, &mut kept).await?;
            let place = kept.get(&digest).cloned().unwrap_or_default();
            let ready = Ready::handed(handed, place).await?;
            match self.intakes.ask(ready).await? {
                Written::Done(entered) => {
                    let stored = entered.into_iter().find_map(|entered| match entered {
                        Entered::Stored(contact) => Some(Receipt::Stored(contact)),
                        Entered::Recorded | Entered::Again(_) => None,
                    });
                    return stored.ok_or_else(|| StoreError::Corrupt {
                        table: "messages",
                        detail: format!("{} was written but cannot be found", handed.message.id),
                    });
                }
                Written::Stale => return Ok(Receipt::Inactive),
                Written::Repeated => return Err(StoreError::Repeated),
                Written::Unkept => {}
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
        let refused = Refused::of(record, source)?;
        if let Some(first) = self.counted.find(&refused)
            && let Some(way) = self.set_out(refused.octets())
        {
            // If the record was erased meanwhile, later refusals are counted in the next one.
            let (counted, again) = (self.counted.clone(), refused.clone());
            let then = move |record| counted.keep(again, record);
            self.write_behind(way, &self.refusals, move || refused.clone(), then);
            return Ok(first);
        }
        let counted_in = self.refusals.ask(refused.clone()).await?;
        if self.embedded().is_some() {
            self.counted.keep(refused, counted_in);
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
        self.attempts.ask(Ended::new(claim, attempt, outcome, self.mint().clock())).await
    }

    /// Returns the directory's version, read after this was called. Callers that come during a read
    /// share the next one: any number of sessions cost one statement at a time.
    pub async fn directory_version(&self) -> Result<i64, StoreError> {
        self.versions.ask(()).await
    }

    /// Returns the Agent, even one deleted since RCPT, and the current standing of a decision about
    /// it, this address and this sender. Reads once for all callers of the moment.
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

    /// Returns the current subjects of the events between two places, of all accounts, read once
    /// for all callers of the moment: the subject of a body made earlier may be erased since.
    pub async fn contents_with_others(
        &self,
        (after, until): (i64, i64),
    ) -> Result<ContentsNow, StoreError> {
        self.contents.ask((after, until)).await
    }
}
