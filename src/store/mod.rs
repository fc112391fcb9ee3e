//! Everything SQL. One method, one transaction; one file per noun.
//!
//! `app` calls in here and nobody else. Callers see domain types; rows, columns and the database
//! stay inside. Every list of a tenant's rows takes a `Scope`, so that whose rows they are is
//! decided in one place. No transaction is ever open while the program waits for the network.
//!
//! Raw messages above a size are objects of a blob store: written before the transaction that names
//! them, and taken away some time after no row names them any more (`blobs.rs`, `sweep.rs`).
//!
//! SQLite in one folder, or PostgreSQL shared by any number of gateways: the same methods, and where
//! it can be the same SQL (`sql.rs`). What differs is who else writes at the same moment: nobody in
//! SQLite; on PostgreSQL anybody, so that whatever a transaction decides by is locked by it first.

mod account_changes;
mod account_deletion;
mod account_lists;
mod accounts;
mod addresses;
mod agent_versions;
mod agents;
mod announcements;
mod app_records;
mod arrivals;
mod audit;
mod backup;
mod batch;
mod beside;
mod blob_bucket;
mod blob_folder;
mod blob_place;
mod blobs;
mod checks;
mod claimed;
mod claims;
mod commit;
mod computers;
mod contact_lists;
mod contacts;
mod contents;
mod conversations;
mod db;
mod deliveries;
mod destination_changes;
mod destination_row;
mod destinations;
mod directory;
mod disabling;
mod domains;
mod draft;
mod embedded;
mod entry;
mod erasure;
mod error;
mod event_lists;
mod event_log;
mod features;
mod files;
mod finish;
mod former_secrets;
mod gates;
mod gateways;
mod group;
mod heads;
mod health;
mod inbound_ways;
mod intake_records;
mod keys;
mod lease;
mod leavings;
mod links;
mod location;
mod log_columns;
mod logs;
mod mail_row;
mod many;
mod members;
mod messages;
mod once;
mod owner;
mod page;
mod passage_row;
mod past;
mod policies;
mod postgres;
mod received;
mod received_row;
mod refusals;
mod relay_attempts;
mod relays;
mod replay_requests;
mod replays;
mod restore;
mod retention;
mod room_lists;
mod rooms;
mod row;
mod schema;
mod sealed;
mod search;
mod search_entries;
mod search_work;
mod serving;
mod sessions;
mod shared;
mod space;
mod sql;
mod subjects;
mod survey;
mod sweep;
mod template_links;
mod template_migrations;
mod templates;
mod threads;
mod traces;
mod trust;

pub use account_changes::{AccountUpdate, Updated};
pub use account_deletion::Deletion;
pub use account_lists::{AccountFilter, AccountList, AccountPage};
pub use accounts::{Created, NewAccount, Tell};
pub use addresses::{Claimed, Standing};
pub use agent_versions::Versioned;
pub use agents::{ConfigChange, Configured};
pub use app_records::{AppRemoval, NewRecord};
pub use audit::AuditFilter;
pub use backup::{BackupError, Copied, Objects, back_up};
pub use beside::{Beside, Keys, SECRETS_KEY, Sealed, TLS};
pub use blob_place::{BlobPlace, S3Access};
pub use commit::{Accepted, Commit, Committed, Intake, NewMessage};
pub use computers::{ChangedComputer, ComputerChange};
pub use conversations::Found;
pub use db::Store;
pub use deliveries::{DeliveryFilter, DeliveryRecord, Redelivery};
pub use destination_changes::{DestinationChange, KnownDestination, Rotated, Rotation};
pub use destinations::NewDestination;
pub use directory::{Answering, By, Listing};
pub use domains::{DomainClaim, DomainLimits, HeldDomain, Proven};
pub use erasure::Erasing;
pub use error::StoreError;
pub use event_lists::{
    EventFilter, EventPage, Found as FoundEvent, Place as EventPlace, Placed as PlacedEvent,
};
pub use finish::Finished;
pub use former_secrets::Forgotten;
pub use inbound_ways::SealedWay;
pub use intake_records::IntakeFilter;
pub use keys::{InsertedKey, KeyHolder, NamedKey, Whose};
pub use location::{Location, LocationError, Place, PostgresUrl};
pub use logs::{Bucket, LogRow};
pub use members::{MemberChange, Membership, NewMember};
pub use messages::Original;
pub use once::Done;
pub use page::{Cursor, Direction, List, Page};
pub use past::PastVerdict;
pub use received::{Handed, NewReceived, Receipt};
pub use relays::{RelayNote, RelayPut, SealedRelay};
pub use replay_requests::{Replayed, Tested};
pub use restore::restore;
pub use retention::{Deleted, Due, Expired, Keeper};
pub use room_lists::{ListedRoom, RoomFilter, RoomList, RoomPage, RoomPlace};
pub use search::{Looked, Wanted};
pub use serving::Serving;
pub use sessions::{ResetSession, SessionList};
pub use shared::ContentsNow;
pub use survey::{Damage, FIRST};
pub use sweep::Swept;
pub use template_links::Applied;
pub use template_migrations::{Asked, Working};
pub use templates::{TemplateChange, TemplateChanged, TemplateDeleted};
