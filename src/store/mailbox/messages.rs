//! Messages in their rows: written by a commit, read back for the Agents.

use std::collections::HashSet;

use super::entry::FiledMessage;
use super::mail_row::MailRow;
use super::new_messages::{NewMessage, NewReceived};
use super::outcome_row;
use super::packed::{self, StoredOriginal};
use super::passage_row;
use super::presence::PRESENT;
use super::received_row::ReceivedRow;
use crate::domain::clock::{TimeRange, Timestamp};
use crate::domain::contact::Handle;
use crate::domain::id::{MessageId, SessionId, ThreadId};
use crate::domain::marker::Marker;
use crate::domain::message::{Content, Digest, Mail, Mailed, Message, Passage, Received};
use crate::domain::repeats::{LogCause, Repeats};
use crate::domain::scope::Scope;
use crate::domain::sender::Sender;
use crate::domain::source::Source;
use crate::store::base::Base;
use crate::store::base::page::{Page, RECORDED, merged, within};
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, Row, Statement, Value, sql};

/// The original of a message, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Original {
    /// The time of arrival: with the id, the place of the message in every list.
    pub at: Timestamp,
    pub digest: Digest,
    pub source: Source,
    /// The marker of its delivery, for sending the bytes on.
    pub marker: Option<Marker>,
}

impl Base {
    /// Returns a page of the messages in `scope` that arrived in this time, the newest first. Leaves
    /// out damaged rows.
    pub async fn recent_messages(
        &self,
        scope: &Scope,
        time: TimeRange,
        page: &Page,
    ) -> Result<Vec<Message>, StoreError> {
        let part = |query: &mut Statement, range: &&str| {
            query.push(SELECT).push(range);
            within(query, scope);
            query.push(PRESENT);
        };
        let on = self.reader();
        let query = merged(on.is_postgres(), &RECORDED, part, page, time);
        let rows = query.fetch_all(on).await?;
        Ok(page.newest_first(listed_messages(&rows, &self.repeats)?))
    }

    /// Returns the raw bytes of a message in `scope`. Fails with `Lost` if the blob store has none.
    pub async fn raw_message(
        &self,
        scope: &Scope,
        id: MessageId,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let mut query = sql("SELECT octets, packed, original, object, size, digest
             FROM messages JOIN contents USING (content_id, organization_id)
             WHERE id = $1 AND ")
        .bind(id.0);
        within(&mut query, scope);
        query.push(PRESENT);
        let row = query.fetch_optional(self.reader()).await?;
        let Some(row) = row else { return Ok(None) };
        let columns = Columns { table: "contents", row: &row };
        let name = match packed::original(&columns).await? {
            StoredOriginal::Here(raw) => return Ok(Some(raw)),
            StoredOriginal::Object(name) => name,
        };
        let elsewhere = "the original is in a blob store: name the blob store with --blobs";
        let blobs = self.blobs().ok_or_else(|| columns.corrupt(elsewhere))?;
        match blobs.get(&name, columns.count("size")?, columns.digest("digest")?).await {
            // Erased since its row was read.
            Err(StoreError::Lost { .. }) if self.original(scope, id).await?.is_none() => Ok(None),
            read => read.map(Some),
        }
    }

    /// Returns the facts about the original of a message in `scope`, without its bytes.
    pub async fn original(
        &self,
        scope: &Scope,
        id: MessageId,
    ) -> Result<Option<Original>, StoreError> {
        let mut query =
            sql("SELECT at, digest, source, passage FROM messages WHERE id = $1 AND ").bind(id.0);
        within(&mut query, scope);
        query.push(PRESENT);
        let row = query.fetch_optional(self.reader()).await?;
        let Some(row) = row else { return Ok(None) };
        let columns = Columns { table: "messages", row: &row };
        let passage = passage_row::read(columns.optional_text("passage")?.as_deref());
        Ok(Some(Original {
            at: columns.time("at")?,
            digest: columns.digest("digest")?,
            source: columns.word("source")?,
            marker: passage.marker,
        }))
    }
}

/// Selects messages with their parsed contents; a condition follows.
pub const SELECT: &str = "SELECT id, partner_id, reseller_id, organization_id, agent_id,
                agent_username, contact_id, at, thread_id, session_id, inbox, source, tag, size,
                digest, passage, sender, subject, octets, packed,
                (SELECT facts FROM outcomes
                 WHERE outcomes.message_id = messages.id
                   AND outcomes.organization_id = messages.organization_id) AS facts
         FROM messages JOIN contents USING (content_id, organization_id) WHERE ";

/// Returns these messages in no particular order, without missing ones and those under erasure.
pub async fn by_ids(
    on: Connection<'_>,
    ids: impl Iterator<Item = MessageId>,
) -> Result<Vec<Row>, StoreError> {
    many(
        "WITH given (message) AS ({rows})
         SELECT id, partner_id, reseller_id, messages.organization_id, agent_id, agent_username,
                contact_id, at, thread_id, session_id, inbox, source, tag, size, digest,
                passage, sender, subject, octets, packed,
                (SELECT facts FROM outcomes
                 WHERE outcomes.message_id = messages.id
                   AND outcomes.organization_id = messages.organization_id) AS facts
         FROM given CROSS JOIN messages CROSS JOIN contents
         WHERE messages.id = given.message AND contents.content_id = messages.content_id
           AND contents.organization_id = messages.organization_id
           AND NOT EXISTS (SELECT 1 FROM erasures
                           WHERE subject IN (messages.contact_id, messages.agent_id))",
        ids.map(|id| vec![id.0.into()]).collect(),
    )
    .fetch_all(on)
    .await
}

/// Returns those of these messages that exist and are not under erasure.
pub async fn present(
    on: Connection<'_>,
    ids: impl IntoIterator<Item = MessageId>,
) -> Result<HashSet<MessageId>, StoreError> {
    let rows = many(
        "WITH given (message) AS ({rows})
         SELECT id FROM given CROSS JOIN messages
         WHERE id = given.message
           AND NOT EXISTS (SELECT 1 FROM erasures
                           WHERE subject IN (messages.contact_id, messages.agent_id))",
        ids.into_iter().map(|id| vec![id.0.into()]).collect(),
    );
    let id = |row: &Row| Columns { table: "messages", row }.uuid("id").map(MessageId);
    rows.fetch_all(on).await?.iter().map(id).collect()
}

/// Returns the columns of a mail, except contact, thread, session, inbox, and its record's.
pub fn columns(message: &NewMessage, size: i64) -> Vec<Value> {
    let lineage = message.lineage;
    vec![
        message.id.0.into(),
        lineage.partner.into(),
        lineage.reseller.into(),
        lineage.organization.into(),
        message.agent.into(),
        message.agent_username.as_str().into(),
        message.at.into(),
        message.mail.from.address.to_string().into(),
        message.tag.clone().into(),
        size.into(),
        message.digest.0.as_slice().into(),
        passage_row::to_json(&message.passage).into(),
        message.mail.subject.as_deref().map(listed_subject).into(),
        Source::Email.as_str().into(),
    ]
}

/// Returns the columns of a new message from a platform, except those that [`columns`] leaves out.
pub fn columns_of_received(message: &NewReceived, size: i64) -> Vec<Value> {
    let (lineage, handle) = (message.lineage, &message.received.handle);
    vec![
        message.id.0.into(),
        lineage.partner.into(),
        lineage.reseller.into(),
        lineage.organization.into(),
        message.agent.into(),
        message.agent_username.as_str().into(),
        message.at.into(),
        handle.to_string().into(),
        None::<String>.into(),
        size.into(),
        message.digest.0.as_slice().into(),
        passage_row::to_json(&Passage::default()).into(),
        None::<String>.into(),
        handle.source().as_str().into(),
    ]
}

/// Cuts a subject to the length that lists and logs show.
fn listed_subject(subject: &str) -> String {
    subject.chars().take(1000).collect()
}

/// Writes new messages with the commit, each with its contact, thread, session and record.
pub fn insert(tx: &mut Transaction, filed: &[FiledMessage<'_>]) {
    let rows = filed.iter().map(|one| {
        let message = one.message;
        let place = [
            one.contact.get().into(),
            one.thread.0.into(),
            one.session.0.into(),
            message.inbox.as_str().into(),
            message.content_id.0.into(),
        ];
        let explanation = [message.record.explanation.as_str().into()];
        let columns = message.columns.iter().cloned().chain(place);
        columns.chain(message.record.own.iter().cloned()).chain(explanation).collect()
    });
    tx.later(many(
        "INSERT INTO messages (id, partner_id, reseller_id, organization_id, agent_id,
             agent_username, at, sender, tag, size, digest, passage, subject, source, contact_id,
             thread_id, session_id, inbox, content_id, recipient, envelope_from, remote_address,
             helo, took_us, evidence, explanation) {rows}",
        rows.collect(),
    ));
}

/// Reads a message; fails if its contents are damaged.
pub fn message(row: &Row) -> Result<Message, StoreError> {
    with_content(row, content)
}

/// Reads a message for a list. Damaged contents must not hide the rest of the list: such a mail is
/// shown with the columns of its row only.
fn listed_message(row: &Row, repeats: &Repeats) -> Result<Message, StoreError> {
    let mut unreadable = false;
    let message = with_content(row, |columns| match content(columns) {
        Err(error @ StoreError::Corrupt { .. }) => {
            unreadable = true;
            let id = columns.uuid("id")?;
            if let Some(left_out) = repeats.due(LogCause::Message) {
                tracing::error!(message.id = %id, %error, left_out, "{UNREADABLE}");
            }
            content_of_row(columns)
        }
        read => read,
    })?;
    Ok(Message { unreadable, ..message })
}

/// Reads messages for a list, without those whose own row is damaged.
pub fn listed_messages(rows: &[Row], repeats: &Repeats) -> Result<Vec<Message>, StoreError> {
    let mut messages = Vec::with_capacity(rows.len());
    for row in rows {
        match listed_message(row, repeats) {
            Ok(message) => messages.push(message),
            Err(error @ StoreError::Corrupt { .. }) => {
                if let Some(left_out) = repeats.due(LogCause::Message) {
                    tracing::error!(%error, left_out, "{UNREADABLE}");
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(messages)
}

const UNREADABLE: &str =
    "cannot read a stored message: `gatepost check-store` lists all damaged ones";

fn with_content(
    row: &Row,
    content: impl FnOnce(&Columns<'_>) -> Result<Content, StoreError>,
) -> Result<Message, StoreError> {
    let columns = Columns { table: "messages", row };
    let id = columns.uuid("id")?;
    let content = content(&columns)?;
    let outcome = outcome_row::read(&columns)?.unwrap_or_else(|| content.outcome());
    Ok(Message {
        id: MessageId(id),
        lineage: columns.lineage()?,
        agent: columns.account("agent_id")?,
        agent_username: columns.text("agent_username")?,
        contact: columns.contact("contact_id")?,
        at: columns.time("at")?,
        thread: ThreadId(columns.uuid("thread_id")?),
        session: columns.optional_uuid("session_id")?.map(SessionId),
        inbox: columns.word("inbox")?,
        size: columns.count("size")?,
        raw: columns.digest("digest")?,
        unreadable: false,
        content,
        outcome,
    })
}

/// Builds contents from the columns of the row only: sender, and subject of a mail.
fn content_of_row(columns: &Columns<'_>) -> Result<Content, StoreError> {
    let source = columns.word::<Source>("source").unwrap_or(Source::Chat);
    let handle = columns.text("sender")?;
    let handle = handle.parse().unwrap_or(Handle::Elsewhere { source, address: handle });
    let from = match handle {
        Handle::Mailbox(address) => Sender { address, name: None },
        handle => return Ok(Content::Received(Box::new(Received::of(handle)))),
    };
    let subject = columns.optional_text("subject").unwrap_or_default();
    Ok(Content::Mail(Box::new(Mailed {
        mail: Mail { subject, ..Mail::of(from) },
        tag: columns.optional_text("tag").unwrap_or_default(),
        authentication: None,
        passage: Passage::default(),
    })))
}

fn content(columns: &Columns<'_>) -> Result<Content, StoreError> {
    if columns.word::<Source>("source")? != Source::Email {
        let received = Received::from(packed::read::<ReceivedRow>(columns)?);
        return Ok(Content::Received(Box::new(received)));
    }
    let read = packed::read::<MailRow<'_>>(columns)?;
    let (mail, authentication) = read.into_mail().map_err(|error| columns.corrupt(error))?;
    Ok(Content::Mail(Box::new(Mailed {
        mail,
        tag: columns.optional_text("tag")?,
        authentication,
        passage: passage_row::read(columns.optional_text("passage")?.as_deref()),
    })))
}
