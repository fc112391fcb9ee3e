//! Macro strings of SPF records (RFC 7208 §7): parsed strictly, expanded to names for queries.

use std::net::IpAddr;

use crate::verify::resolver::MAX_NAME;

/// A domain-spec, or the value of a modifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Macro(Macro),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Macro {
    /// Lower case.
    letter: char,
    is_escaped: bool,
    /// Number of parts to keep, from the right; None keeps all.
    keep: Option<usize>,
    is_reversed: bool,
    delimiters: String,
}

/// The values of the macros.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values<'v> {
    pub(super) client: IpAddr,
    pub(super) local_part: &'v str,
    pub(super) sender_domain: &'v str,
    /// The domain whose record is evaluated.
    pub(super) domain: &'v str,
    pub(super) helo: &'v str,
    /// A confirmed name of the client; None if there is none.
    pub(super) client_name: Option<&'v str>,
}

impl Template {
    /// Parses a name: it must end in a label that could be a top-level domain, or in a macro.
    pub(super) fn domain(text: &str) -> Result<Self, String> {
        let template = Self::macro_string(text)?;
        match template.0.last() {
            Some(Piece::Macro(_)) => Ok(template),
            // `%%`, `%_` and `%-` are macros too but become literals, so look at the text.
            Some(Piece::Literal(_)) if ["%%", "%_", "%-"].iter().any(|m| text.ends_with(m)) => {
                Ok(template)
            }
            Some(Piece::Literal(end)) if ends_in_toplabel(end) => Ok(template),
            _ => Err(format!("{text:?} does not end in a domain")),
        }
    }

    /// Parses any macro string, as unknown modifiers have.
    pub(super) fn macro_string(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('%') {
            literal.push_str(before);
            let mut following = after.chars();
            match following.next() {
                Some('%') => literal.push('%'),
                Some('_') => literal.push(' '),
                Some('-') => literal.push_str("%20"),
                Some('{') => {
                    let (inside, _) = after
                        .get(1..)
                        .and_then(|inside| inside.split_once('}'))
                        .ok_or_else(|| format!("{text:?} has an open macro"))?;
                    let read = Macro::read(inside)
                        .ok_or_else(|| format!("{text:?} has an unknown macro, %{{{inside}}}"))?;
                    if !literal.is_empty() {
                        pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                    }
                    pieces.push(Piece::Macro(read));
                    rest = after.get(inside.len() + 2..).unwrap_or_default();
                    continue;
                }
                _ => return Err(format!("{text:?} has a % that starts no macro")),
            }
            rest = following.as_str();
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        Ok(Self(pieces))
    }

    /// Tells whether `%{p}` is needed, which costs look-ups.
    pub(super) fn asks_for_client_name(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Macro(read) if read.letter == 'p'))
    }

    /// Returns the name without final dot, at most 253 bytes: a longer one loses labels on the left
    /// (§7.3). So it is built from its end, only as far as needed.
    pub(super) fn expand(&self, values: &Values<'_>) -> String {
        let (mut pieces, mut octets) = (Vec::new(), 0);
        for piece in self.0.iter().rev() {
            let mut text = String::new();
            match piece {
                Piece::Literal(literal) => text.push_str(literal),
                Piece::Macro(read) => read.expand(values, &mut text),
            }
            octets += text.len();
            pieces.push(text);
            // The final dot, and one byte that makes it too long.
            if octets > MAX_NAME + 1 {
                break;
            }
        }
        pieces.reverse();
        let name = pieces.concat();
        let mut kept = name.strip_suffix('.').unwrap_or(&name);
        while kept.len() > MAX_NAME {
            kept = kept.split_once('.').map_or("", |(_, after)| after);
        }
        kept.to_owned()
    }
}

impl Macro {
    /// Parses the text between the braces: a letter, `*DIGIT ["r"]`, delimiters. The letters c, r
    /// and t are for explanations only, which are never expanded.
    fn read(inside: &str) -> Option<Self> {
        let mut characters = inside.chars();
        let letter = characters.next()?;
        let rest = characters.as_str();
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = rest.split_at_checked(digits)?;
        let keep = match digits {
            "" => None,
            // Saturates beyond any number of labels; zero parts are invalid.
            digits => Some(digits.parse::<usize>().unwrap_or(usize::MAX)).filter(|keep| *keep > 0),
        };
        let unreversed = rest.strip_prefix(['r', 'R']);
        let delimiters = unreversed.unwrap_or(rest);
        let is_read = "slodipvh".contains(letter.to_ascii_lowercase())
            && (digits.is_empty() || keep.is_some())
            && delimiters.chars().all(|c| ".-+,/_=".contains(c));
        is_read.then(|| Self {
            letter: letter.to_ascii_lowercase(),
            is_escaped: letter.is_ascii_uppercase(),
            keep,
            is_reversed: unreversed.is_some(),
            delimiters: if delimiters.is_empty() { ".".into() } else { delimiters.into() },
        })
    }

    fn expand(&self, values: &Values<'_>, into: &mut String) {
        let value = match self.letter {
            's' => format!("{}@{}", values.local_part, values.sender_domain),
            'l' => values.local_part.to_owned(),
            'o' => values.sender_domain.to_owned(),
            'd' => values.domain.to_owned(),
            'i' => dotted(values.client),
            'p' => values.client_name.unwrap_or("unknown").to_owned(),
            'v' if values.client.is_ipv4() => "in-addr".to_owned(),
            'v' => "ip6".to_owned(),
            _ => values.helo.to_owned(),
        };
        let mut parts: Vec<&str> = value.split(|c| self.delimiters.contains(c)).collect();
        if self.is_reversed {
            parts.reverse();
        }
        let dropped = self.keep.map_or(0, |keep| parts.len().saturating_sub(keep));
        let text = parts.get(dropped..).unwrap_or_default().join(".");
        if self.is_escaped {
            escape(&text, into);
        } else {
            into.push_str(&text);
        }
    }
}

/// Formats IPv4 as usual, IPv6 by nibbles (§7.3).
fn dotted(client: IpAddr) -> String {
    match client {
        IpAddr::V4(client) => client.to_string(),
        IpAddr::V6(client) => {
            let nibbles = client.octets().into_iter().flat_map(|octet| [octet >> 4, octet & 15]);
            nibbles.map(|nibble| format!("{nibble:x}")).collect::<Vec<_>>().join(".")
        }
    }
}

/// Escapes all but the unreserved characters of RFC 3986 §2.3.
fn escape(text: &str, into: &mut String) {
    for octet in text.bytes() {
        if octet.is_ascii_alphanumeric() || b"-._~".contains(&octet) {
            into.push(char::from(octet));
        } else {
            into.push_str(&format!("%{octet:02X}"));
        }
    }
}

/// Tells whether a text ends in `"." toplabel ["."]` (§7.1): not all digits, no hyphen at either
/// end. Any text may precede it, even none, because a macro may come before.
fn ends_in_toplabel(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    let Some((_, label)) = text.rsplit_once('.') else { return false };
    !label.is_empty()
        && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
        && !label.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7208 §7.4.
    #[test]
    fn the_examples_of_the_rfc() {
        let values = Values {
            client: [192, 0, 2, 3].into(),
            local_part: "strong-bad",
            sender_domain: "email.example.com",
            domain: "email.example.com",
            helo: "mx.example.org",
            client_name: None,
        };
        let ip6 = Values { client: "2001:db8::cb01".parse().unwrap(), ..values };
        for (text, values, expected) in [
            ("%{s}", values, "strong-bad@email.example.com"),
            ("%{o}", values, "email.example.com"),
            ("%{d}", values, "email.example.com"),
            ("%{d4}", values, "email.example.com"),
            ("%{d2}", values, "example.com"),
            ("%{d1}", values, "com"),
            ("%{dr}", values, "com.example.email"),
            ("%{d2r}", values, "example.email"),
            ("%{l}", values, "strong-bad"),
            ("%{l-}", values, "strong.bad"),
            ("%{lr}", values, "strong-bad"),
            ("%{lr-}", values, "bad.strong"),
            ("%{l1r-}", values, "strong"),
            ("%{ir}.%{v}._spf.%{d2}", values, "3.2.0.192.in-addr._spf.example.com"),
            ("%{lr-}.lp._spf.%{d2}", values, "bad.strong.lp._spf.example.com"),
            (
                "%{ir}.%{v}._spf.%{d2}",
                ip6,
                "1.0.b.c.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6._spf.example.com",
            ),
            (
                "%{d2}.trusted-domains.example.net",
                values,
                "example.com.trusted-domains.example.net",
            ),
            ("%{S}.%{p}", values, "strong-bad%40email.example.com.unknown"),
            ("a%%b%_c%-.example.com.", values, "a%b c%20.example.com"),
        ] {
            assert_eq!(Template::domain(text).unwrap().expand(&values), expected, "{text}");
        }
        let long = format!("{}%{{d}}", "a.".repeat(200));
        let name = Template::domain(&long).unwrap().expand(&values);
        assert!(name.len() <= 253 && name.ends_with("a.email.example.com"), "{name}");
        // The end of the whole text counts, however it is split.
        let (sender, domain) = ("strong-bad@email.example.com", "email.example.com");
        for (text, whole) in [
            (format!("{}.%{{d1}}.", "%{s}".repeat(2000)), format!("{}.com", sender.repeat(2000))),
            (format!("{}%{{d}}", "x".repeat(300)), format!("{}{domain}", "x".repeat(300))),
            (format!("%{{d}}.{}", "x".repeat(253)), format!("{domain}.{}", "x".repeat(253))),
            (format!("%{{d}}.{}", "x".repeat(254)), String::new()),
            (
                format!("%{{d}}{}.com.", ".x".repeat(124)),
                format!("{domain}{}.com", ".x".repeat(124)),
            ),
        ] {
            let mut expected = whole.as_str();
            while expected.len() > 253 {
                expected = expected.split_once('.').unwrap().1;
            }
            assert_eq!(Template::macro_string(&text).unwrap().expand(&values), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_name() {
        for text in [
            "", "com", "com.", "a.123", "a.-b", "a.b-", "a..", "%", "a%", "%{", "%{d", "%{}",
            "%{x}", "%{c}", "%{r}", "%{t}", "%{d0}", "%{d2rr}", "%{d;}", "%(d)", "a.b:80", "%abc",
        ] {
            assert!(Template::domain(text).is_err(), "{text:?}");
        }
        for text in
            ["a.b", "a.b.", "_spf.%{d}", "%{d}", "%{d2r.-+,/_=}", ".com", "a.xn--b", "x:y/z.b"]
        {
            assert!(Template::domain(text).is_ok(), "{text:?}");
        }
    }
}
