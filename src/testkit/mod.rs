//! Real counterparts of a gateway on this machine: a DNS server, a signer, an SMTP client, an API
//! client, a webhook receiver, and the fixtures with the accounts that receive them.
//!
//! Only for `gatepost demo`, `dev`, `doctor`, `send` and the tests. The path of a message never calls this
//! room, and this room never bypasses that path.

pub mod case;
pub mod dice;
pub mod dns;
pub mod fixture_accounts;
pub mod golden;
pub mod http_client;
pub mod presented;
pub mod provider;
pub mod receiver;
#[cfg(test)]
pub mod seeds;
pub mod signer;
pub mod smtp_client;

/// How many times as much those tests do whose size is free: 1, or `GATEPOST_TEST_SCALE`, as
/// `scripts/proof` sets it.
pub fn scale() -> u32 {
    let set = std::env::var("GATEPOST_TEST_SCALE").ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(1)
}
