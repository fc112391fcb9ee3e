//! What Agents got: messages, contacts, rooms, sessions, threads, records of intake, and the search.

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
