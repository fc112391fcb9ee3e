//! Gatepost: an inbound mail server for AI agents. ARCHITECTURE.md has the map. The rooms below are
//! listed in the order of their dependencies: each room imports only from rooms above it.

pub mod disk;
pub mod domain;
pub mod shutdown;
pub mod telemetry;

pub mod rules;
pub mod wire;

pub mod mail;

pub mod metrics;

pub mod egress;
pub mod store;
pub mod verify;

pub mod traces;

pub mod app;

pub mod webhook;

pub mod tls;

pub mod http;

pub mod console;
pub mod mcp;

pub mod config;
pub mod smtp;
pub mod testkit;

pub mod run;

/// Checks responses against their schemas; shared with tests/it.
#[cfg(test)]
#[path = "../tests/it/support/schema.rs"]
mod schema;

pub mod cli;
