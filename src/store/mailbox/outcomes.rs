//! Outcomes of messages: what was recorded, and the replies as entries of rooms. A message without
//! one has no row. Rows go with their message, by their foreign keys.
//!
//! An outcome is written with its event and the deliveries of that in one transaction. On
//! PostgreSQL it passes the gates of the accounts, then locks the contact: no message of the room
//! is deleted meanwhile, and no other outcome is recorded.

use super::messages;
use super::outcome_row::columns;
use super::rooms::contains;
use crate::domain::agent_outcome::{AgentOutcome, NewOutcome, OutcomeConflict, Reply};
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::event::{Event, EventName};
use crate::domain::id::{MessageId, ReplyId, ThreadId};
use crate::domain::message::{Content, Message};
use crate::domain::room::Room;
use crate::domain::scope::Scope;
use crate::store::base::Base;
use crate::store::base::page::{Cursor, Page};
use crate::store::engine::database::{Transaction, retry_conflicts};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::row::{Columns, organization_of};
use crate::store::engine::sql::{Connection, sql};
use crate::store::events::announcements;
use crate::store::tenancy::audit::{self, Note};

/// How the recording of an outcome ended.
#[derive(Clone, Debug, PartialEq)]
pub enum OutcomeRecorded {
    /// Durable: the message with its outcome, and the reply of this one.
    Done(Box<Message>, Option<ReplyId>),
    /// Nothing was written.
    Refused(OutcomeConflict),
    NoMessage,
}

impl Base {
    /// Records an outcome of a message in `scope`, which keeps `most` replies, and announces it.
    pub async fn record_outcome(
        &self,
        scope: &Scope,
        id: MessageId,
        new: &NewOutcome,
        most: usize,
        act: Act<'_>,
    ) -> Result<OutcomeRecorded, StoreError> {
        retry_conflicts!(self.try_record_outcome(scope, id, new, most, act))
    }

    async fn try_record_outcome(
        &self,
        scope: &Scope,
        id: MessageId,
        new: &NewOutcome,
        most: usize,
        act: Act<'_>,
    ) -> Result<OutcomeRecorded, StoreError> {
        // Checks the scope before locking: a caller without access must not delay mail.
        let Some(message) = find(self.reader(), scope, id).await? else {
            return Ok(OutcomeRecorded::NoMessage);
        };
        let mut tx = self.begin().await?;
        gates::pass_accounts(&mut tx, message.lineage.ids().collect()).await?;
        sql("SELECT id FROM contacts WHERE id = $1")
            .bind(message.contact.get())
            .locking("FOR NO KEY UPDATE OF contacts")
            .fetch_optional(tx.on())
            .await?;
        let Some(message) = find(tx.on(), scope, id).await? else {
            return Ok(OutcomeRecorded::NoMessage);
        };
        let earlier = message.outcome.clone();
        let reply = ReplyId(self.mint().uuid());
        let outcome = match earlier.clone().replaced(new.clone(), reply, act.at, most) {
            Ok(outcome) => outcome,
            Err(conflict) => return Ok(OutcomeRecorded::Refused(conflict)),
        };
        let reply = new.reply.is_some().then_some(reply);
        let message = Message { outcome, ..message };
        write(&mut tx, &message, reply, act.at).await?;
        let event = Event {
            id: self.mint().event(),
            name: EventName::ConversationUpdated,
            at: act.at,
            lineage: message.lineage,
            message: Some(id),
            contact: Some(message.contact),
            told: None,
        };
        announcements::announce(&mut tx, &[event], self.mint()).await?;
        let changes = changed(&earlier, &message.outcome);
        let (deed, object) = (Deed::OutcomeRecorded, id.to_string());
        let note = Note { account: message.agent, deed, object, changes: &changes };
        audit::note(&mut tx, self.mint(), act, note).await?;
        tx.commit().await?;
        Ok(OutcomeRecorded::Done(Box::new(message), reply))
    }

    /// Returns a page of the replies in a room in `scope`, or in one of its threads, newest first: the
    /// place of each, and the message that it answers.
    pub async fn room_replies(
        &self,
        scope: &Scope,
        room: Room,
        thread: Option<ThreadId>,
        page: &Page,
    ) -> Result<Vec<(Cursor, MessageId)>, StoreError> {
        let mut query = sql("SELECT id, at, message_id FROM replies WHERE ");
        match thread {
            Some(thread) => {
                query.push("thread_id = ").push_value(thread.0);
            }
            None => {
                query.push("contact_id = ").push_value(room.contact.get());
                query.push(" AND agent_id = ").push_value(room.agent);
            }
        }
        page.read(&mut query);
        let mut named = Vec::new();
        for row in &query.fetch_all(self.reader()).await? {
            let columns = Columns { table: "replies", row };
            let place = Cursor { at: columns.time("at")?, id: columns.uuid("id")? };
            named.push((place, MessageId(columns.uuid("message_id")?)));
        }
        if named.is_empty() || self.room_place(scope, room).await?.is_none() {
            return Ok(Vec::new());
        }
        Ok(page.newest_first(named))
    }

    /// Returns a reply to a message in `scope`, with the message.
    pub async fn reply(
        &self,
        scope: &Scope,
        id: ReplyId,
    ) -> Result<Option<(Message, Reply)>, StoreError> {
        let query = sql("SELECT message_id FROM replies WHERE id = $1").bind(id.0);
        let Some(row) = query.fetch_optional(self.reader()).await? else { return Ok(None) };
        let message = MessageId(Columns { table: "replies", row: &row }.uuid("message_id")?);
        let Some(message) = self.messages(scope, &[message]).await?.pop() else { return Ok(None) };
        let reply = message.outcome.replies.iter().find(|one| one.id == id).cloned();
        Ok(reply.map(|reply| (message, reply)))
    }
}

/// Returns a message in `scope`, unless it is under erasure.
async fn find(
    on: Connection<'_>,
    scope: &Scope,
    id: MessageId,
) -> Result<Option<Message>, StoreError> {
    let rows = messages::by_ids(on, [id].into_iter()).await?;
    let found = rows.first().map(messages::message).transpose()?;
    Ok(found.filter(|message| contains(scope, &message.lineage, message.agent)))
}

/// Writes the outcome of a message, and the place of its new reply.
async fn write(
    tx: &mut Transaction,
    message: &Message,
    reply: Option<ReplyId>,
    at: Timestamp,
) -> Result<(), StoreError> {
    let received = match &message.content {
        Content::Received(received) => Some(received.as_ref()),
        Content::Mail(_) => None,
    };
    let organization = organization_of(&message.lineage);
    let mut query = sql("INSERT INTO outcomes (message_id, organization_id, facts, agent_outcome,
                             lead_rating, reply_count, duration, missed_call)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
         ON CONFLICT (message_id, organization_id) DO UPDATE SET facts = excluded.facts,
             agent_outcome = excluded.agent_outcome, lead_rating = excluded.lead_rating,
             reply_count = excluded.reply_count")
    .bind(message.id.0)
    .bind(organization);
    for column in columns(&message.outcome, received)? {
        query = query.bind(column);
    }
    query.execute(tx.on()).await?;
    let Some(reply) = reply else { return Ok(()) };
    sql("INSERT INTO replies (id, organization_id, message_id, contact_id, agent_id, thread_id, at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)")
    .bind(reply.0)
    .bind(organization)
    .bind(message.id.0)
    .bind(message.contact.get())
    .bind(message.agent)
    .bind(message.thread.0)
    .bind(at)
    .execute(tx.on())
    .await
    .map(drop)
}

/// Returns the changed fields by name, without their texts: these are about people.
fn changed(before: &AgentOutcome, after: &AgentOutcome) -> Vec<Change> {
    let named = [
        ("agentOutcome", before.result == after.result),
        ("summary", before.summary == after.summary),
        ("aiLeadRating", before.lead_rating == after.lead_rating),
        ("aiLeadRatingReason", before.lead_rating_reason == after.lead_rating_reason),
        ("aiAgentOverride", before.overridden == after.overridden),
        ("agentReplyCount", before.replies.len() == after.replies.len()),
    ];
    let changed = named.into_iter().filter(|(_, is_same)| !is_same);
    changed.map(|(name, _)| Change::new(name, None::<String>, None::<String>)).collect()
}
