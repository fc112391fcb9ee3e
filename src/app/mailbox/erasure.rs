//! Erasure on request: of a message, of a contact with all its data, and of the rest of a deleted
//! account. From the response on, nobody can read it. Large erasures go in batches, on any gateway.
//!
//! A subject is the contact or account that is being erased. Its row in the store outlives a crash,
//! so another gateway, or the next start, continues.

use std::future::Future;
use std::pin::pin;

use tokio::time::sleep;

use crate::domain::audit::Actor;
use crate::domain::clock::Clock;
use crate::domain::id::{ContactId, MessageId};
use crate::domain::scope::Scope;
use crate::rules::{ErasureRules, RetentionPass, RetentionRules};
use crate::store::{ErasureLimits, ErasureProgress, Store, StoreError};

/// Subjects read by one statement.
const PAGE: usize = 100;

#[derive(Clone, Debug)]
pub struct Erasures {
    store: Store,
    clock: Clock,
    pass: RetentionPass,
    rules: ErasureRules,
    actor: Actor,
}

done_by!(Erasures, clock);

impl Erasures {
    pub const fn new(store: Store, clock: Clock, rules: &RetentionRules) -> Self {
        let (pass, rules) = (rules.pass, rules.erasure);
        Self { store, clock, pass, rules, actor: Actor::OPERATOR }
    }

    /// Erases a message in one transaction. Returns whether it existed.
    pub async fn message(&self, scope: &Scope, id: MessageId) -> Result<bool, StoreError> {
        self.store.erase_message(scope, id, self.act()).await
    }

    /// Hides and erases a contact. None if there is none, false if [`Self::run`] has to finish.
    pub async fn contact(&self, scope: &Scope, id: ContactId) -> Result<Option<bool>, StoreError> {
        if !self.store.erase_contact(scope, id, self.act()).await? {
            return Ok(None);
        }
        for _ in 0..self.rules.batches_before_answer {
            match self.step(id.get()).await {
                Ok(ErasureProgress::More) => {}
                Ok(erasing) => return Ok(Some(erasing == ErasureProgress::Done)),
                // The request is stored: the background task retries.
                Err(_) => break,
            }
        }
        Ok(Some(false))
    }

    async fn step(&self, subject: i64) -> Result<ErasureProgress, StoreError> {
        let rows = usize::try_from(self.pass.batch_rows).unwrap_or(usize::MAX);
        let limits = ErasureLimits { rows, octets: self.pass.batch_bytes };
        self.store.erase_some(subject, limits, self.clock.now()).await
    }

    /// Finishes erasures until `stop`. Stopping rolls back the open transaction; the next server
    /// finds the erasure again.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        let rounds = async {
            loop {
                match self.round().await {
                    Ok(true) => sleep(self.pass.pause()).await,
                    Ok(false) => sleep(self.rules.look()).await,
                    Err(error) => {
                        warn(&error, None);
                        sleep(self.rules.look()).await;
                    }
                }
            }
        };
        tokio::select! {
            () = pin!(rounds) => {}
            () = stop => {}
        }
    }

    /// Runs one batch for each subject. Returns whether any did something.
    pub async fn round(&self) -> Result<bool, StoreError> {
        let (mut after, mut done) = (0, false);
        loop {
            let subjects = self.store.erasures(after, PAGE).await?;
            let Some(last) = subjects.last().copied() else { return Ok(done) };
            for subject in subjects {
                match self.step(subject).await {
                    Ok(erasing) => done |= erasing != ErasureProgress::Held,
                    // A failure holds up no other subject.
                    Err(error) => warn(&error, Some(subject)),
                }
                sleep(self.pass.pause()).await;
            }
            after = last;
        }
    }
}

fn warn(error: &StoreError, subject: Option<i64>) {
    let error = error as &(dyn std::error::Error + 'static);
    tracing::warn!(error, erasure.subject = subject, "erasure failed: trying again");
}
