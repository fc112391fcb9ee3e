//! The nouns, and the pure decisions that need nothing else.
//!
//! Every other room may import this one. This room imports nothing from the crate outside `domain`
//! (tests use `testkit`). It does no I/O, reads no clock and draws no random numbers: callers pass
//! the time in. The types have no wire shape, except `evidence`, which is stored and shown as it is
//! declared. The shapes that clients, receivers and tables see are in `http/routes`, the `record`
//! files of `app`, and `store`. The words are those of the contract: one noun per idea, spelled the
//! same everywhere.

pub mod account;
pub mod acme_challenge;
pub mod address;
pub mod agent_config;
pub mod agent_outcome;
pub mod app;
pub mod audit;
pub mod automation;
pub mod breaker;
pub mod cause;
pub mod causes;
pub mod clock;
pub mod computer;
pub mod condition;
pub mod console_session;
pub mod contact;
pub mod custom_header;
pub mod decimal;
pub mod delivery;
pub mod destination;
pub mod domain_name;
pub mod draft;
pub mod event;
pub mod evidence;
pub mod fault;
pub mod feature;
pub mod formula;
pub mod id;
pub mod instant;
pub mod intake_record;
pub mod key;
pub mod log_field;
pub mod lookalike;
pub mod marker;
pub mod member;
pub mod message;
pub mod metric;
pub mod mta_sts;
pub mod network;
pub mod path;
pub mod policy;
pub mod ports;
pub mod rate;
pub mod reason;
pub mod recent;
pub mod relay;
pub mod repeats;
pub mod retry;
pub mod room;
pub mod scope;
pub mod search;
pub mod secret;
pub mod sender;
pub mod session;
pub mod shares;
pub mod source;
pub mod template;
pub mod thread;
pub mod tls_report;
pub mod verdict;
pub mod words;
