//! The transaction for all waiting messages: reads each standing again, finds repeats, and writes
//! the rows of all others, table by table. Locks are taken in the order of `commit/mod.rs`, so that
//! gateways wait for each other, but not in a circle.

use std::collections::HashMap;
use std::time::Instant;

use super::arrivals;
use super::prepared::PreparedCommit;
use super::received;
use crate::domain::event::{Event, EventName, announced};
use crate::domain::feature::Offer;
use crate::domain::id::{ContactId, MessageId};
use crate::domain::message::Digest;
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, retry_conflicts};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::group::GroupedWork;
use crate::store::events::announcements;
use crate::store::mailbox::contacts;
use crate::store::mailbox::contents;
use crate::store::mailbox::entry::{Arrived, Entry, FiledMessage, OriginalPlace};
use crate::store::mailbox::intake_records;
use crate::store::mailbox::messages;
use crate::store::mailbox::outcome_row;
use crate::store::mailbox::rooms;
use crate::store::mailbox::search_entries;
use crate::store::mailbox::sessions;
use crate::store::mailbox::threads;
use crate::store::tenancy::addresses::{StandingQuestion, standings};

#[derive(Debug)]
pub enum CommitOutcome {
    /// Durable; the result of each entry.
    Done(Vec<EntryOutcome>),
    /// The standing has changed since the decision; nothing was written.
    Stale,
    /// Another request already used this Idempotency-Key; nothing was written.
    Repeated,
    /// A large original that was stored before the transaction was erased meanwhile, and must be
    /// put into the blob store again. Nothing was written.
    Unkept,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryOutcome {
    /// A record without a message.
    Recorded,
    /// A repeat of this message.
    Repeat(MessageId),
    /// A new message of this contact.
    Stored(ContactId),
}

pub struct CommitWriter {
    base: Base,
}

impl CommitWriter {
    pub const fn new(base: Base) -> Self {
        Self { base }
    }

    async fn try_write(&self, group: &[PreparedCommit]) -> Result<Vec<CommitOutcome>, StoreError> {
        let mut tx = self.base.begin().await?;
        let arrived: Vec<&Arrived> = group.iter().flat_map(PreparedCommit::arrived).collect();
        pass_gates(&mut tx, &arrived).await?;
        let stale = stale(&mut tx, &self.base.offer, group, &arrived).await?;
        let named = contents::named(&mut tx, &arrived).await?;
        let gone =
            |one: &Arrived| one.place == OriginalPlace::Named && !named.contains_key(&one.digest);
        let mut answers: Vec<CommitOutcome> = stale
            .into_iter()
            .zip(group)
            .map(|(stale, prepared)| match (stale, prepared.arrived().any(gone)) {
                (true, _) => CommitOutcome::Stale,
                (false, true) => CommitOutcome::Unkept,
                (false, false) => CommitOutcome::Done(Vec::new()),
            })
            .collect();
        // Requests that are not carried out now are not remembered as if they were.
        let admits = |answer: &CommitOutcome| matches!(answer, CommitOutcome::Done(_));
        let put_off: Vec<bool> = answers.iter().map(|answer| !admits(answer)).collect();
        for place in received::repeated(&mut tx, group, &put_off).await? {
            if let Some(answer) = answers.get_mut(place) {
                *answer = CommitOutcome::Repeated;
            }
        }
        let admitted: Vec<&PreparedCommit> = group
            .iter()
            .zip(&answers)
            .filter_map(|(prepared, answer)| admits(answer).then_some(prepared))
            .collect();
        let (mut earlier, mut contact_of) = (HashMap::new(), HashMap::new());
        if let Some(now) = admitted.iter().map(|prepared| prepared.now).min() {
            let entries: Vec<&Entry> = admitted.iter().flat_map(|one| &one.entries).collect();
            let arrived: Vec<&Arrived> =
                entries.iter().filter_map(|e| e.arrived.as_ref()).collect();
            let clock = self.base.mint().clock();
            let remembering = arrivals::remember(&arrived, now, clock);
            let [remembered, known] = tx.ask([remembering, contacts::known(&arrived)]).await?;
            earlier = arrivals::earlier(&mut tx, &arrived, &remembered)?;
            let fresh: Vec<&Arrived> =
                arrived.into_iter().filter(|one| !earlier.contains_key(&one.id)).collect();
            let filed = contacts::find_or_create(&mut tx, &fresh, &known).await?;
            contact_of = self.store(&mut tx, filed, &named).await?;
            intake_records::insert(&mut tx, &entries, &earlier);
            let has_concurrent_writers = tx.has_concurrent_writers();
            tx.commit().await?;
            if !has_concurrent_writers {
                self.base.unindexed.keep(fresh.iter().filter_map(|one| one.said()));
            }
        }
        for (answer, prepared) in answers.iter_mut().zip(group) {
            if let CommitOutcome::Done(outcomes) = answer {
                *outcomes = entry_outcomes(prepared, &earlier, &contact_of);
            }
        }
        Ok(answers)
    }

    /// Stores messages that are new to their Agents, with contents, rooms, events and deliveries.
    /// Returns the contact of each message.
    async fn store(
        &self,
        tx: &mut Transaction,
        mut filed: Vec<FiledMessage<'_>>,
        named: &HashMap<Digest, String>,
    ) -> Result<HashMap<MessageId, ContactId>, StoreError> {
        let about = filed.iter().flat_map(|one| {
            announced_by(one, false).map(|name| (&one.message.lineage, name.category()))
        });
        let listeners = announcements::listeners(about);
        let asked = [threads::known(&filed), sessions::known(&filed), listeners];
        let [threads, sessions, listeners] = tx.ask(asked).await?;
        let thread_keys = threads::assign(&threads, &mut filed)?;
        sessions::assign(&sessions, &mut filed)?;
        let fresh: Vec<&Arrived> = filed.iter().map(|one| one.message).collect();
        contents::insert(tx, &fresh, named);
        messages::insert(tx, &filed);
        outcome_row::insert(tx, &filed);
        search_entries::insert_waiting(tx, &fresh);
        threads::insert_keys(tx, thread_keys);
        let counts: Vec<usize> = filed.iter().map(|one| announced_by(one, false).count()).collect();
        let numbers = announcements::numbers(tx, &counts);
        let [written, numbers] = tx.ask([rooms::add_messages(&filed), numbers]).await?;
        let mut begun = rooms::added(tx, &filed, &written).await?;
        let mut events = Vec::new();
        for one in &filed {
            let message = one.message;
            // The first message of the group in its room.
            let first_of_room = begun.remove(&one.room());
            for (name, number) in announced_by(one, first_of_room).zip(1..) {
                events.push(Event {
                    id: message.id.event(number),
                    name,
                    at: message.at,
                    lineage: message.lineage,
                    message: Some(message.id),
                    contact: Some(one.contact),
                    told: None,
                });
            }
        }
        announcements::write(tx, &events, &listeners, &numbers, self.base.mint())?;
        Ok(filed.iter().map(|one| (one.message.id, one.contact)).collect())
    }
}

/// Returns the events of a message; as many whether the room begins with it or not.
fn announced_by(one: &FiledMessage<'_>, first_of_room: bool) -> impl Iterator<Item = EventName> {
    announced(one.change, first_of_room, one.message.handle.source())
}

impl GroupedWork for CommitWriter {
    type Job = PreparedCommit;
    type Answer = CommitOutcome;

    fn size(job: &PreparedCommit) -> (usize, usize) {
        (job.entries.len(), job.octets())
    }

    fn organization(job: &PreparedCommit) -> i64 {
        job.organization
    }

    async fn write(&self, group: &[PreparedCommit]) -> Result<Vec<CommitOutcome>, StoreError> {
        let began = Instant::now();
        let written = retry_conflicts!(self.try_write(group));
        if let (Ok(_), Some(metrics)) = (&written, self.base.metrics.get()) {
            metrics.committed(group.len(), began.elapsed());
        }
        written
    }
}

/// Keeps the standing of these messages until the transaction ends: a change of the policy, the
/// address, an account above or its destinations waits. Later statements see each earlier change;
/// this one does not, because a statement sees the state from before its locks.
async fn pass_gates(tx: &mut Transaction, arrived: &[&Arrived]) -> Result<(), StoreError> {
    if !tx.has_concurrent_writers() {
        return Ok(());
    }
    let accounts = arrived.iter().flat_map(|one| one.lineage.ids()).collect();
    let domains =
        arrived.iter().filter_map(|one| one.decided.as_ref()).map(|by| by.address.domain());
    let domains = domains.collect();
    gates::pass_all(tx, accounts, domains).await
}

/// Returns for each commit whether its standing has changed since the decision. Behind the gates.
async fn stale(
    tx: &mut Transaction,
    offer: &Offer,
    group: &[PreparedCommit],
    arrived: &[&Arrived],
) -> Result<Vec<bool>, StoreError> {
    let questions: Vec<StandingQuestion<'_>> =
        arrived.iter().filter_map(|one| one.question()).collect();
    let active = received::active(tx, arrived).await?;
    let mut now = standings(tx.on(), offer, &questions).await?.into_iter();
    let mut stale = Vec::with_capacity(group.len());
    for prepared in group {
        // `count` goes through all of them, so that questions and answers stay in step.
        let changed = prepared.arrived().filter(|one| match &one.decided {
            Some(decided) => now.next().flatten().as_ref() != Some(&decided.by),
            None => !active.contains(&one.agent),
        });
        stale.push(changed.count() > 0);
    }
    Ok(stale)
}

fn entry_outcomes(
    prepared: &PreparedCommit,
    earlier: &HashMap<MessageId, MessageId>,
    contact_of: &HashMap<MessageId, ContactId>,
) -> Vec<EntryOutcome> {
    let outcome = |entry: &Entry| {
        let Some(arrived) = &entry.arrived else { return EntryOutcome::Recorded };
        let repeat = earlier.get(&arrived.id).copied().map(EntryOutcome::Repeat);
        let stored = || contact_of.get(&arrived.id).copied().map(EntryOutcome::Stored);
        repeat.or_else(stored).unwrap_or(EntryOutcome::Recorded)
    };
    prepared.entries.iter().map(outcome).collect()
}
