//! Full-text search: walks through an account's messages from the newest to the oldest, or from a
//! cursor on, asks the index for candidates, and reads each to see whether it matches.
//!
//! A message without an index entry is always a candidate. If many have none, because indexing fell
//! behind, a page reads only the first window.
//!
//! Work per request is bounded for every query. The walk goes through windows with a known number
//! of the account's messages, small ones first: a common word fills a page from there. Candidates,
//! their bytes and the time are bounded as well. A walk that ends early says where.

use std::collections::{BTreeSet, VecDeque};

use tokio::time::Instant;
use uuid::Uuid;

use crate::domain::clock::{TimeRange, Timestamp};
use crate::domain::id::MessageId;
use crate::domain::message::Message;
use crate::domain::scope::Scope;
use crate::domain::search::query::Query;
use crate::domain::search::tokens;
use crate::domain::search::words::Document;
use crate::domain::source::Source;
use crate::rules::SearchLimits;
use crate::store::{Cursor, Direction, List, Page, Store, StoreError, Unindexed, WantedWords};

/// Each window holds this fraction (1/n) of the rows that a request may walk; one more has the
/// rest.
const WINDOWS: &[u32] = &[FIRST_PART, 16, 2];
const FIRST_PART: u32 = 128;
/// Up to so many messages without an entry are looked at for each window.
const FEW: u32 = 4000;
/// Bytes of candidates in memory at a time, unless one alone is larger.
const STEP_OCTETS: u64 = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchRequest {
    pub query: Query,
    pub source: Option<Source>,
    pub since: Option<Timestamp>,
    /// Exclusive.
    pub until: Option<Timestamp>,
}

#[derive(Debug)]
pub struct Search<'s> {
    store: &'s Store,
    scope: &'s Scope,
    asked: &'s SearchRequest,
    tokens: BTreeSet<String>,
    /// The place up to which messages were looked at.
    from: Option<(Direction, Cursor)>,
    direction: Direction,
    limits: SearchLimits,
    /// Messages that the walk may still cover, and candidates that it may still read.
    rows: u32,
    candidates: u32,
    /// Bytes of candidates that the walk may still read.
    octets: u64,
    /// Ends the page with the matches found by then.
    deadline: Instant,
    has_read: bool,
    windows: std::slice::Iter<'static, u32>,
    window: Option<Window>,
    /// Known once the first window is open.
    unindexed: Option<Unindexed>,
    waiting: VecDeque<Cursor>,
    ended: bool,
    until: Option<Cursor>,
}

/// A part of the account's messages with a known size.
#[derive(Debug)]
struct Window {
    spans: Vec<String>,
    /// The last place of the window; `None` if it reaches the end of the list.
    end: Option<Cursor>,
}

impl<'s> Search<'s> {
    pub(super) fn new(
        store: &'s Store,
        scope: &'s Scope,
        asked: &'s SearchRequest,
        from: Option<(Direction, Cursor)>,
        limits: SearchLimits,
    ) -> Self {
        Self {
            store,
            scope,
            asked,
            tokens: asked.query.tokens(),
            from,
            direction: from.map_or(Direction::Before, |(direction, _)| direction),
            limits,
            rows: limits.max_rows,
            candidates: limits.max_candidates,
            octets: limits.max_octets,
            deadline: Instant::now() + limits.time(),
            has_read: false,
            windows: WINDOWS.iter(),
            window: None,
            unindexed: None,
            waiting: VecDeque::new(),
            ended: false,
            until: None,
        }
    }

    /// Returns up to `most` of the next matches, in the order of the walk; fewer once it has ended.
    pub async fn some(&mut self, most: usize) -> Result<Vec<Message>, StoreError> {
        let mut found = Vec::new();
        while found.len() < most && !self.ended {
            if self.waiting.is_empty() {
                self.fetch_candidates().await?;
                continue;
            }
            if self.octets == 0 || self.has_read && self.is_late() {
                self.end_here();
                continue;
            }
            let many = most.saturating_sub(found.len());
            let ids: Vec<MessageId> =
                self.waiting.iter().take(many).map(|place| MessageId(place.id)).collect();
            let query = self.asked.query.clone();
            let matches = move |message: &Message| query.matches(&Document::of(&message.content));
            let octets = self.octets.min(STEP_OCTETS);
            let looked = self.store.messages_matching(self.scope, &ids, octets, matches).await?;
            self.octets = self.octets.saturating_sub(looked.octets);
            self.has_read = true;
            if let Some(last) = self.waiting.drain(..looked.ids.min(ids.len())).next_back() {
                self.from = Some((self.direction, last));
            }
            found.extend(looked.found);
        }
        Ok(found)
    }

    /// Returns the place where the walk ended, if that was before the end of the list.
    pub const fn until(&self) -> Option<Cursor> {
        self.until
    }

    /// Fetches the next candidates, or opens the next window, or ends.
    async fn fetch_candidates(&mut self) -> Result<(), StoreError> {
        let Some(window) = &self.window else { return self.open().await };
        if self.candidates == 0 {
            self.end_here();
            return Ok(());
        }
        let wanted = WantedWords {
            all: &self.tokens,
            spans: &window.spans,
            source: self.asked.source,
            unindexed: self.unindexed.unwrap_or(Unindexed::Many),
        };
        let limit = self.candidates.min(self.limits.max_candidates);
        let page = Page { limit, from: self.from, until: window.end };
        let between = TimeRange { since: self.asked.since, before: self.asked.until };
        let found = self.store.search(self.scope, wanted, &page, between).await?;
        let many = u32::try_from(found.len()).unwrap_or(u32::MAX);
        self.candidates = self.candidates.saturating_sub(many);
        if many < limit {
            self.close();
        }
        self.waiting = found.into();
        Ok(())
    }

    /// Closes a window whose candidates are all known; the rest of it has none.
    fn close(&mut self) {
        match self.window.take().and_then(|window| window.end) {
            None => self.ended_with_the_list(),
            Some(end) => self.until = Some(end),
        }
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Ends behind the last message read.
    fn end_here(&mut self) {
        (self.ended, self.until) = (true, self.from.map(|(_, place)| place));
    }

    fn ended_with_the_list(&mut self) {
        self.rows = 0;
        self.until = None;
    }

    async fn open(&mut self) -> Result<(), StoreError> {
        // Continue behind the previous window, not behind its last candidate.
        if let Some(end) = self.until {
            self.from = Some((self.direction, end));
        }
        if self.rows == 0 || self.until.is_some() && self.is_late() {
            self.ended = true;
            return Ok(());
        }
        if self.unindexed.is_none() {
            let few = self.store.count_unindexed(FEW + 1).await? <= FEW;
            self.unindexed = Some(if few { Unindexed::Few } else { Unindexed::Many });
            if !few {
                self.rows = (self.limits.max_rows / FIRST_PART).max(1);
            }
        }
        let part = self.windows.next().copied().unwrap_or(1);
        let most = (self.limits.max_rows / part).clamp(1, self.rows);
        self.rows = self.rows.saturating_sub(most);
        let Some(first) = self.place(self.from, 1).await? else {
            self.ended_with_the_list();
            return Ok(());
        };
        let end = self.place(self.from, most).await?;
        let last = match end {
            Some(end) => end,
            // No end within reach: take the other end of the list.
            None => self.place(self.other_end(), 1).await?.unwrap_or(first),
        };
        let (low, high) = (first.at.min(last.at), first.at.max(last.at));
        let (level, root) = (self.scope.level(), self.scope.root());
        let spans = tokens::of_spans(level, root.get(), low, high);
        self.window = Some(Window { spans, end });
        Ok(())
    }

    /// Returns the place of the last of the next `most` rows, or None if there are fewer.
    async fn place(
        &self,
        from: Option<(Direction, Cursor)>,
        most: u32,
    ) -> Result<Option<Cursor>, StoreError> {
        let page = Page { limit: 1, from, until: None };
        let between = TimeRange { since: self.asked.since, before: self.asked.until };
        self.store.end_of_walk(List::Messages, self.scope, &page, between, most).await
    }

    /// Returns the start of a walk the other way.
    fn other_end(&self) -> Option<(Direction, Cursor)> {
        let first = Cursor { at: Timestamp::from_millis(i64::MIN), id: Uuid::nil() };
        match self.direction {
            Direction::Before => Some((Direction::After, first)),
            Direction::After => None,
        }
    }
}
