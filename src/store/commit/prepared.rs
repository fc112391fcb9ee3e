//! A commit made ready by its caller: many tasks do the costly work (packing), the writer only
//! writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::intake::{Accepted, Commit, PlatformMessage};
use crate::domain::clock::Timestamp;
use crate::domain::contact::Handle;
use crate::domain::message::Mail;
use crate::domain::room;
use crate::domain::source::Inbox;
use crate::store::engine::error::StoreError;
use crate::store::engine::row::{organization_of, stored};
use crate::store::mailbox::contents::OriginalPlaces;
use crate::store::mailbox::entry::{Arrived, Decided, Entry, OriginalPlace, RecordColumns};
use crate::store::mailbox::intake_records;
use crate::store::mailbox::mail_row::MailRow;
use crate::store::mailbox::messages;
use crate::store::mailbox::outcome_row;
use crate::store::mailbox::packed::Packed;
use crate::store::mailbox::received_row::ReceivedRow;
use crate::store::tenancy::addresses::AddressedAgent;

pub struct PreparedCommit {
    pub entries: Vec<Entry>,
    pub now: Timestamp,
    /// The organization of all entries: recipients of several come in separate transactions.
    pub organization: i64,
}

impl PreparedCommit {
    /// Makes a commit of SMTP ready. `places` are those of its originals. Asks no database.
    pub(in crate::store) async fn of_mail(
        commit: &Commit,
        places: &OriginalPlaces,
    ) -> Result<Self, StoreError> {
        // Packed once for all recipients.
        let mut shared: Option<(&Arc<Mail>, Arc<Packed>)> = None;
        let mut contents = BTreeMap::new();
        let mut entries = Vec::with_capacity(commit.intakes.len());
        for intake in &commit.intakes {
            let record = Arc::new(intake_records::columns(&intake.record)?);
            let arrived = match &intake.accepted {
                None => None,
                Some(accepted) => {
                    let mail = &accepted.message.mail;
                    let place = places.get(&accepted.message.digest).cloned().unwrap_or_default();
                    let read = match &shared {
                        Some((known, read)) if Arc::ptr_eq(known, mail) => read.clone(),
                        _ => {
                            let raw = place.here(&accepted.raw);
                            let results = accepted.message.authentication.as_deref();
                            Packed::of(&MailRow::of(mail, results), raw).await?.into()
                        }
                    };
                    shared = Some((mail, read.clone()));
                    // Shared by recipients of one organization with the same bytes.
                    let message = &accepted.message;
                    let owner = (message.organization, message.digest);
                    let content_id = *contents.entry(owner).or_insert(message.id);
                    let arrived = Arrived::of_mail(accepted, &record, read, place);
                    Some(Arrived { content_id, ..arrived })
                }
            };
            let (count, message) = (intake.record.count, intake.record.message);
            entries.push(Entry { record, count, message, arrived });
        }
        let organization = commit.intakes.first();
        let organization = organization.map_or(0, |one| organization_of(&one.record.lineage));
        Ok(Self { entries, now: commit.now, organization })
    }

    pub(in crate::store) async fn of_platform(
        posted: &PlatformMessage,
        place: OriginalPlace,
    ) -> Result<Self, StoreError> {
        let record = Arc::new(intake_records::columns(&posted.record)?);
        let arrived = Arrived::of_platform(posted, &record, place).await?;
        let (count, message) = (posted.record.count, posted.record.message);
        let entry = Entry { record, count, message, arrived: Some(arrived) };
        let organization = organization_of(&posted.record.lineage);
        Ok(Self { entries: vec![entry], now: posted.message.at, organization })
    }

    /// Copies the records alone, for another try to write them.
    pub fn records(&self) -> Self {
        let again = |entry: &Entry| {
            let (record, message) = (Arc::clone(&entry.record), entry.message);
            Entry { record, count: entry.count, message, arrived: None }
        };
        let entries = self.entries.iter().map(again).collect();
        Self { entries, now: self.now, organization: self.organization }
    }

    pub fn arrived(&self) -> impl Iterator<Item = &Arrived> {
        self.entries.iter().filter_map(|entry| entry.arrived.as_ref())
    }

    /// Approximate bytes sent to the database: contents once, evidence for each recipient.
    pub fn octets(&self) -> usize {
        let contents = self.arrived().map(|arrived| arrived.content.len());
        let evidence = self.entries.iter().map(|entry| entry.record.octets());
        contents.max().unwrap_or(0) + evidence.sum::<usize>()
    }
}

impl Arrived {
    fn of_mail(
        accepted: &Accepted,
        record: &Arc<RecordColumns>,
        read: Arc<Packed>,
        place: OriginalPlace,
    ) -> Self {
        let message = &accepted.message;
        let mut keys = accepted.arrival_keys.clone();
        keys.sort_unstable();
        keys.dedup();
        Self {
            id: message.id,
            lineage: message.lineage,
            agent: message.agent,
            organization: message.organization,
            at: message.at,
            handle: Handle::Mailbox(message.mail.from.address.clone()),
            name: message.mail.from.name.clone(),
            decided: Some(Decided {
                sender: message.mail.from.address.clone(),
                address: accepted.address.clone(),
                by: AddressedAgent {
                    lineage: message.lineage,
                    username: message.agent_username.clone(),
                    standing: accepted.standing,
                },
            }),
            once: None,
            keys,
            thread: message.thread.clone(),
            inbox: Inbox::Priority,
            preview: room::preview(&message.mail.stripped_text, &message.mail.text),
            mail: Some(Arc::clone(&message.mail)),
            remembered_until: accepted.remembered_until,
            digest: message.digest,
            content_id: message.id,
            place,
            content: read,
            columns: messages::columns(message, stored_size(accepted.raw.len())),
            outcome: None,
            record: Arc::clone(record),
        }
    }

    async fn of_platform(
        posted: &PlatformMessage,
        record: &Arc<RecordColumns>,
        place: OriginalPlace,
    ) -> Result<Self, StoreError> {
        let message = &posted.message;
        let read = ReceivedRow::from(&message.received);
        Ok(Self {
            id: message.id,
            lineage: message.lineage,
            agent: message.agent,
            organization: message.organization,
            at: message.at,
            handle: message.received.handle.clone(),
            name: message.received.name.clone(),
            decided: None,
            once: posted.once,
            keys: Vec::new(),
            thread: message.thread.clone(),
            inbox: message.inbox,
            preview: room::preview("", &message.received.text),
            mail: None,
            remembered_until: message.at,
            digest: message.digest,
            content_id: message.id,
            content: Packed::of(&read, place.here(&posted.raw)).await?.into(),
            place,
            columns: messages::columns_of_received(message, stored_size(posted.raw.len())),
            outcome: outcome_row::columns_of_received(message)?,
            record: Arc::clone(record),
        })
    }
}

fn stored_size(size: usize) -> i64 {
    stored(u64::try_from(size).unwrap_or(u64::MAX))
}
