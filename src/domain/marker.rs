//! Our delivery marker: the trace that a message bears, wherever it goes on from here, of the
//! address that it has reached here. Whoever sends an Agent's mail on adds the field; a message
//! that comes back with it to the same address goes round in a loop (contract §2, Replies).

use std::fmt;

/// The name of the header field.
pub const FIELD: &str = "X-Gatepost-Delivered";

/// The value of the field: 128 bits that name an address to this installation and tell nobody else
/// anything. It proves nothing, and nothing is accepted because of it: whoever repeats one that he
/// has seen only has his own message refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Marker([u8; 16]);

impl Marker {
    /// Of these octets; which those of an address are, `app::intake` says.
    pub const fn new(octets: [u8; 16]) -> Self {
        Self(octets)
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
