//! Lists of contacts, the newest first, ordered by id: no page shifts while it is read, and no
//! cursor tells when a contact wrote to another Agent.

use std::collections::BTreeMap;

use super::contacts;
use super::presence::{PRESENT_CONTACT, PRESENT_ROOM};
use crate::domain::account::AccountType;
use crate::domain::clock::Timestamp;
use crate::domain::contact::{Contact, Handle};
use crate::domain::id::{AccountId, ContactId};
use crate::domain::scope::Scope;
use crate::store::base::Base;
use crate::store::base::page::in_range;
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Row, Statement, sql};

/// Agents per statement: SQLite allows at most 500 parts in a UNION.
const AGENTS: usize = 100;

/// When each contact wrote to some Agents: for the first time, and for the last.
type ContactTimes = BTreeMap<ContactId, (Timestamp, Timestamp)>;

impl Base {
    /// Returns up to `limit` contacts with ids below `after` and not below `until`, the largest
    /// first. For a scope of single Agents: the contacts that have a room with one of them, with
    /// the times at which they wrote to these Agents; `until` does not apply.
    pub async fn list_contacts(
        &self,
        scope: &Scope,
        after: Option<ContactId>,
        until: Option<ContactId>,
        limit: u32,
    ) -> Result<Vec<Contact>, StoreError> {
        let below = after.map_or(i64::MAX, ContactId::get);
        match (scope.level(), scope.permitted()) {
            (_, Some(agents)) => self.contacts_of_agents(agents, below, limit).await,
            (AccountType::Agent, None) => {
                self.contacts_of_agents(&[scope.root()], below, limit).await
            }
            (_, None) => {
                let mut query = Statement::of(contacts::select("contacts WHERE ").into());
                in_range(&mut query, scope);
                query.push(PRESENT_CONTACT).push(" AND id < ").push_value(below);
                if let Some(until) = until {
                    query.push(" AND id >= ").push_value(until.get());
                }
                query.push(" ORDER BY id DESC LIMIT ").push_value(i64::from(limit));
                query.fetch_all(self.reader()).await?.iter().map(contacts::contact).collect()
            }
        }
    }

    /// Returns the last of the next `most` contacts, so that a list passes over no more. None if
    /// there are fewer, if no erasure is under way, or if the scope is of single Agents.
    pub async fn end_of_contacts(
        &self,
        scope: &Scope,
        after: Option<ContactId>,
        most: u32,
    ) -> Result<Option<ContactId>, StoreError> {
        let of_agents = scope.permitted().is_some() || scope.level() == AccountType::Agent;
        if of_agents || self.erasures(0, 1).await?.is_empty() {
            return Ok(None);
        }
        let mut query = sql("SELECT id FROM contacts WHERE ");
        in_range(&mut query, scope);
        query.push(" AND id < ").push_value(after.map_or(i64::MAX, ContactId::get));
        query.push(" ORDER BY id DESC LIMIT 1 OFFSET ");
        query.push_value(i64::from(most.saturating_sub(1)));
        let row = query.fetch_optional(self.reader()).await?;
        row.map(|row| Columns { table: "contacts", row: &row }.contact("id")).transpose()
    }

    /// Returns up to `limit` contacts with this handle and with ids below `after`, the largest first:
    /// one of each organization at most. For a scope of single Agents as in [`Self::list_contacts`].
    pub async fn contacts_with(
        &self,
        scope: &Scope,
        handle: &Handle,
        after: Option<ContactId>,
        limit: u32,
    ) -> Result<Vec<Contact>, StoreError> {
        let below = after.map_or(i64::MAX, ContactId::get);
        let agents = match (scope.level(), scope.permitted()) {
            (_, Some(agents)) => agents.to_vec(),
            (AccountType::Agent, None) => vec![scope.root()],
            (_, None) => {
                let mut query = Statement::of(
                    contacts::select(
                        "contacts WHERE organization_id IN (SELECT id FROM accounts
                             WHERE deleted_at IS NULL AND kind = 'organization' AND ",
                    )
                    .into(),
                );
                in_range(&mut query, scope);
                query.push(") AND address = ").push_value(handle.to_string());
                query.push(PRESENT_CONTACT).push(" AND id < ").push_value(below);
                // `+ 0` keeps the planner from walking all contacts in the order of their ids.
                query.push(" ORDER BY id + 0 DESC LIMIT ").push_value(i64::from(limit));
                let rows = query.fetch_all(self.reader()).await?;
                return rows.iter().map(contacts::contact).collect();
            }
        };
        let mut seen = ContactTimes::new();
        for some in agents.chunks(AGENTS) {
            let query = select_rooms_with(some, handle, below);
            note_times(&mut seen, &query.fetch_all(self.reader()).await?)?;
        }
        self.contacts_seen(seen, limit).await
    }

    /// Reads up to `limit` rooms of each Agent. These include all rooms of the first `limit`
    /// contacts.
    async fn contacts_of_agents(
        &self,
        agents: &[AccountId],
        below: i64,
        limit: u32,
    ) -> Result<Vec<Contact>, StoreError> {
        let mut seen = ContactTimes::new();
        for some in agents.chunks(AGENTS) {
            let rows = select_rooms(some, below, limit).fetch_all(self.reader()).await?;
            note_times(&mut seen, &rows)?;
        }
        self.contacts_seen(seen, limit).await
    }

    /// Returns the first `limit` of these contacts, the largest id first, with these times.
    async fn contacts_seen(
        &self,
        seen: ContactTimes,
        limit: u32,
    ) -> Result<Vec<Contact>, StoreError> {
        let wanted = seen.into_iter().rev().take(usize::try_from(limit).unwrap_or(usize::MAX));
        let wanted: BTreeMap<ContactId, _> = wanted.collect();
        let mut found = Vec::with_capacity(wanted.len());
        for row in contacts::by_ids(self.reader(), wanted.keys().copied()).await? {
            let contact = contacts::contact(&row)?;
            let Some((first_seen, last_seen)) = wanted.get(&contact.id).copied() else { continue };
            found.push(Contact { first_seen, last_seen, ..contact });
        }
        found.sort_unstable_by_key(|contact| std::cmp::Reverse(contact.id));
        Ok(found)
    }
}

/// Adds the times of these rooms.
fn note_times(seen: &mut ContactTimes, rooms: &[Row]) -> Result<(), StoreError> {
    for row in rooms {
        let columns = Columns { table: "rooms", row };
        let (first, last) = (columns.time("started_at")?, columns.time("last_at")?);
        let times = seen.entry(columns.contact("contact_id")?).or_insert((first, last));
        *times = (first.min(times.0), last.max(times.1));
    }
    Ok(())
}

/// Selects the room that each of these Agents has with the contact of this handle.
fn select_rooms_with(agents: &[AccountId], handle: &Handle, below: i64) -> Statement {
    let mut query = sql("SELECT rooms.contact_id, rooms.started_at, rooms.last_at
         FROM accounts CROSS JOIN contacts CROSS JOIN rooms
         WHERE contacts.organization_id = accounts.organization_id
           AND rooms.organization_id = contacts.organization_id
           AND rooms.contact_id = contacts.id AND rooms.agent_id = accounts.id AND address = ");
    query.push_value(handle.to_string()).push(PRESENT_ROOM);
    query.push(" AND contacts.id < ").push_value(below).push(" AND accounts.id IN (");
    for (number, agent) in agents.iter().enumerate() {
        query.push(if number == 0 { "" } else { ", " }).push_value(*agent);
    }
    query.push(")").varying();
    query
}

/// Selects the first rooms of each of these Agents.
fn select_rooms(agents: &[AccountId], below: i64, limit: u32) -> Statement {
    let mut query = sql("");
    for (number, agent) in agents.iter().enumerate() {
        query.push(if number == 0 { "" } else { " UNION ALL " });
        query.push(
            "SELECT contact_id, started_at, last_at FROM (
                 SELECT contact_id, started_at, last_at FROM rooms WHERE agent_id = ",
        );
        query.push_value(*agent).push(PRESENT_ROOM).push(" AND contact_id < ").push_value(below);
        query.push(" ORDER BY contact_id DESC LIMIT ").push_value(i64::from(limit));
        query.push(") AS given").varying();
    }
    query
}
