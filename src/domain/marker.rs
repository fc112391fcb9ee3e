//! Our delivery marker: the trace that a message bears, wherever it goes on from here, of the
//! address that it has reached here. Whoever sends an Agent's mail on adds the field; a message
//! that comes back with it to the same address goes round in a loop (contract §2, Replies).

use std::fmt;

use aws_lc_rs::hmac;
use uuid::Uuid;

use super::address::Address;

/// The name of the header field.
pub const FIELD: &str = "X-Gatepost-Delivered";

/// The value of the field: 128 bits that name an address to this installation and tell nobody else
/// anything. It proves nothing, and nothing is accepted because of it: whoever repeats one that he
/// has seen only has his own message refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Marker([u8; 16]);

impl Marker {
    /// Of mail for `address`, which is without its tag; at a catch-all the one that was asked for.
    /// All gateways of one installation make the same one: `installation` is the identity of their
    /// database. HMAC-SHA-256, cut to half.
    pub fn of(installation: Uuid, address: &Address) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, installation.as_bytes());
        let mut context = hmac::Context::with_key(&key);
        // Other uses of the same key must not come to the same codes.
        context.update(FIELD.as_bytes());
        context.update(b"\0");
        context.update(address.to_string().as_bytes());
        let code = context.sign();
        let mut half = [0; 16];
        half.iter_mut().zip(code.as_ref()).for_each(|(octet, of_code)| *octet = *of_code);
        Self(half)
    }

    /// Reads the value of a field; `None` where it is none of ours.
    pub fn read(value: &[u8]) -> Option<Self> {
        let text = str::from_utf8(value.trim_ascii()).ok()?;
        let is_hex = text.len() == 32 && text.bytes().all(|octet| octet.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_hex)?;
        Some(Self(number.to_be_bytes()))
    }
}

/// 32 hexadecimal digits, lower case.
impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Uuid = Uuid::from_u128(0x0192_0000_0000_7000_8000_0000_0000_0001);

    fn of(address: &str) -> Marker {
        Marker::of(HERE, &Address::parse(address).unwrap())
    }

    #[test]
    fn each_address_of_each_installation_has_its_own() {
        let marker = of("support@agents.example");
        assert_eq!(marker, of("Support@AGENTS.example"), "another spelling is no other address");
        for other in ["open@agents.example", "support@agents.test", "support+x@agents.example"] {
            assert_ne!(marker, of(other), "{other}");
        }
        let address = Address::parse("support@agents.example").unwrap();
        assert_ne!(marker, Marker::of(Uuid::from_u128(1), &address));
        // What is in messages under way must still be known after an update.
        assert_eq!(marker.to_string(), "f0c9c0c1e1a28692d5a135e617f3c0ef");
    }

    #[test]
    fn a_field_is_read_back_and_nothing_else_is_a_marker() {
        let marker = of("support@agents.example");
        let text = marker.to_string();
        for value in [text.clone(), format!("\r\n {text} "), text.to_uppercase()] {
            assert_eq!(Marker::read(value.as_bytes()), Some(marker), "{value:?}");
        }
        for value in ["", "1", "+123456789abcdef0123456789abcdef", &format!("{text}0")] {
            assert_eq!(Marker::read(value.as_bytes()), None, "{value:?}");
        }
        assert_eq!(Marker::read(&[0xff; 32]), None);
        assert_eq!(Marker::read(format!("{text} {text}").as_bytes()), None);
    }
}
