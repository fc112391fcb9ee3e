//! The protocol alone.

#[path = "../../src/smtp/protocol/mod.rs"]
pub mod protocol;
