//! Has the message been here before, for the address that it comes to now? (contract §2, Replies:
//! `loop_detected`; threats C14)
//!
//! Its delivery markers tell. One of another Agent's address is no loop: a copy of one Agent may
//! reach another. So each recipient is asked for itself, and its record names nobody else.

use std::time::Instant;

use aws_lc_rs::hmac;
use uuid::Uuid;

use super::Examination;
use super::step::step;
use crate::domain::address::Address;
use crate::domain::evidence::looping::Loop;
use crate::domain::evidence::{Facts, Step};
use crate::domain::marker::{FIELD, Marker};

/// Of a message that has been here, in words fit for the SMTP reply.
pub(super) const BEEN_HERE: &str =
    "the message bears the delivery marker of this address: it has been here before";

/// What the delivery markers of a message say about one address.
#[derive(Clone, Debug)]
pub struct Visit {
    /// It has been here for this address.
    pub is_return: bool,
    pub(super) step: Step,
}

impl Visit {
    /// From the step `loop` of a record: without the installation nobody can find it out again.
    pub fn of_record(step: &Step) -> Self {
        Self { is_return: step.result == "fail", step: step.clone() }
    }
}

impl Examination {
    /// Compares the markers with that of `address`, as [`marker`] has it; `None` where there are
    /// none.
    pub fn visit(&self, installation: Uuid, address: &Address) -> Option<Visit> {
        if self.markers.is_empty() {
            return None;
        }
        let began = Instant::now();
        let is_return = self.markers.contains(&marker(installation, address));
        let (result, detail) = if is_return {
            ("fail", BEEN_HERE)
        } else {
            ("pass", "the message bears no delivery marker of this address")
        };
        let facts = Loop { field: FIELD.into(), address: address.to_string() };
        Some(Visit { is_return, step: step(Facts::Loop(facts), result, detail, began) })
    }
}

/// The marker of mail for `address`, which is without its tag; at a catch-all the one that was
/// asked for. All gateways of one installation make the same one: `installation` is the identity of
/// their database. HMAC-SHA-256, cut to half.
pub fn marker(installation: Uuid, address: &Address) -> Marker {
    let key = hmac::Key::new(hmac::HMAC_SHA256, installation.as_bytes());
    let mut context = hmac::Context::with_key(&key);
    // Other uses of the same key must not come to the same codes.
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
        // What is in messages under way must still be known after an update.
        assert_eq!(marker.to_string(), "f0c9c0c1e1a28692d5a135e617f3c0ef");
    }
}
