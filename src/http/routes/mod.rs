//! The operations, one file per noun: the wire shapes, and the call of the use case behind them.
//!
//! A handler gets the authorised `Call` and its parsed request type, and returns its answer type.
//! `successes!` declares the answers of a file, each with its status and its message.
//!
//! A handler takes no lock, and fails as its use cases do (`problems_of`), or with 400 for a
//! mistake that no schema expresses. It changes something by one call of a use case. An answer with
//! a whole list reads it afterwards: an error there does not undo the change.

pub(super) mod account;
pub(super) mod account_lists;
pub(super) mod account_updates;
pub(super) mod accounts;
pub(super) mod addresses;
pub(super) mod agent_versions;
pub(super) mod agents;
pub(super) mod apps;
pub(super) mod audit;
pub(super) mod computer_config;
pub(super) mod computer_health;
pub(super) mod computer_secrets;
pub(super) mod computers;
pub(super) mod contacts;
pub(super) mod conversations;
pub(super) mod deliveries;
pub(super) mod domain_check;
pub(super) mod domains;
pub(super) mod erasure;
mod event_stream;
mod event_view;
pub(super) mod events;
pub(super) mod features;
pub(super) mod inbound_policy;
pub(super) mod inbound_whitelist;
pub(super) mod intake;
pub(super) mod log_filter;
mod log_table;
pub(super) mod logs;
pub(super) mod media;
pub(super) mod members;
pub(super) mod messages;
mod metric_definition;
pub(super) mod outcomes;
pub(super) mod policy_preview;
pub(super) mod receive_message;
pub(super) mod rooms;
pub(super) mod search;
pub(super) mod sessions;
pub(super) mod system;
pub(super) mod template_parts;
pub(super) mod templates;
pub(super) mod time_series;
pub(super) mod tokens;
pub(super) mod webhook_actions;
pub(super) mod webhook_relay;
pub(super) mod webhooks;
