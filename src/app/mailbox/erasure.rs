//! Erasing what somebody asks to have erased: a message, a contact with all that is theirs, what a
//! deleted account has left. From the answer on nobody reads it; what is much goes in batches, by
//! whichever gateway comes to it.

use std::future::Future;
use std::pin::pin;

use tokio::time::sleep;

use crate::domain::audit::Actor;
use crate::domain::clock::Clock;
use crate::domain::id::{ContactId, MessageId};
use crate::domain::scope::Scope;
use crate::rules::{ErasureRules, RetentionPass, RetentionRules};
use crate::store::{Erasing, Store, StoreError};

/// Subjects that are looked at in one statement.
const PAGE: usize = 100;

/// The use cases of erasure, and the task that finishes them.
#[derive(Clone, Debug)]
pub struct Erasures {
    store: Store,
    clock: Clock,
    pass: RetentionPass,
    rules: ErasureRules,
    /// The actor recorded in the audit log.
    actor: Actor,
}

done_by!(Erasures, clock);

impl Erasures {
    /// Erases from this store, as much at a time as the rules say.
    pub const fn new(store: Store, clock: Clock, rules: &RetentionRules) -> Self {
        let (pass, rules) = (rules.pass, rules.erasure);
        Self { store, clock, pass, rules, actor: Actor::OPERATOR }
    }

    /// Erases a message; answers whether it was there.
    pub async fn message(&self, scope: &Scope, id: MessageId) -> Result<bool, StoreError> {
        self.store.erase_message(scope, id, self.act()).await
    }

    /// Erases a contact; `None` if it was not there, and false while there is more to be done.
    pub async fn contact(&self, scope: &Scope, id: ContactId) -> Result<Option<bool>, StoreError> {
        if !self.store.erase_contact(scope, id, self.act()).await? {
            return Ok(None);
        }
        for _ in 0..self.rules.batches_before_answer {
            match self.step(id.get()).await {
                Ok(Erasing::More) => {}
                Ok(erasing) => return Ok(Some(erasing == Erasing::Done)),
                // It is asked for, and is done by and by.
                Err(_) => break,
            }
        }
        Ok(Some(false))
    }

    async fn step(&self, subject: i64) -> Result<Erasing, StoreError> {
        let rows = usize::try_from(self.pass.batch_rows).unwrap_or(usize::MAX);
        self.store.erase_some(subject, (rows, self.pass.batch_bytes), self.clock.now()).await
    }

    /// Finishes what is to be erased, again and again, until `stop`; a transaction under way leaves
    /// nothing then, and what it was to erase is found by the next server.
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

    /// One batch of each subject; answers whether anything was done.
    pub async fn round(&self) -> Result<bool, StoreError> {
        let (mut after, mut done) = (0, false);
        loop {
            let subjects = self.store.erasures(after, PAGE).await?;
            let Some(last) = subjects.last().copied() else { return Ok(done) };
            for subject in subjects {
                match self.step(subject).await {
                    Ok(erasing) => done |= erasing != Erasing::Held,
                    // The others do not wait for it.
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
    tracing::warn!(error, erasure.subject = subject, "erasing failed; it is tried again");
}
