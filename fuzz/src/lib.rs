//! The rooms that are fuzzed, without the rest of the house: built in a minute, and a finding is
//! theirs.

#[path = "../../src/domain/mod.rs"]
pub mod domain;
#[path = "../../src/mail/mod.rs"]
pub mod mail;
#[path = "../../src/rules/mod.rs"]
pub mod rules;
pub mod smtp;
