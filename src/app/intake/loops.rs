//! Detects a message that returns to an address it has been delivered to (contract §2, Replies:
//! `loop_detected`; threats C14).
//!
//! The message's delivery markers tell. A marker of another Agent's address is no loop: a copy sent
//! by one Agent may reach another. So each recipient is checked separately, and its record names no
//! other.

use std::time::Instant;

use aws_lc_rs::hmac;
use uuid::Uuid;

use super::Examination;
use super::step::step;
use crate::domain::address::Address;
use crate::domain::evidence::looping::Loop;
use crate::domain::evidence::{Facts, Step};
use crate::domain::marker::{FIELD, Marker};

/// The detail about a returning message, in words fit for the SMTP reply.
pub(super) const BEEN_HERE: &str =
    "the message has the delivery marker of this address: it was delivered here before";

#[derive(Clone, Debug)]
pub struct Visit {
    /// The message has been delivered to this address before.
    pub is_return: bool,
    pub(super) step: Step,
}

impl Visit {
    /// Reads the result from the step `loop` of a record: the marker cannot be computed without the
    /// installation's identity.
    pub fn of_record(step: &Step) -> Self {
        Self { is_return: step.result == "fail", step: step.clone() }
    }
}

impl Examination {
    /// Compares the markers with the [`marker`] of `address`; None if the message has no markers.
    pub fn visit(&self, installation: Uuid, address: &Address) -> Option<Visit> {
        if self.markers.is_empty() {
            return None;
        }
        let began = Instant::now();
        let is_return = self.markers.contains(&marker(installation, address));
        let (result, detail) = if is_return {
            ("fail", BEEN_HERE)
        } else {
            ("pass", "the message has no delivery marker of this address")
        };
        let facts = Loop { field: FIELD.into(), address: address.to_string() };
        Some(Visit { is_return, step: step(Facts::Loop(facts), result, detail, began) })
    }
}

/// Returns the marker of mail for `address`, which has no tag; at a catch-all it is the address
/// that was asked for. HMAC-SHA-256, cut to half. `installation` is the identity of the database:
/// all gateways of one installation make the same marker.
pub fn marker(installation: Uuid, address: &Address) -> Marker {
    let key = hmac::Key::new(hmac::HMAC_SHA256, installation.as_bytes());
    let mut context = hmac::Context::with_key(&key);
    // Separates this use of the key from others.
    context.update(FIELD.as_bytes());
    context.update(b"\0");
    context.update(address.to_string().as_bytes());
    let code = context.sign();
    let mut half = [0; 16];
    half.iter_mut().zip(code.as_ref()).for_each(|(octet, of_code)| *octet = *of_code);
    Marker::new(half)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Uuid = Uuid::from_u128(0x0192_0000_0000_7000_8000_0000_0000_0001);

    fn of(address: &str) -> Marker {
        marker(HERE, &Address::parse(address).unwrap())
    }

    #[test]
    fn each_address_of_each_installation_has_its_own() {
        let marker = of("support@agents.example");
        assert_eq!(marker, of("Support@AGENTS.example"), "another spelling is no other address");
        for other in ["open@agents.example", "support@agents.test", "support+x@agents.example"] {
            assert_ne!(marker, of(other), "{other}");
        }
        let address = Address::parse("support@agents.example").unwrap();
        assert_ne!(marker, super::marker(Uuid::from_u128(1), &address));
        // Markers in messages under way must be recognised after an update.
        assert_eq!(marker.to_string(), "f0c9c0c1e1a28692d5a135e617f3c0ef");
    }
}
