//! The other ends of a gateway's wires, real ones on this machine: a DNS server, a signer, an SMTP
//! client, a webhook receiver, and the fixtures with the accounts that they are sent to.
//!
//! For `gatepost demo`, `gatepost send` and the tests only; nothing on the path of a message calls
//! in here, and nothing here is a shortcut past it.

pub mod case;
pub mod dns;
pub mod golden;
pub mod house;
pub mod provider;
pub mod receiver;
pub mod signer;
pub mod smtp_client;
