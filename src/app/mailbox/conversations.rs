//! Conversations for readers: rooms of an inbox, and the threads of many rooms at once.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use uuid::Uuid;

use super::Mailbox;
use crate::domain::agent_outcome::Reply;
use crate::domain::contact::{Contact, Handle};
use crate::domain::id::{ContactId, MessageId, ReplyId, ThreadId};
use crate::domain::message::Message;
use crate::domain::room::Room;
use crate::domain::scope::Scope;
use crate::domain::source::Source;
use crate::store::{
    Cursor, Direction, MessagePlace, Page, RoomFilter, RoomList, RoomPage, RoomPlace, StoreError,
};

/// The messages, and bytes of their originals and outcomes, read into memory at a time while threads are put
/// together. One message always fits.
const PIECE: usize = 256;
const PIECE_OCTETS: u64 = 4 << 20;
/// In bytes. No text read from an original is longer (`intake.toml` has the exact bound), so large
/// attachments count no more than this.
const LONGEST_TEXT: u64 = 1 << 20;
/// Pieces per request: bounds the number of its statements.
const PIECES: usize = 64;
/// Bytes that a turn counts beside its text.
const TURN_OCTETS: usize = 256;

/// One message of a conversation, or a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    pub place: Cursor,
    /// Whether it is a reply of the Agent.
    pub is_reply: bool,
    pub source: Source,
    pub text: String,
}

impl Turn {
    /// The message, then its replies.
    fn all_of(message: &Message) -> impl Iterator<Item = Self> {
        let entry = |reply: Option<&Reply>| Self::of(message, reply);
        [entry(None)]
            .into_iter()
            .chain(message.outcome.replies.iter().map(move |one| entry(Some(one))))
    }

    fn of(message: &Message, reply: Option<&Reply>) -> Self {
        Self {
            place: place(message, reply),
            is_reply: reply.is_some(),
            source: message.source(),
            text: reply.map_or(message.text(), |reply| &reply.text).to_owned(),
        }
    }
}

/// An entry of a room: a message, or a reply to it.
#[derive(Clone, Debug, PartialEq)]
pub struct RoomEntry {
    pub message: Arc<Message>,
    pub reply: Option<Reply>,
}

impl RoomEntry {
    /// The place in the list.
    pub fn place(&self) -> Cursor {
        place(&self.message, self.reply.as_ref())
    }

    pub fn turn(&self) -> Turn {
        Turn::of(&self.message, self.reply.as_ref())
    }
}

/// An entry of a room that is being read.
enum Place {
    Message(Box<Message>),
    ReplyTo(MessageId),
}

fn reply_of(message: &Message, id: ReplyId) -> Option<&Reply> {
    message.outcome.replies.iter().find(|one| one.id == id)
}

fn place(message: &Message, reply: Option<&Reply>) -> Cursor {
    let of_message = Cursor { at: message.at, id: message.id.0 };
    reply.map_or(of_message, |reply| Cursor { at: reply.at, id: reply.id.0 })
}

/// One of the conversations that were requested together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conversation {
    /// The whole thread, oldest first, and the place of the requested message.
    Whole(MessagePlace, Vec<Turn>),
    /// The room does not exist, or has no such message.
    Missing,
    /// Too large beside the others: to be requested alone, page by page. The place of the requested
    /// message.
    TooLong(MessagePlace),
}

#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Per conversation.
    pub messages: u32,
    /// Bytes of all conversations together.
    pub octets: usize,
}

impl Mailbox {
    /// Lists the rooms of an inbox; see `Store::list_rooms`.
    pub async fn rooms(
        &self,
        scope: &Scope,
        filter: RoomFilter,
        page: RoomPage,
        most: u32,
    ) -> Result<RoomList, StoreError> {
        self.store.list_rooms(scope, filter, page, most).await
    }

    /// Returns the place of a room in lists, or None if there is no such room.
    pub async fn room_place(
        &self,
        scope: &Scope,
        room: Room,
    ) -> Result<Option<RoomPlace>, StoreError> {
        self.store.room_place(scope, room).await
    }

    /// Lists the messages of a room, or of one thread of it, with the replies, newest first.
    pub async fn room_entries(
        &self,
        scope: &Scope,
        room: Room,
        thread: Option<ThreadId>,
        page: &Page,
    ) -> Result<Vec<RoomEntry>, StoreError> {
        let messages = self.store.room_messages(scope, room, thread, page).await?;
        let replies = self.store.room_replies(scope, room, thread, page).await?;
        let of_message = |one: Message| (place(&one, None), Place::Message(Box::new(one)));
        let of_reply = |(at, message): (Cursor, MessageId)| (at, Place::ReplyTo(message));
        let mut places: Vec<(Cursor, Place)> =
            messages.into_iter().map(of_message).chain(replies.into_iter().map(of_reply)).collect();
        places.sort_by_key(|(at, _)| Reverse(*at));
        let most = usize::try_from(page.limit).unwrap_or(usize::MAX);
        if matches!(page.from, Some((Direction::After, _))) {
            places.drain(..places.len().saturating_sub(most));
        } else {
            places.truncate(most);
        }
        self.filled(scope, room, places).await
    }

    /// Reads the messages that the replies of a page answer, each once.
    async fn filled(
        &self,
        scope: &Scope,
        room: Room,
        places: Vec<(Cursor, Place)>,
    ) -> Result<Vec<RoomEntry>, StoreError> {
        let mut known: HashMap<MessageId, Arc<Message>> = HashMap::new();
        let mut named = Vec::with_capacity(places.len());
        for (at, place) in places {
            let (message, is_reply) = match place {
                Place::ReplyTo(message) => (message, true),
                Place::Message(message) => {
                    let id = message.id;
                    known.insert(id, Arc::from(message));
                    (id, false)
                }
            };
            named.push((message, is_reply.then_some(ReplyId(at.id))));
        }
        // A message may have been read before its reply was recorded.
        let missing: BTreeSet<MessageId> = named
            .iter()
            .filter(|(id, reply)| {
                let known = known.get(id);
                reply.is_some_and(|reply| known.is_none_or(|one| reply_of(one, reply).is_none()))
            })
            .map(|(id, _)| *id)
            .collect();
        let missing: Vec<MessageId> = missing.into_iter().collect();
        for message in self.store.messages(scope, &missing).await? {
            known.insert(message.id, Arc::new(message));
        }
        let entry = |(id, reply): (MessageId, Option<ReplyId>)| {
            let message = Arc::clone(known.get(&id).filter(|one| one.room() == room)?);
            match reply {
                None => Some(RoomEntry { message, reply: None }),
                Some(reply) => {
                    let reply = reply_of(&message, reply)?.clone();
                    Some(RoomEntry { message, reply: Some(reply) })
                }
            }
        };
        Ok(named.into_iter().filter_map(entry).collect())
    }

    /// Returns a message or a reply by its id.
    pub async fn entry(&self, scope: &Scope, id: Uuid) -> Result<Option<RoomEntry>, StoreError> {
        if let Some(message) = self.message(scope, MessageId(id)).await? {
            return Ok(Some(RoomEntry { message: Arc::new(message), reply: None }));
        }
        let found = self.store.reply(scope, ReplyId(id)).await?;
        Ok(found
            .map(|(message, reply)| RoomEntry { message: Arc::new(message), reply: Some(reply) }))
    }

    /// Returns the place of a message or of a reply in lists.
    pub async fn entry_place(&self, scope: &Scope, id: Uuid) -> Result<Option<Cursor>, StoreError> {
        if let Some(found) = self.original(scope, MessageId(id)).await? {
            return Ok(Some(Cursor { at: found.at, id }));
        }
        let found = self.store.reply(scope, ReplyId(id)).await?;
        Ok(found.map(|(message, reply)| place(&message, Some(&reply))))
    }

    /// Returns the place of a message, or None if the room does not have it.
    pub async fn find(
        &self,
        scope: &Scope,
        room: Room,
        id: MessageId,
    ) -> Result<Option<MessagePlace>, StoreError> {
        Ok(self.store.find_messages(scope, &[(room, id)]).await?.remove(&(room, id)))
    }

    /// Returns the threads of many messages, each named with its room, in the same order. Bounds
    /// hold for all together; earlier ones go first. The number of reads is bounded.
    pub async fn conversations(
        &self,
        scope: &Scope,
        named: &[(Room, MessageId)],
        bounds: Bounds,
    ) -> Result<Vec<Conversation>, StoreError> {
        let found = self.store.find_messages(scope, named).await?;
        let mut order: Vec<MessagePlace> = Vec::new();
        let mut uses: HashMap<ThreadId, usize> = HashMap::new();
        for one in named.iter().filter_map(|name| found.get(name)) {
            let count = uses.entry(one.thread).or_default();
            if *count == 0 {
                order.push(*one);
            }
            *count += 1;
        }
        let most = bounds.messages.saturating_add(1);
        let outlines = self.store.outline_threads(&order, most).await?;
        let mut gathering = Gathering::new(uses, bounds);
        let mut wanted = Vec::new();
        for thread in order.iter().map(|one| one.thread) {
            let outline = outlines.get(&thread).map_or(&[][..], Vec::as_slice);
            if gathering.begin(thread, outline.len()) {
                for one in outline {
                    let octets = one.size.min(LONGEST_TEXT).saturating_add(one.outcome);
                    wanted.push(WantedMessage { thread, message: one.id, octets });
                }
            }
        }
        self.gather(scope, &wanted, &mut gathering).await?;
        // Replies came with their messages, which may lie between those.
        gathering.whole.values_mut().for_each(|turns| turns.sort_by_key(|turn| turn.place));
        let answer = |name: &(Room, MessageId)| match found.get(name) {
            None => Conversation::Missing,
            Some(one) => match gathering.whole.get(&one.thread) {
                Some(turns) if !turns.is_empty() => Conversation::Whole(*one, turns.clone()),
                // Erased since it was found.
                Some(_) => Conversation::Missing,
                None => Conversation::TooLong(*one),
            },
        };
        Ok(named.iter().map(answer).collect())
    }

    async fn gather(
        &self,
        scope: &Scope,
        wanted: &[WantedMessage],
        gathering: &mut Gathering,
    ) -> Result<(), StoreError> {
        let mut rest = wanted;
        for _ in 0..PIECES {
            let (mut ids, mut octets, mut taken) = (Vec::new(), 0_u64, 0);
            for one in rest {
                let fits = octets.saturating_add(one.octets) <= PIECE_OCTETS && ids.len() < PIECE;
                if !fits && !ids.is_empty() {
                    break;
                }
                taken += 1;
                if gathering.whole.contains_key(&one.thread) {
                    octets = octets.saturating_add(one.octets);
                    ids.push(one.message);
                }
            }
            if ids.is_empty() {
                return Ok(());
            }
            let mut read: HashMap<MessageId, Message> = HashMap::with_capacity(ids.len());
            for message in self.store.messages(scope, &ids).await? {
                read.insert(message.id, message);
            }
            let (now, later) = rest.split_at(taken.min(rest.len()));
            for one in now {
                if let Some(message) = read.get(&one.message) {
                    Turn::all_of(message).for_each(|turn| gathering.add(one.thread, turn));
                }
            }
            rest = later;
        }
        // A thread that was not read to its end is not whole.
        rest.iter().for_each(|one| gathering.give_up(one.thread));
        Ok(())
    }

    /// Marks each room as read up to a message, in a transaction each. Returns how many changed.
    pub async fn mark_read(
        &self,
        scope: &Scope,
        marks: &[(Room, Cursor)],
    ) -> Result<u64, StoreError> {
        self.store.mark_read(scope, marks).await
    }

    /// Lists contacts, or those with this handle. Also returns the last place read, if the list
    /// reads `most` rows; see `Store::list_contacts`.
    pub async fn contacts(
        &self,
        scope: &Scope,
        handle: Option<&Handle>,
        after: Option<ContactId>,
        limit: u32,
        most: u32,
    ) -> Result<(Vec<Contact>, Option<ContactId>), StoreError> {
        if let Some(handle) = handle {
            return Ok((self.store.contacts_with(scope, handle, after, limit).await?, None));
        }
        let until = self.store.end_of_contacts(scope, after, most).await?;
        Ok((self.store.list_contacts(scope, after, until, limit).await?, until))
    }
}

/// A message to read for its thread, and the bytes that this takes.
struct WantedMessage {
    thread: ThreadId,
    message: MessageId,
    octets: u64,
}

/// Threads gathered for one response. One that is too large gives its space back.
struct Gathering {
    whole: HashMap<ThreadId, Vec<Turn>>,
    /// How often the response shows each thread.
    uses: HashMap<ThreadId, usize>,
    octets: usize,
    bounds: Bounds,
}

impl Gathering {
    fn new(uses: HashMap<ThreadId, usize>, bounds: Bounds) -> Self {
        Self { whole: HashMap::new(), uses, octets: 0, bounds }
    }

    /// Begins a thread of this many messages; returns whether it may fit.
    fn begin(&mut self, thread: ThreadId, messages: usize) -> bool {
        let fits = messages <= usize::try_from(self.bounds.messages).unwrap_or(usize::MAX);
        if fits {
            self.whole.insert(thread, Vec::with_capacity(messages));
        }
        fits
    }

    fn add(&mut self, thread: ThreadId, turn: Turn) {
        let octets = self.octets_of(thread, &turn);
        let Some(turns) = self.whole.get_mut(&thread) else { return };
        self.octets = self.octets.saturating_add(octets);
        turns.push(turn);
        if self.octets > self.bounds.octets {
            self.give_up(thread);
        }
    }

    fn give_up(&mut self, thread: ThreadId) {
        let turns = self.whole.remove(&thread).unwrap_or_default();
        let octets: usize = turns.iter().map(|turn| self.octets_of(thread, turn)).sum();
        self.octets = self.octets.saturating_sub(octets);
    }

    fn octets_of(&self, thread: ThreadId, turn: &Turn) -> usize {
        let uses = self.uses.get(&thread).copied().unwrap_or(1);
        turn.text.len().saturating_add(TURN_OCTETS).saturating_mul(uses)
    }
}
