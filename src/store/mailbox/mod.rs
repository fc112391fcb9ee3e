//! Messages of the Agents: contacts, rooms, sessions, threads, intake records, and the search.
//!
//! A commit (`store/commit`) writes all of them in one transaction. On PostgreSQL it locks gates,
//! contents and keys (`commit/mod.rs`), then the contacts of its messages in the order of
//! organization and address, then their rooms in the order of contact and Agent. Deleting the
//! latest message of a room, and resetting a session, also lock the contact before the room; a
//! deletion locks contents before both. Marking rooms as read locks rooms alone. While a contact is
//! locked, no other gateway begins a room, a thread or a session with this contact, or adds a
//! message to one.
//!
//! Rows under erasure stay until they are deleted, but no reader sees them (`presence.rs`). The
//! index of the search is written after the commit (`search_entries.rs`).

pub mod contact_lists;
pub mod contacts;
pub mod contents;
pub mod conversations;
pub mod deleted_words;
pub mod entry;
pub mod intake_records;
pub mod links;
pub mod log_columns;
pub mod logs;
pub mod mail_row;
pub mod messages;
pub mod new_messages;
pub mod outcome_row;
pub mod outcomes;
pub mod packed;
pub mod passage_row;
pub mod presence;
pub mod received_row;
pub mod room_lists;
pub mod room_ranges;
pub mod rooms;
pub mod search;
pub mod search_entries;
pub mod sessions;
pub mod threads;
pub mod verdict_history;
