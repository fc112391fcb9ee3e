//! The whole program from outside: real sockets, a real local DNS, a real store, real clients.
//! One behaviour a file; no test depends on another, on a port, or on the time of day.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod accounts;
mod acme;
mod adapters;
mod altered_copies;
mod backlog;
mod backup;
mod backup_beside;
mod book;
mod browser;
mod clients;
mod clocks;
mod cluster;
mod command_line;
mod commands;
mod console;
mod console_journeys;
mod console_mail;
mod console_tour;
mod containers;
mod contract;
mod corpus;
mod cors;
mod crash;
mod crowds;
mod demo;
mod dev;
mod differential;
mod docs;
mod doctor;
mod domains;
mod egress;
mod examples;
mod failover;
mod faults;
mod fixtures;
mod followers;
mod gateways;
mod generated_clients;
mod guards;
mod house;
mod https;
mod international;
mod limits;
mod limits_page;
mod log;
mod loops;
mod machines;
#[cfg(feature = "mailin")]
mod mailin;
mod mcp;
mod mcp_cancel;
mod mcp_changes;
mod mcp_conformance;
mod mcp_fence;
mod mcp_outcomes;
mod mcp_stdio;
mod media;
mod metrics;
mod models;
mod mta_sts;
mod neighbours;
mod openapi;
mod originals;
mod originals_backup;
mod package;
mod people;
mod plans;
mod policy;
mod preview;
mod rates;
mod readiness;
mod receivers;
mod recipients;
mod recompute;
mod reference;
mod relays;
mod repeats;
mod replies;
mod restore;
mod retention;
mod rules;
mod secret_release;
mod senders;
mod serving;
mod signatures;
mod slow_clock;
mod soak;
mod store;
mod support;
mod systemd;
mod takeover;
mod threats;
mod tls;
mod tls_reports;
mod traces;
mod units;
mod upgrade;
mod v2_client;
mod versions;
mod watching;
mod webhooks;
mod words;
