//! All SQL of the program. One method is one transaction; one file is one noun. Folders import from
//! each other one way, and files in no circle (ARCHITECTURE.md). On top is the `Store`: the methods
//! of `base::Base`, and the groups of jobs that are written together.
//!
//! Callers see domain types; rows, columns and the database stay inside. Every list of a tenant's
//! rows takes a `Scope`, so that access to rows is decided in one place. No transaction is ever
//! open while the program waits for the network.
//!
//! Raw messages above a size are objects of a blob store: written before the transaction that names
//! them, and removed some time after the last row that does (`blobs/objects.rs`,
//! `upkeep/sweep.rs`).
//!
//! SQLite in one folder, or PostgreSQL shared by any number of gateways: the same methods, and the
//! same SQL where possible (`engine/sql.rs`). On SQLite no other transaction writes at the same
//! time. On PostgreSQL any gateway may, so a transaction first locks the rows that it decides by.

mod agents;
mod base;
mod blobs;
mod commit;
mod engine;
mod events;
mod mailbox;
mod opening;
mod tenancy;
mod together;
mod upkeep;

pub use agents::agent_versions::Versioned;
pub use agents::app_records::AppRemoval;
pub use agents::computers::{ChangedComputer, ComputerChange};
pub use agents::configurations::{ConfigChange, Configured, Says};
pub use agents::template_links::Applied;
pub use agents::template_locks::Locked;
pub use agents::template_migrations::{MigrationRequest, Working};
pub use agents::templates::{TemplateChange, TemplateChanged, TemplateDeleted};
pub use base::company::Census;
pub use base::page::{Cursor, Direction, List, Page, cut};
pub use blobs::place::{BlobPlace, S3Access, StorePlace};
pub use commit::intake::{Accepted, Commit, Committed, Handed, Intake, Receipt};
pub use engine::error::StoreError;
pub use engine::location::{Location, LocationError, PostgresUrl};
pub use engine::serving::Serving;
pub use events::delivery::attempt_results::Finished;
pub use events::delivery::contents_now::ContentsNow;
pub use events::delivery::deliveries::{DeliveryFilter, DeliveryRecord, Redelivery};
pub use events::delivery::destination_changes::{
    DestinationChange, KnownDestination, Rotated, Rotation,
};
pub use events::delivery::destinations::NewDestination;
pub use events::delivery::event_lists::{
    EventFilter, EventPage, FoundEvent, Placed as PlacedEvent,
};
pub use events::delivery::former_secrets::Forgotten;
pub use events::delivery::replay_requests::{Replayed, Tested};
pub use events::event_row::EventPlace;
pub use events::told::{ChangedConfig, DisabledData, PolicyData, PublishedData, TestData, told};
pub use mailbox::conversations::MessagePlace;
pub use mailbox::intake_records::IntakeFilter;
pub use mailbox::logs::{Bucket, Bucketing, LogRow};
pub use mailbox::messages::Original;
pub use mailbox::new_messages::{NewMessage, NewReceived};
pub use mailbox::room_lists::{ListedRoom, RoomFilter, RoomList, RoomPage};
pub use mailbox::room_ranges::RoomPlace;
pub use mailbox::search::{MatchedMessages, Unindexed, WantedWords};
pub use mailbox::sessions::{ResetSession, SessionList};
pub use mailbox::verdict_history::PastVerdict;
pub use opening::{Store, restore};
pub use tenancy::account_changes::{AccountUpdate, Updated};
pub use tenancy::account_deletion::Deletion;
pub use tenancy::account_lists::{AccountFilter, AccountList, AccountPage};
pub use tenancy::accounts::{Created, NewAccount, Tell};
pub use tenancy::addresses::{Addressed, Claimed, Standing};
pub use tenancy::app_rows::NewRecord;
pub use tenancy::audit::AuditFilter;
pub use tenancy::directory::{Answering, By, Listing};
pub use tenancy::domains::{DomainClaim, DomainLimits, HeldDomain, Proven};
pub use tenancy::inbound_ways::SealedWay;
pub use tenancy::keys::{InsertedKey, KeyHolder, NamedKey, Whose};
pub use tenancy::members::{MemberChange, Membership, NewMember};
pub use tenancy::once::Done;
pub use tenancy::relays::{RelayNote, RelayPut, SealedRelay};
pub use upkeep::backup::{Copied, Objects, back_up};
pub use upkeep::backup_error::BackupError;
pub use upkeep::beside::{Beside, Keys, SECRETS_KEY, Sealed, TLS};
pub use upkeep::erasure::Erasing;
pub use upkeep::retention::{Deleted, Due, Expired, Keeper};
pub use upkeep::survey::{Damage, FIRST};
pub use upkeep::sweep::Swept;
