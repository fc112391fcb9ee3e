//! The other ends of a gateway's wires, real ones on this machine: a DNS server, a signer, an SMTP
//! client, a client of the API, a webhook receiver, and the fixtures with the accounts that they are
//! sent to.
//!
//! For `gatepost demo`, `dev` and `send` and the tests only; nothing on the path of a message calls
//! in here, and nothing here is a shortcut past it.

pub mod case;
pub mod dns;
pub mod golden;
pub mod house;
pub mod http_client;
pub mod provider;
pub mod receiver;
pub mod signer;
pub mod smtp_client;
