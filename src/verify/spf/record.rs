//! SPF records, parsed strictly by RFC 7208 §4.6 and §12. A mistake anywhere invalidates the whole
//! record (§4.6), so that no two readers differ about the hosts that it allows.

use std::net::{Ipv4Addr, Ipv6Addr};

use mail_auth::SpfResult;

use super::template::Template;

/// One `v=spf1` record. `exp=` is checked but not kept: explanations written by strangers are not
/// shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) directives: Vec<Directive>,
    pub(super) redirect: Option<Template>,
}

/// One mechanism, with the result if it matches.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Directive {
    pub(super) result: SpfResult,
    pub(super) mechanism: Mechanism,
    /// As written, cut.
    pub(super) text: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mechanism {
    All,
    Include(Template),
    A(Option<Template>, Prefixes),
    Mx(Option<Template>, Prefixes),
    Ptr(Option<Template>),
    Ip4(Ipv4Addr, u8),
    Ip6(Ipv6Addr, u8),
    Exists(Template),
}

/// Lengths of the networks that are compared, in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prefixes {
    pub(super) ip4: u8,
    pub(super) ip6: u8,
}

/// Tells whether a TXT record is an SPF record (§4.5).
pub(in crate::verify) fn is_spf(octets: &[u8]) -> bool {
    let is_version = |start: &[u8]| start.eq_ignore_ascii_case(b"v=spf1");
    octets.get(..6).is_some_and(is_version) && matches!(octets.get(6), None | Some(b' '))
}

impl Record {
    /// Parses a record that [`is_spf`]. Fails with an explanation of the mistake.
    pub(super) fn read(octets: &[u8]) -> Result<Self, String> {
        let terms = octets.get(6..).unwrap_or_default();
        let text = std::str::from_utf8(terms)
            .ok()
            .filter(|text| text.bytes().all(|octet| octet == b' ' || octet.is_ascii_graphic()));
        let text = text.ok_or("the record has forbidden characters")?;
        let mut record = Self { directives: Vec::new(), redirect: None };
        let mut has_exp = false;
        for term in text.split(' ').filter(|term| !term.is_empty()) {
            let Some((name, value)) = modifier(term) else {
                record.directives.push(Directive::read(term)?);
                continue;
            };
            match name.to_ascii_lowercase().as_str() {
                "redirect" => {
                    if record.redirect.replace(Template::domain(value)?).is_some() {
                        return Err("redirect= appears twice".into());
                    }
                }
                "exp" => {
                    Template::domain(value)?;
                    if std::mem::replace(&mut has_exp, true) {
                        return Err("exp= appears twice".into());
                    }
                }
                _ => drop(Template::macro_string(value)?),
            }
        }
        Ok(record)
    }
}

/// Splits `name "=" value`; the name ends before any `:` and `/`.
fn modifier(term: &str) -> Option<(&str, &str)> {
    let (name, value) = term.split_once('=')?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    is_name.then_some((name, value))
}

impl Directive {
    fn read(term: &str) -> Result<Self, String> {
        let mut rest = term.chars();
        let (result, mechanism) = match rest.next() {
            Some('+') => (SpfResult::Pass, rest.as_str()),
            Some('-') => (SpfResult::Fail, rest.as_str()),
            Some('~') => (SpfResult::SoftFail, rest.as_str()),
            Some('?') => (SpfResult::Neutral, rest.as_str()),
            _ => (SpfResult::Pass, term),
        };
        let text: String = term.chars().take(80).collect();
        match Mechanism::read(mechanism) {
            Ok(mechanism) => Ok(Self { result, mechanism, text }),
            Err(why) if why.is_empty() => Err(format!("{text:?} is not a mechanism")),
            Err(why) => Err(why),
        }
    }
}

impl Mechanism {
    /// Fails with an empty text if the term is no mechanism at all.
    fn read(text: &str) -> Result<Self, String> {
        let end = text.find([':', '/']).unwrap_or(text.len());
        let (name, rest) = text.split_at_checked(end).ok_or("")?;
        let argument = rest.strip_prefix(':');
        let domain = || argument.ok_or_else(String::new).and_then(Template::domain);
        match name.to_ascii_lowercase().as_str() {
            "all" if rest.is_empty() => Ok(Self::All),
            "include" => Ok(Self::Include(domain()?)),
            "exists" => Ok(Self::Exists(domain()?)),
            "ptr" if rest.is_empty() => Ok(Self::Ptr(None)),
            "ptr" => Ok(Self::Ptr(Some(domain()?))),
            "a" => target(rest).map(|(target, prefixes)| Self::A(target, prefixes)),
            "mx" => target(rest).map(|(target, prefixes)| Self::Mx(target, prefixes)),
            "ip4" => {
                let (network, prefix) = network(argument.ok_or("")?, 32)?;
                Ok(Self::Ip4(network.parse().map_err(|_| String::new())?, prefix))
            }
            "ip6" => {
                let (network, prefix) = network(argument.ok_or("")?, 128)?;
                Ok(Self::Ip6(network.parse().map_err(|_| String::new())?, prefix))
            }
            _ => Err(String::new()),
        }
    }
}

fn network(text: &str, longest: u8) -> Result<(&str, u8), String> {
    match text.rsplit_once('/') {
        None => Ok((text, longest)),
        Some((network, digits)) => Ok((network, prefix(digits, longest)?)),
    }
}

/// Parses `[":" domain-spec] ["/" ip4-length] ["//" ip6-length]`. The name may contain slashes, so
/// the lengths are read from the end.
fn target(text: &str) -> Result<(Option<Template>, Prefixes), String> {
    let mut prefixes = Prefixes { ip4: 32, ip6: 128 };
    let mut rest = text;
    if let Some((before, digits)) = length(rest)
        && let Some(before) = before.strip_suffix('/')
    {
        prefixes.ip6 = prefix(digits, 128)?;
        rest = before;
    }
    if let Some((before, digits)) = length(rest) {
        prefixes.ip4 = prefix(digits, 32)?;
        rest = before;
    }
    match rest.strip_prefix(':') {
        Some(domain) => Ok((Some(Template::domain(domain)?), prefixes)),
        None if rest.is_empty() => Ok((None, prefixes)),
        None => Err(String::new()),
    }
}

/// Splits at the last slash if only digits follow, or nothing.
fn length(text: &str) -> Option<(&str, &str)> {
    text.rsplit_once('/').filter(|(_, digits)| digits.bytes().all(|b| b.is_ascii_digit()))
}

/// Parses a number of bits without leading zeros (§12).
fn prefix(digits: &str, longest: u8) -> Result<u8, String> {
    let is_plain = digits == "0" || !digits.starts_with(['0', '+']);
    let bits = digits.parse().ok().filter(|bits| is_plain && *bits <= longest);
    bits.ok_or_else(|| format!("/{digits} is not a prefix length from 0 to {longest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_record_and_what_is_not() {
        for (text, expected) in [
            ("v=spf1", true),
            ("V=SPF1 -all", true),
            ("v=spf10", false),
            ("v=spf1\t-all", false),
            (" v=spf1", false),
            ("v=spf", false),
        ] {
            assert_eq!(is_spf(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn one_mistake_anywhere_is_enough() {
        let of = |terms: &str| Record::read(format!("v=spf1{terms}").as_bytes());
        for terms in
            GOOD.split(';').map(|terms| format!(" {terms}")).chain(["".into(), "  ".into()])
        {
            assert_eq!(of(&terms).err(), None, "{terms}");
        }
        for terms in BAD.split(';') {
            assert!(of(&format!(" {terms}")).is_err(), "{terms}");
        }
    }

    const GOOD: &str = "\
         a;A;+a;a/0;a//0;a/24//64;a:b.example/24;mx:b.example;a:x/y.example;a:%{d}/24;ptr;\
         ptr:b.example;ip4:192.0.2.1;ip4:0.0.0.0/0;ip6:2001:db8::/32;ip6:::ffff:192.0.2.1;\
         exists:%{i}.b.example;?all -all;include:b.example;redirect=b.example;\
         exp=b.example all;x-y_z.1=a:b/c;x=";
    const BAD: &str = "\
         moo;all.;all:x;all/8;a:;a/;a/33;a/032;a/+1;a//129;a/24/64;a/8//;a///8;ip4;ip4:;\
         ip4:1.2.3;ip4:1.2.3.4/33;ip4:1.2.3.4/032;ip4:1.2.3.4//32;ip4:01.2.3.4;\
         ip4:1.2.3.4:25;ip6;ip6:::1/129;ip6:::1//8;ip6::x;ptr/0;ptr:;include;include:;\
         include:b.example/24;exists;exists:b.example/8;redirect:b.example;redirect=;\
         redirect=-all;exp=;=all;redirect=a.example redirect=a.example;\
         exp=a.example exp=a.example;1up=foo;x=%y;a.b/c=d;--all;-all\r;\u{e4}=1;-all\t;a\0";
}
