//! The delivery marker: a header field that names an address which a message has reached here. A
//! relay that sends an Agent's mail on adds the field. A message that comes back to the same
//! address with its marker is in a loop (contract §2, Replies).

use std::fmt;

pub const FIELD: &str = "X-Gatepost-Delivered";

/// The value of the field: 128 bits that name an address to this installation and to nobody else.
/// It proves nothing, and no message is accepted because of it. A sender who copies a marker only
/// gets his own message refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Marker([u8; 16]);

impl Marker {
    /// `app::intake` computes the bytes from an address.
    pub const fn new(octets: [u8; 16]) -> Self {
        Self(octets)
    }

    /// Parses the value of a field; None if it is not a marker.
    pub fn read(value: &[u8]) -> Option<Self> {
        let text = str::from_utf8(value.trim_ascii()).ok()?;
        let is_hex = text.len() == 32 && text.bytes().all(|octet| octet.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_hex)?;
        Some(Self(number.to_be_bytes()))
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_read_back_and_nothing_else_is_a_marker() {
        let text = "f0c9c0c1e1a28692d5a135e617f3c0ef".to_owned();
        let marker = Marker::new(0xf0c9_c0c1_e1a2_8692_d5a1_35e6_17f3_c0ef_u128.to_be_bytes());
        assert_eq!(marker.to_string(), text);
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
