//! The two rooms that are fuzzed, without the rest of the house: built in a minute, and a finding
//! is theirs.

#[path = "../../src/domain/mod.rs"]
pub mod domain;
pub mod smtp;
