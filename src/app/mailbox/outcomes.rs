//! Recording what an Agent did with a message: an outcome, and the text of a reply. The gateway
//! sends nothing: whoever records a reply has sent it, or shows it elsewhere.

use crate::domain::agent_outcome::{NewOutcome, OutcomeConflict};
use crate::domain::audit::Actor;
use crate::domain::clock::Clock;
use crate::domain::id::{MessageId, ReplyId};
use crate::domain::message::Message;
use crate::domain::scope::Scope;
use crate::rules::AccessRules;
use crate::store::{OutcomeRecorded, Store, StoreError};

#[derive(Clone, Debug)]
pub struct Outcomes {
    store: Store,
    clock: Clock,
    /// Kept of one message.
    max_replies: usize,
    actor: Actor,
}

#[derive(Debug, thiserror::Error)]
pub enum OutcomeError {
    #[error("no such message")]
    NoMessage,
    #[error(transparent)]
    Conflict(#[from] OutcomeConflict),
    #[error(transparent)]
    Store(#[from] StoreError),
}

done_by!(Outcomes, clock);

impl Outcomes {
    pub const fn new(store: Store, clock: Clock, rules: &AccessRules) -> Self {
        let max_replies = rules.outcomes.max_replies;
        Self { store, clock, max_replies, actor: Actor::OPERATOR }
    }

    /// Records an outcome with its event, in one transaction. Returns the message, and the id of
    /// the reply.
    pub async fn record(
        &self,
        scope: &Scope,
        id: MessageId,
        new: &NewOutcome,
    ) -> Result<(Message, Option<ReplyId>), OutcomeError> {
        match self.store.record_outcome(scope, id, new, self.max_replies, self.act()).await? {
            OutcomeRecorded::Done(message, reply) => Ok((*message, reply)),
            OutcomeRecorded::Refused(conflict) => Err(conflict.into()),
            OutcomeRecorded::NoMessage => Err(OutcomeError::NoMessage),
        }
    }
}
