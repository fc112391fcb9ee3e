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
mod grouped;
mod mailbox;
mod opening;
mod tenancy;
mod upkeep;

pub use agents::agent_versions::{NewVersion, VersionOutcome, VersionTitle};
pub use agents::app_records::AppRemoval;
pub use agents::computers::{ComputerChange, ComputerOutcome, Release, ReleaseNote};
pub use agents::configurations::{ConfigChange, ConfigEvent, ConfigOutcome};
pub use agents::template_links::{ApplyOutcome, TemplateApplication};
pub use agents::template_locks::LockedFields;
pub use agents::template_migrations::{
    MigrationOutcome, MigrationScope, TemplateProgress, TemplateStep,
};
pub use agents::templates::{NewTemplate, TemplateChange, TemplateDeletion, TemplateOutcome};
pub use base::gateway_registry::GatewayChanges;
pub use base::page::{Cursor, Direction, List, Page, truncate_page};
pub use blobs::place::{BlobPlace, S3Access, StorePlace};
pub use commit::intake::{Accepted, Commit, Committed, Intake, PlatformMessage, Receipt};
pub use engine::error::StoreError;
pub use engine::location::{Location, LocationError};
pub use engine::postgres_url::PostgresUrl;
pub use engine::serving::Serving;
pub use events::delivery::attempt_results::Finished;
pub use events::delivery::current_contents::{CurrentContents, PositionRange};
pub use events::delivery::deliveries::{DeliveryFilter, DeliveryRecord, Redelivery};
pub use events::delivery::destination_changes::{
    DestinationChange, KnownDestination, Rotated, Rotation,
};
pub use events::delivery::destinations::{NewDestination, SomeCategories};
pub use events::delivery::event_lists::{EventFilter, EventPage, FoundEvent, PlacedEvent};
pub use events::delivery::former_secrets::ForgottenSecrets;
pub use events::delivery::replay_requests::{ReplayRequest, Replayed, Tested};
pub use events::event_data::{
    ChangedConfig, DisabledData, PolicyData, PublishedData, TestData, event_data,
};
pub use events::event_row::EventPlace;
pub use mailbox::conversations::{MessagePlace, OutlinedMessage};
pub use mailbox::intake_records::IntakeFilter;
pub use mailbox::logs::{Bucket, Bucketing, LogRow};
pub use mailbox::messages::Original;
pub use mailbox::new_messages::{NewMessage, NewReceived};
pub use mailbox::outcomes::OutcomeRecorded;
pub use mailbox::room_lists::{ListedRoom, RoomFilter, RoomList, RoomPage};
pub use mailbox::room_ranges::RoomPlace;
pub use mailbox::search::{MatchedMessages, Unindexed, WantedWords};
pub use mailbox::sessions::{ResetSession, SessionList};
pub use mailbox::verdict_history::PastVerdict;
pub use opening::{Store, restore};
pub use tenancy::account_changes::{AccountUpdate, AccountUpdated};
pub use tenancy::account_deletion::AccountDeletion;
pub use tenancy::account_lists::{AccountFilter, AccountList, AccountPage};
pub use tenancy::accounts::{AccountCreation, MakeRecord, NewAccount};
pub use tenancy::addresses::{AddressClaim, AddressedAgent, Claimed, HeldAddress, Standing};
pub use tenancy::app_rows::AppRecordInsertion;
pub use tenancy::audit::AuditFilter;
pub use tenancy::console_sessions::{ConsoleSessionHolder, NewConsoleLink, TicketOpening};
pub use tenancy::directory::{AnsweringAgent, AnswersBy, Listing};
pub use tenancy::domains::{DomainClaim, DomainLimits, DomainProof, HeldDomain};
pub use tenancy::idempotency::RememberedRequest;
pub use tenancy::inbound_ways::SealedWay;
pub use tenancy::keys::{KeyHolder, KeyInsertion, NamedKey, RevocableKeys};
pub use tenancy::members::{MemberChange, MemberOutcome, MemberTarget, NewMember};
pub use tenancy::relays::{RelayNote, RelayPut, SealedRelay};
pub use upkeep::backup::{BackupSummary, OriginalsPlace, back_up};
pub use upkeep::backup_error::BackupError;
pub use upkeep::companion_files::{CompanionFiles, SECRETS_KEY, SealedSecrets, TLS, VaultKeys};
pub use upkeep::database_facts::{DatabaseFacts, PostgresFacts};
pub use upkeep::erasure::{ErasureLimits, ErasureProgress};
pub use upkeep::readiness_checks::OriginalsFault;
pub use upkeep::retention::{DeletedRows, DueAccount, ExpiredRow, RetainingAccount};
pub use upkeep::sweep::SweepCounts;
pub use upkeep::workload::{Backlog, GatewayVersion};
