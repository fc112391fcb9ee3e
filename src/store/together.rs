//! The methods whose work is done together with that of others who wait for the same
//! (`engine/group.rs`): messages that are committed, refusals that are counted, attempts that are
//! recorded, and questions that many ask at once.

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
use super::mailbox::contents::Kept;
use super::opening::Store;
use super::tenancy::addresses::Addressed;
use super::tenancy::asked_together::Asked;
use super::tenancy::keys::KeyHolder;
use crate::domain::account::Account;
use crate::domain::address::Address;
use crate::domain::delivery::{Attempt, Claim, Outcome};
use crate::domain::id::{AccountId, IntakeId};
use crate::domain::intake_record::IntakeRecord;
use crate::domain::key::KeyHash;
use crate::domain::member::Member;
use crate::domain::repeats::Cause;

/// Between two tries to write the record of a refusal.
const PAUSE: Duration = Duration::from_secs(1);

impl Store {
    /// Writes everything, or nothing; together with others that wait.
    pub async fn commit(&self, commit: &Commit) -> Result<Committed, StoreError> {
        let mut kept = Kept::default();
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

    /// Writes the records of a commit that accepts nothing. On the embedded store behind the reply: they
    /// are visible within a second, and lost with the process alone (contract §2.3); whoever reads records
    /// waits for them. While too many wait or one is late, and where other gateways may erase what such a
    /// record is about, they are written before this returns. Answers whether they are.
    pub async fn note(&self, commit: &Commit) -> Result<bool, StoreError> {
        self.check_trust()?;
        let ready = Ready::new(commit, &Kept::default()).await?;
        let Some(way) = self.set_out(ready.octets()) else {
            return self.intakes.ask(ready).await.map(|_| true);
        };
        self.write_behind(way, &self.noted, move || ready.records(), drop);
        Ok(false)
    }

    /// Whether a record of so many octets may be written behind the reply.
    fn set_out(&self, octets: usize) -> Option<OnItsWay> {
        self.embedded().and_then(|_| self.noting.set_out(octets))
    }

    /// Writes the record of a refusal for which nobody waits, again where that fails.
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
                if let Some(left_out) = store.repeats.due(Cause::Refusal) {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(
                        error,
                        left_out,
                        is_final,
                        "the record of a refusal was not written"
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

    /// Writes everything, or nothing; together with others that wait. A request that may be carried
    /// out once and was is `Repeated`.
    pub async fn receive(&self, handed: &Handed) -> Result<Receipt, StoreError> {
        let mut kept = Kept::default();
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
                        detail: format!("{} was written and is not there", handed.message.id),
                    });
                }
                Written::Stale => return Ok(Receipt::Inactive),
                Written::Repeated => return Err(StoreError::Repeated),
                Written::Unkept => {}
            }
        }
        Err(StoreError::Conflict(None))
    }

    /// Counts a refusal that needs no record of its own: one record per source (a network, or the
    /// sender of a flood), reason, minute and owner, so that a guessing client costs one row a
    /// minute (contract §2.3). Answers the record that it was counted in: the given one if it is
    /// the first. On the embedded store the others are written behind the reply; one that took too long
    /// and was written all the same is counted twice.
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
            // The record may have been erased meanwhile: those that follow are counted in the next one.
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

    /// Records an attempt and what follows from it, unless the claim was taken over meanwhile.
    pub async fn finish_delivery(
        &self,
        claim: &Claim,
        attempt: &Attempt,
        outcome: Outcome,
    ) -> Result<Finished, StoreError> {
        self.attempts.ask(Ended::new(claim, attempt, outcome, self.mint().clock())).await
    }

    /// The directory's version, read after this was called. Those who come while it is read wait
    /// for one reading more, together: any number of sessions cost one statement at a time.
    pub async fn directory_version(&self) -> Result<i64, StoreError> {
        self.versions.ask(()).await
    }

    /// The Agent, also when it was deleted since RCPT, and what a decision about it, this address and
    /// this sender would rest on now; with all who ask at the same time.
    pub async fn addressed(
        &self,
        agent: AccountId,
        address: &Address,
        sender: &Address,
    ) -> Result<Option<Addressed>, StoreError> {
        let (address, sender) = (address.clone(), sender.clone());
        self.recipients.ask(Asked { agent, address, sender }).await
    }

    /// As `key_holder`, with all who ask at the same time: one statement for all keys, of those who
    /// follow the log.
    pub async fn key_holder_with_others(
        &self,
        hash: KeyHash,
    ) -> Result<Option<KeyHolder>, StoreError> {
        self.holders.ask(hash).await
    }

    /// As `account_or_member`, with all who ask at the same time.
    pub async fn account_or_member_with_others(
        &self,
        id: AccountId,
    ) -> Result<Option<(Account, Option<Member>)>, StoreError> {
        self.named.ask(id).await
    }

    /// What the events behind a place up to another are about now, whosever they are, with all who
    /// ask at the same time: a body that was made before may be of something that is erased since.
    pub async fn contents_with_others(
        &self,
        (after, until): (i64, i64),
    ) -> Result<ContentsNow, StoreError> {
        self.contents.ask((after, until)).await
    }
}
