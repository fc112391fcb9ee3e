//! Reading messages, rooms, contacts, intake records and the log; searching; deleting and erasing.
//!
//! Every read takes the Scope that `access` decided: a row outside of it does not exist for the
//! caller. Every list reads a bounded number of rows, counting those that it must not show (of
//! other Agents, or being erased). The tasks of `retention`, `erasure`, `indexing` and `sweeper`
//! run on every gateway, in short transactions; stopping one loses nothing, and the next run
//! continues.

pub mod contact_record;
pub mod conversations;
pub mod erasure;
mod indexing;
pub mod intake;
pub mod links;
pub mod logs;
pub mod outcomes;
pub mod record;
pub mod retention;
pub mod search;
pub mod series;
mod sweeper;

use crate::domain::clock::TimeRange;
use crate::domain::id::{IntakeId, MessageId};
use crate::domain::intake_record::IntakeRecord;
use crate::domain::message::Message;
use crate::domain::scope::Scope;
use crate::rules::SearchLimits;
use crate::store::{Cursor, Direction, IntakeFilter, List, Original, Page, Store, StoreError};

pub use indexing::keep_index;
pub use sweeper::sweep;

#[derive(Clone, Debug)]
pub struct Mailbox {
    store: Store,
}

impl Mailbox {
    pub const fn new(store: Store) -> Self {
        Self { store }
    }

    /// Lists messages that arrived in this time, newest first.
    pub async fn recent(
        &self,
        scope: &Scope,
        time: TimeRange,
        page: &Page,
    ) -> Result<Vec<Message>, StoreError> {
        self.store.recent_messages(scope, time, page).await
    }

    /// Returns where a page of [`Self::recent`] must end so that the request reads at most `most`
    /// messages. None if it needs no bound: it passes over none, or fewer are left.
    pub async fn end_of_recent(
        &self,
        scope: &Scope,
        time: TimeRange,
        page: &Page,
        most: u32,
    ) -> Result<Option<Cursor>, StoreError> {
        if scope.permitted().is_none() && !self.is_erasing().await? {
            return Ok(None);
        }
        self.store.end_of_walk(List::Messages, scope, page, time, most).await
    }

    /// Whether rows are being erased, which lists pass over.
    async fn is_erasing(&self) -> Result<bool, StoreError> {
        Ok(!self.store.erasures(0, 1).await?.is_empty())
    }

    /// Begins a search at the newest message, or at a cursor.
    pub fn search<'s>(
        &'s self,
        scope: &'s Scope,
        request: &'s search::SearchRequest,
        from: Option<(Direction, Cursor)>,
        limits: SearchLimits,
    ) -> search::Search<'s> {
        search::Search::new(&self.store, scope, request, from, limits)
    }

    pub async fn message(
        &self,
        scope: &Scope,
        id: MessageId,
    ) -> Result<Option<Message>, StoreError> {
        Ok(self.store.messages(scope, &[id]).await?.pop())
    }

    /// Returns the raw bytes of a message, as received.
    pub async fn raw(&self, scope: &Scope, id: MessageId) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.raw_message(scope, id).await
    }

    /// Returns facts about the raw bytes of a message, without reading them.
    pub async fn original(
        &self,
        scope: &Scope,
        id: MessageId,
    ) -> Result<Option<Original>, StoreError> {
        self.store.original(scope, id).await
    }

    /// Lists matching intake records, newest first.
    pub async fn intake_records(
        &self,
        scope: &Scope,
        filter: &IntakeFilter,
        page: &Page,
    ) -> Result<Vec<IntakeRecord>, StoreError> {
        self.store.intake_records(scope, filter, page).await
    }

    /// Returns where a page of [`Self::intake_records`] must end so that the request reads at most
    /// `most` records. None if it needs no bound: it passes over none, or fewer are left.
    pub async fn end_of_intake_records(
        &self,
        scope: &Scope,
        filter: &IntakeFilter,
        page: &Page,
        most: u32,
    ) -> Result<Option<Cursor>, StoreError> {
        let passes_over = scope.permitted().is_some() || filter.passes_over();
        if !passes_over && !self.is_erasing().await? {
            return Ok(None);
        }
        let time = TimeRange { since: filter.since, before: filter.until };
        self.store.end_of_walk(List::IntakeRecords, scope, page, time, most).await
    }

    pub async fn intake_record(
        &self,
        scope: &Scope,
        id: IntakeId,
    ) -> Result<Option<IntakeRecord>, StoreError> {
        self.store.intake_record(scope, id).await
    }
}
