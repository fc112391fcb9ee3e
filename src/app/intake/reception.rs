//! Messages that an account's own platform submits (`receiveMessage`), or its adapter (a relay of
//! type `json`): a text, a chat message, a call. There is no proof to examine: the owner of a key
//! that reaches the Agent vouches for the sender. The message then goes the way of mail: one record,
//! one message, one transaction.
//!
//! Mail is never submitted here: mail is proven, or it is not mail (contract §1, Sender).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tracing::info;

use super::examine::sha256;
use super::step::step;
use super::{session, thread};
use crate::app::locked::locked;
use crate::domain::account::Account;
use crate::domain::audit::{Actor, Who};
use crate::domain::contact::Handle;
use crate::domain::evidence::receive_message::ReceiveMessage;
use crate::domain::evidence::{Facts, Step};
use crate::domain::id::{AccountId, IntakeId, MessageId, Mint};
use crate::domain::intake_record::IntakeRecord;
use crate::domain::message::Received;
use crate::domain::ports::{Posted, Wake};
use crate::domain::rate::{Rate, Share, Tallies};
use crate::domain::room::Room;
use crate::domain::scope::Scope;
use crate::domain::source::Inbox;
use crate::domain::verdict::Verdict;
use crate::rules::IntakeRules;
use crate::store::{NewReceived, PlatformMessage, Receipt, Store, StoreError};

#[derive(Clone)]
pub struct Reception {
    store: Store,
    mint: Mint,
    wake: Arc<dyn Wake>,
    rooms: Arc<Rooms>,
    actor: Actor,
}

impl std::fmt::Debug for Reception {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reception").finish_non_exhaustive()
    }
}

/// A message as it was submitted.
#[derive(Debug)]
pub struct Submission {
    pub received: Received,
    pub inbox: Inbox,
    /// The request as posted.
    pub raw: Bytes,
    /// The way in by which it came, and its proof; None for an API key.
    pub posted: Option<Posted>,
}

/// The messages of the last minute for each Agent and sender, bounded as `policies/intake.toml`
/// bounds mail.
#[derive(Debug)]
struct Rooms {
    rate: Option<Rate>,
    per_minute: u32,
    began: Instant,
    tallies: Mutex<Tallies<(AccountId, Handle)>>,
}

#[derive(Debug, thiserror::Error)]
pub enum ReceptionError {
    #[error("the key reaches no Agent with this username or id")]
    Nobody,
    #[error("several Agents have this username: send the id of one as targetAgent")]
    Several,
    #[error("the Agent, or an account above it, is not active")]
    Inactive,
    /// `wait` is the time until one more may come.
    #[error("more than {per_minute} messages a minute in one room")]
    TooMany { per_minute: u32, wait: Duration },
    #[error(transparent)]
    Store(#[from] StoreError),
}

done_by!(Reception);

impl Reception {
    /// Stores messages in `store`; `wake` is called after each commit.
    pub fn new(store: Store, mint: Mint, rules: &IntakeRules, wake: Arc<dyn Wake>) -> Self {
        let per_minute = rules.rates.room_messages_per_minute;
        let rooms = Rooms {
            rate: Rate::per_minute(per_minute),
            per_minute,
            began: Instant::now(),
            tallies: Mutex::new(Tallies::new(rules.rates.max_tracked)),
        };
        Self { store, mint, wake, rooms: Arc::new(rooms), actor: Actor::OPERATOR }
    }

    /// Returns the Agent in `scope` with this username; fails if there are none or several.
    pub async fn agent_called(
        &self,
        scope: &Scope,
        username: &str,
    ) -> Result<Account, ReceptionError> {
        let mut found = self.store.agents_called(scope, username, 2).await?.into_iter();
        match (found.next(), found.next()) {
            (None, _) => Err(ReceptionError::Nobody),
            (Some(agent), None) => Ok(agent),
            (Some(_), Some(_)) => Err(ReceptionError::Several),
        }
    }

    /// Stores a message for an Agent, and returns its id and its room.
    pub async fn receive(
        &self,
        agent: &Account,
        submission: Submission,
    ) -> Result<(MessageId, Room), ReceptionError> {
        let handle = submission.received.handle.clone();
        let share = self.rooms.take(agent.id, &handle)?;
        let handed = self.handed(agent, submission)?;
        match self.store.receive(&handed).await {
            Ok(Receipt::Stored(contact)) => {
                self.wake.wake();
                let (message, source) = (handed.message.id, handle.source().as_str());
                info!(agent.id = agent.id.get(), message.id = %message, source, "message received");
                Ok((message, Room { contact, agent: agent.id }))
            }
            Ok(Receipt::Inactive) => {
                self.rooms.give_back(agent.id, handle, share);
                Err(ReceptionError::Inactive)
            }
            // An error gives nothing back: the message may have been written.
            Err(error) => Err(error.into()),
        }
    }

    fn handed(
        &self,
        agent: &Account,
        Submission { received, inbox, raw, posted }: Submission,
    ) -> Result<PlatformMessage, StoreError> {
        let corrupt = || StoreError::Corrupt {
            table: "accounts",
            detail: format!("Agent {} has no organization", agent.id),
        };
        let organization = agent.lineage.organization.ok_or_else(corrupt)?;
        let (id, at, digest) = (self.mint.message(), self.mint.clock().now(), sha256(&raw));
        let (detail, step) = self.evidence(&received.handle, posted.as_ref());
        let steps: Vec<Step> = posted.iter().map(session::provider).chain([step]).collect();
        let unspecified = std::net::IpAddr::from([0, 0, 0, 0]);
        let record = IntakeRecord {
            id: IntakeId(id.0),
            at,
            source: received.handle.source(),
            lineage: agent.lineage,
            agent: Some(agent.id),
            recipient: agent.username.clone(),
            sender: Some(received.handle.clone()),
            envelope_from: String::new(),
            remote_address: self.actor.remote.unwrap_or(unspecified),
            helo: String::new(),
            verdict: Verdict::Accepted,
            explanation: format!("Accepted: {detail}."),
            message: Some(id),
            size: u64::try_from(raw.len()).unwrap_or(u64::MAX),
            digest: Some(digest),
            headers: Vec::new(),
            evidence: steps.into(),
            count: 1,
            took: None,
        };
        let message = NewReceived {
            id,
            lineage: agent.lineage,
            agent: agent.id,
            agent_username: agent.username.clone(),
            organization,
            at,
            inbox,
            thread: thread::named(received.thread.as_deref()),
            received,
            digest,
        };
        let holder = self.actor.request.unwrap_or_else(|| self.mint.uuid());
        let once = self.actor.once.map(|once| (once, holder));
        Ok(PlatformMessage { record, message, raw, once })
    }

    /// Makes the evidence of the submission: it names the account of the key, or the operator.
    fn evidence(&self, handle: &Handle, posted: Option<&Posted>) -> (String, Step) {
        let account = match self.actor.who {
            Who::Key { account, .. } => Some(account.get()),
            Who::Operator | Who::Gateway => None,
        };
        let by = match (account, posted) {
            (None, _) => "the operator".to_owned(),
            (Some(id), None) => format!("a key of account {id}"),
            (Some(id), Some(posted)) => {
                format!("the adapter (relay type {}) of account {id}", posted.provider)
            }
        };
        let detail = format!("submitted by {by}, which vouches for the sender");
        let facts = ReceiveMessage { account_id: account, source: handle.source().as_str().into() };
        let facts = Facts::ReceiveMessage(facts);
        let step = step(facts, "accepted", detail.as_str(), std::time::Instant::now());
        (detail, step)
    }
}

impl Rooms {
    fn take(&self, agent: AccountId, handle: &Handle) -> Result<Option<Share>, ReceptionError> {
        let Some(rate) = self.rate else { return Ok(None) };
        let (key, now) = ((agent, handle.clone()), self.began.elapsed());
        let mut tallies = locked(&self.tallies);
        if !tallies.may(&key, rate, now) {
            let wait = tallies.wait(&key, rate, now);
            return Err(ReceptionError::TooMany { per_minute: self.per_minute, wait });
        }
        Ok(Some(tallies.add(&key, rate, now)))
    }

    fn give_back(&self, agent: AccountId, handle: Handle, share: Option<Share>) {
        if let Some(share) = share {
            let mut tallies = locked(&self.tallies);
            tallies.give_back(&(agent, handle), share, self.began.elapsed());
        }
    }
}
