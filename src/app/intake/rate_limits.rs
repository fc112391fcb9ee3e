//! Limits how much of one sender's mail is accepted per minute: by each organization, and by each
//! Agent (a room). Also limits copies of one signature per Agent. Mail over a rate is deferred, so
//! that a loop that nothing else ends stays slow, and admitted senders cannot bury an Agent
//! (contract §2, Replies: `rate_limited`).
//!
//! Checked for mail that is authenticated and admitted: forged mail uses up no sender's rate. A
//! message is counted before its commit, and given back if nothing is stored.
//!
//! A stranger with one signed message can send it again and again, with other values in fields that
//! the signature leaves open; each copy is a new message of its sender. So copies have a small rate
//! of their own, per Agent (a mailing list signs once for all its readers), and a copy that is
//! deferred counts towards no other rate.
//!
//! The genuine message cannot be told from altered copies, and a rate per copy would limit nothing.
//! But hasty copies come from few networks, and not from the sender's. So a network that has
//! brought no copy for a minute may bring one beyond the rate, up to a minute's worth for all
//! networks. To defer the genuine message, an attacker needs more networks than the rate, every
//! minute; and the sender retries after the 450, so nothing is lost.
//!
//! Recipients of one transaction get one reply. The transaction is deferred if none of them is
//! within the rate; otherwise all get the message, and those over the rate owe it. Counts are in
//! memory, per gateway, under one lock that is never held across an await.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::time::Instant;
use tracing::info;

use super::step::step;
use super::{Examination, Gateway};
use crate::app::locked::locked;
use crate::domain::address::Address;
use crate::domain::contact::Handle;
use crate::domain::evidence::Facts;
use crate::domain::evidence::rates::Rates;
use crate::domain::id::{AccountId, IntakeId, MessageId};
use crate::domain::intake_record::IntakeRecord;
use crate::domain::message::Digest;
use crate::domain::network::Network;
use crate::domain::ports::IntakeReply;
use crate::domain::rate::{Rate, Share, Tallies};
use crate::domain::reason::Reason;
use crate::domain::verdict::Verdict;
use crate::domain::words::words;
use crate::rules::IntakeRates;
use crate::store::{Commit, Intake, StoreError};

#[derive(Debug)]
pub(super) struct RateLimits {
    rules: IntakeRates,
    /// The origin of all moments.
    began: Instant,
    counted: Mutex<Counters>,
}

#[derive(Debug)]
struct Counters {
    /// Per Agent.
    signatures: Counts<Digest>,
    /// Per Agent: copies by the network that brings them, one a minute from each.
    sources: Counts<(Digest, Network)>,
    /// Per organization: a sender known to several organizations has a rate in each.
    senders: Counts<Address>,
    /// Per Agent.
    rooms: Counts<Address>,
}

#[derive(Debug)]
struct Counts<K> {
    /// None if nothing is counted.
    rate: Option<Rate>,
    tallies: Tallies<CountedKey<K>>,
}

/// The value that is counted for an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct CountedKey<K> {
    account: AccountId,
    value: K,
}

type Shares<K> = Vec<(CountedKey<K>, Share)>;

words! {
    ExceededRate {
        Signature = "signature",
        Sender = "sender",
        Room = "room",
    }
}

/// A message that was decided to be accepted.
#[derive(Debug)]
pub(super) struct RatedMessage<'m> {
    sender: &'m Address,
    signatures: &'m [Digest],
    network: Network,
    /// Its Agents with their organizations.
    agents: BTreeMap<AccountId, AccountId>,
}

/// A counted message. The count stays unless it is settled or given back, so an unknown outcome
/// counts.
#[derive(Debug)]
pub(super) struct RateCount<'l> {
    limits: &'l RateLimits,
    signatures: Shares<Digest>,
    sources: Shares<(Digest, Network)>,
    senders: Shares<Address>,
    rooms: Shares<Address>,
}

impl RateLimits {
    pub(super) fn new(rules: IntakeRates) -> Self {
        let most = rules.max_tracked;
        let counted = Counters {
            signatures: Counts::new(rules.signature_messages_per_minute, most),
            sources: Counts::new(rules.signature_messages_per_minute.min(1), most),
            senders: Counts::new(rules.sender_messages_per_minute, most),
            rooms: Counts::new(rules.room_messages_per_minute, most),
        };
        Self { rules, began: Instant::now(), counted: Mutex::new(counted) }
    }

    /// Counts a message for all its Agents; fails, counting nothing, if it is over a rate for every
    /// one.
    pub(super) fn take(
        &self,
        message: &RatedMessage<'_>,
        now: Instant,
    ) -> Result<RateCount<'_>, ExceededRate> {
        let at = self.moment(now);
        let mut counted = locked(&self.counted);
        let Counters { signatures, sources, senders, rooms } = &mut *counted;
        let organizations: BTreeSet<AccountId> = message.agents.values().copied().collect();
        let of =
            |account: &AccountId| CountedKey { account: *account, value: message.sender.clone() };
        let copies = |agent: &AccountId| {
            let account = *agent;
            message.signatures.iter().map(move |value| CountedKey { account, value: *value })
        };
        let source = |copy: CountedKey<Digest>| CountedKey {
            account: copy.account,
            value: (copy.value, message.network),
        };
        let may_come = |copy: CountedKey<Digest>| {
            signatures.may(&copy, at)
                || (signatures.may_owe(&copy, at) && sources.may(&source(copy), at))
        };
        let (agents, sender) = (|| message.agents.keys(), |one| senders.may(&of(one), at));
        if !agents().any(|agent| copies(agent).all(may_come)) {
            return Err(ExceededRate::Signature);
        }
        if !organizations.iter().any(sender) {
            return Err(ExceededRate::Sender);
        }
        if !agents().any(|agent| rooms.may(&of(agent), at)) {
            return Err(ExceededRate::Room);
        }
        Ok(RateCount {
            limits: self,
            signatures: signatures.add(agents().flat_map(copies), at),
            sources: sources.add(agents().flat_map(copies).map(source), at),
            senders: senders.add(organizations.iter().map(of), at),
            rooms: rooms.add(agents().map(of), at),
        })
    }

    fn moment(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }

    fn words(&self, over: ExceededRate) -> String {
        match over {
            ExceededRate::Signature => {
                let rate = self.rules.signature_messages_per_minute;
                format!("more than {rate} messages a minute with the same signature to one Agent")
            }
            ExceededRate::Sender => {
                let rate = self.rules.sender_messages_per_minute;
                format!("more than {rate} messages a minute from this sender")
            }
            ExceededRate::Room => {
                let rate = self.rules.room_messages_per_minute;
                format!("more than {rate} messages a minute from this sender to one Agent")
            }
        }
    }
}

impl<K: Clone + Eq + Hash> Counts<K> {
    fn new(per_minute: u32, most: usize) -> Self {
        Self { rate: Rate::per_minute(per_minute), tallies: Tallies::new(most) }
    }

    fn may(&self, key: &CountedKey<K>, at: Duration) -> bool {
        self.rate.is_none_or(|rate| self.tallies.may(key, rate, at))
    }

    fn may_owe(&self, key: &CountedKey<K>, at: Duration) -> bool {
        self.rate.is_none_or(|rate| self.tallies.may_owe(key, rate, at))
    }

    /// Counts one more of each key. A key over its rate, let in because of other recipients, owes
    /// at most a minute's worth: a sender to many must not shut one of them off.
    fn add(&mut self, keys: impl Iterator<Item = CountedKey<K>>, at: Duration) -> Shares<K> {
        let Some(rate) = self.rate else { return Vec::new() };
        let mut count = |key: CountedKey<K>| {
            let is_counted = self.tallies.may_owe(&key, rate, at);
            is_counted.then(|| self.tallies.add(&key, rate, at)).map(|share| (key, share))
        };
        keys.filter_map(&mut count).collect()
    }

    /// Gives back the shares of all accounts but these.
    fn give_back(&mut self, shares: &Shares<K>, but: &BTreeSet<AccountId>, at: Duration) {
        for (key, share) in shares.iter().filter(|(key, _)| !but.contains(&key.account)) {
            self.tallies.give_back(key, *share, at);
        }
    }
}

impl RateCount<'_> {
    /// Keeps the counts of stored messages and gives back the others. `earlier` has, for each
    /// recipient in order, the earlier message that this one repeats.
    pub(super) fn settle(self, intakes: &[Intake], earlier: &[Option<MessageId>], now: Instant) {
        let stored = intakes.iter().zip(earlier).filter(|(_, earlier)| earlier.is_none());
        let accepted = stored.filter_map(|(intake, _)| intake.accepted.as_ref());
        let accounts = accepted.flat_map(|one| [one.message.agent, one.message.organization]);
        self.keep_for(&accounts.collect(), now);
    }

    pub(super) fn give_back(self, now: Instant) {
        self.keep_for(&BTreeSet::new(), now);
    }

    fn keep_for(self, accounts: &BTreeSet<AccountId>, now: Instant) {
        let at = self.limits.moment(now);
        let mut counted = locked(&self.limits.counted);
        counted.signatures.give_back(&self.signatures, accounts, at);
        counted.sources.give_back(&self.sources, accounts, at);
        counted.senders.give_back(&self.senders, accounts, at);
        counted.rooms.give_back(&self.rooms, accounts, at);
    }
}

impl<'m> RatedMessage<'m> {
    /// Returns None if no recipient accepts the message.
    fn of(commit: &'m Commit, examination: &'m Examination) -> Option<Self> {
        let accepted = || commit.intakes.iter().filter_map(|intake| intake.accepted.as_ref());
        let sender = &accepted().next()?.message.mail.from.address;
        let network = Network::of_site(commit.intakes.first()?.record.remote_address);
        let agents = accepted().map(|one| (one.message.agent, one.message.organization)).collect();
        Some(Self { sender, signatures: &examination.signatures, network, agents })
    }
}

impl Gateway {
    /// Counts an accepted message if it is within its rates; None if it is not accepted.
    pub(super) fn within_rates(
        &self,
        commit: &Commit,
        examination: &Examination,
    ) -> Result<Option<RateCount<'_>>, ExceededRate> {
        let Some(message) = RatedMessage::of(commit, examination) else { return Ok(None) };
        self.rate_limits.take(&message, Instant::now()).map(Some)
    }

    /// Defers a message that was decided to be accepted. All mail deferred in one room and minute
    /// leaves one record and one log line. Recipients to which the message returns (a loop) get
    /// their record when the sender retries.
    pub(super) async fn defer_over_rate(
        &self,
        commit: Commit,
        over: ExceededRate,
    ) -> Result<IntakeReply, StoreError> {
        let words = self.rate_limits.words(over);
        let accepted = commit.intakes.into_iter().filter(|intake| intake.accepted.is_some());
        // All at once, so that the store writes them together.
        let counting = accepted.map(|intake| self.count_deferral(intake.record, over, &words));
        let records = try_join_all(counting).await?;
        let (reason, record) = (Some(Reason::RateLimited), records.first().copied());
        Ok(IntakeReply { reason, detail: Some(words), record, again: false })
    }

    async fn count_deferral(
        &self,
        mut record: IntakeRecord,
        over: ExceededRate,
        words: &str,
    ) -> Result<IntakeId, StoreError> {
        let reason = Reason::RateLimited;
        let facts = Facts::Rates(Rates {
            over: over.as_str().into(),
            signature_messages_per_minute: self.rate_limits.rules.signature_messages_per_minute,
            sender_messages_per_minute: self.rate_limits.rules.sender_messages_per_minute,
            room_messages_per_minute: self.rate_limits.rules.room_messages_per_minute,
        });
        record.evidence.push(step(facts, reason.as_str(), words, std::time::Instant::now()));
        record.verdict = Verdict::of(Some(reason));
        record.explanation = format!("{} ({words})", reason.explanation());
        record.message = None;
        let sender = record.sender.as_ref().map(Handle::to_string).unwrap_or_default();
        let counted = self.store.count_refusal(&record, &sender).await?;
        if counted == record.id {
            let agent = record.agent.map(AccountId::get);
            info!(
                agent.id = agent,
                record.id = %counted,
                over = over.as_str(),
                "mail deferred: rate exceeded"
            );
        }
        Ok(counted)
    }
}

#[cfg(test)]
mod tests;
