//! What a Gatepost needs around it to be tried out on one machine: a DNS with test keys and
//! somebody who signs mail.
//!
//! `gatepost demo`, `gatepost send` and the tests call in here. Nothing on the path of a message
//! does: the gateway cannot tell these servers from real ones.

pub mod dns;
pub mod signer;
