//! The paths of MAIL and RCPT (RFC 5321 §4.1.2): found, checked, and returned as sent.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Longest path in bytes, with its angle brackets (RFC 5321 §4.5.3.1.3).
const MAX_PATH: usize = 256;

/// Longest domain in bytes (RFC 5321 §4.5.3.1.2).
const MAX_DOMAIN: usize = 255;

/// Longest local part of a recipient in bytes (RFC 5321 §4.5.3.1.1); ours are no longer. Senders
/// may exceed it, where forwarders or lists put another address into theirs: RFC 5321 §4.5.3.1
/// advises against limits, and the path has its own.
const MAX_LOCAL: usize = 64;

/// Why a path is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathFault {
    /// Not `<local@domain>`.
    Syntax,
    /// Longer than RFC 5321 §4.5.3.1 allows.
    TooLong,
    /// Contains bytes outside ASCII without SMTPUTF8 (RFC 6531 §3.1).
    EightBit,
}

/// The command of the path: MAIL and RCPT allow different exceptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// MAIL: may be empty, `<>` (RFC 5321 §4.5.5).
    Reverse,
    /// RCPT: may be `<postmaster>` (RFC 5321 §4.5.1).
    Forward,
}

/// Finds `<path>` at the start of `text`. Returns its content and the rest, which is empty or
/// begins with a space. Returns None if there is no path.
pub fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (path, rest) = split_at_bracket(text.strip_prefix(b"<")?)?;
    (rest.is_empty() || rest.starts_with(b" ")).then_some((path, rest))
}

/// Checks a path without its angle brackets and returns it as sent, without its source route.
/// `smtputf8` allows UTF-8.
pub fn parse(path: &[u8], kind: PathKind, smtputf8: bool) -> Result<String, PathFault> {
    if !smtputf8 && !path.is_ascii() {
        return Err(PathFault::EightBit);
    }
    let path = str::from_utf8(path).map_err(|_| PathFault::Syntax)?;
    if path.chars().any(char::is_control) {
        return Err(PathFault::Syntax);
    }
    let mailbox = without_route(path).ok_or(PathFault::Syntax)?;
    let fits = match kind {
        PathKind::Reverse => path.is_empty() || is_mailbox(mailbox),
        PathKind::Forward => is_mailbox(mailbox) || path.eq_ignore_ascii_case("postmaster"),
    };
    if !fits {
        return Err(PathFault::Syntax);
    }
    let (local, domain) = mailbox.rsplit_once('@').unwrap_or((mailbox, ""));
    let local_fits = kind == PathKind::Reverse || local.len() <= MAX_LOCAL;
    if path.len() + 2 > MAX_PATH || domain.len() > MAX_DOMAIN || !local_fits {
        return Err(PathFault::TooLong);
    }
    Ok(mailbox.to_owned())
}

/// Returns an invalid path for a record: cut to the length of a path, controls escaped.
pub fn shown(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars() {
        let before = shown.len();
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
        if shown.len() + 2 > MAX_PATH {
            shown.truncate(before);
            break;
        }
    }
    shown
}

/// Splits at the first `>` that is not inside quotes.
fn split_at_bracket(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, octet) in text.iter().enumerate() {
        match octet {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'>' if !quoted => return Some((text.get(..at)?, text.get(at + 1..)?)),
            _ => {}
        }
    }
    None
}

/// Strips `@a,@b:`, which a server must accept and should ignore (RFC 5321 §4.1.1.3, appendix C).
fn without_route(path: &str) -> Option<&str> {
    if !path.starts_with('@') {
        return Some(path);
    }
    let (route, mailbox) = path.split_once(':')?;
    let hops_are_domains = route.split(',').all(|hop| hop.strip_prefix('@').is_some_and(is_domain));
    hops_are_domains.then_some(mailbox)
}

/// Exactly one `@` outside quotes, with a local part before it and a domain or literal after it.
fn is_mailbox(text: &str) -> bool {
    text.rsplit_once('@').is_some_and(|(local, domain)| {
        (is_domain(domain) || is_literal(domain)) && (is_quoted(local) || is_unquoted(local))
    })
}

/// Lenient: no sender is refused for an underscore, and a recipient under an invalid name is not
/// found anyway.
fn is_domain(text: &str) -> bool {
    is_unquoted(text)
}

/// An address literal (RFC 5321 §4.1.3). Only these two kinds were ever registered.
fn is_literal(text: &str) -> bool {
    let Some(inside) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
        return false;
    };
    match inside.split_at_checked(5) {
        Some((tag, v6)) if tag.eq_ignore_ascii_case("IPv6:") => v6.parse::<Ipv6Addr>().is_ok(),
        _ => inside.parse::<Ipv4Addr>().is_ok(),
    }
}

/// Lenient about dots: some providers assign addresses such as `a..b@`.
fn is_unquoted(local: &str) -> bool {
    !local.is_empty() && local.chars().all(|c| !c.is_whitespace() && !"<>()[]@,;:\\\"".contains(c))
}

/// Exactly one quoted string.
fn is_quoted(local: &str) -> bool {
    let Some(inside) = local.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return false;
    };
    let mut escaped = false;
    for c in inside.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return false,
            _ => {}
        }
    }
    !escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str, kind: PathKind) -> Result<String, PathFault> {
        let (path, rest) = split(text.as_bytes()).ok_or(PathFault::Syntax)?;
        assert_eq!(rest, b"");
        parse(path, kind, false)
    }

    fn reverse(text: &str) -> Result<String, PathFault> {
        path(text, PathKind::Reverse)
    }

    fn forward(text: &str) -> Result<String, PathFault> {
        path(text, PathKind::Forward)
    }

    #[test]
    fn paths_are_handed_on_as_sent() {
        for path in [
            "User+Tag@Example.COM",
            "\"a b\"@c.example",
            "\"a@b\"@c.example",
            "\"x> SIZE=1 \"@c.example",
            "\"a\\\"b\"@c.example",
            "user@[192.0.2.1]",
            "user@[IPv6:2001:db8::1]",
            "user%other@c.example",
            "a..b@c.example",
        ] {
            assert_eq!(reverse(&format!("<{path}>")).as_deref(), Ok(path));
            assert_eq!(forward(&format!("<{path}>")).as_deref(), Ok(path));
        }
        assert_eq!(forward("<@a.example,@b.example:user@c.example>").unwrap(), "user@c.example");
        assert_eq!(reverse("<>").unwrap(), "");
        assert_eq!(forward("<PostMaster>").unwrap(), "PostMaster");
        assert_eq!(split(b"<a@b> SIZE=1"), Some((&b"a@b"[..], &b" SIZE=1"[..])));
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in [
            "a@b",
            "<a@b",
            "<a@b>SIZE=1",
            "<a@b>>",
            "<<a@b>>",
            "<a@b@c>",
            "<@b>",
            "<a@>",
            "<a b@c>",
            "<a@b c>",
            "<\"a\"b@c>",
            "<\"a\"b\"@c>",
            "<\"a\\\"@c>",
            "<a,b@c>",
            "<a\tb@c>",
            "<@a user@c>",
            "<@a,b:user@c>",
            "<@a:>",
            "<user>",
            "<user@[192.0.2.256]>",
            "<user@[IPv6:2001:db8::1::]>",
            "<user@[x400:c=de]>",
            "<user@[]>",
            "<user@b]>",
            "<user@[192.0.2.1>",
        ] {
            assert_eq!(reverse(text), Err(PathFault::Syntax), "{text}");
            assert_eq!(forward(text), Err(PathFault::Syntax), "{text}");
        }
        assert_eq!(forward("<>"), Err(PathFault::Syntax));
        assert_eq!(reverse("<postmaster>"), Err(PathFault::Syntax));
    }

    #[test]
    fn lengths_are_those_of_the_rfc() {
        let local = |octets: usize| format!("<{}@b.example>", "a".repeat(octets));
        assert!(forward(&local(64)).is_ok());
        assert_eq!(forward(&local(65)), Err(PathFault::TooLong));
        let path = |octets: usize| format!("<a@{}>", "b".repeat(octets - 4));
        for (parse, octets) in [(forward as fn(&str) -> _, 256), (reverse, 256)] {
            assert!(parse(&path(octets)).is_ok());
            assert_eq!(parse(&path(octets + 1)), Err(PathFault::TooLong));
        }
        // A mailing list has put the subscriber's address into its own.
        assert!(reverse(&local(200)).is_ok());
        assert_eq!(reverse(&local(245)), Err(PathFault::TooLong));
    }

    #[test]
    fn what_is_no_path_is_shown_within_bounds_and_on_one_line() {
        assert_eq!(shown("a@b.example"), "a@b.example");
        assert_eq!(shown("a\r\nX: \0é@b"), "a\\r\\nX: \\u{0}é@b");
        for long in ["a".repeat(1000), "é".repeat(1000), "\n".repeat(1000)] {
            let shown = shown(&long);
            assert!((250..=254).contains(&shown.len()), "{}", shown.len());
        }
    }

    #[test]
    fn eight_bit_needs_an_agreement() {
        assert_eq!(reverse("<ö@b.example>"), Err(PathFault::EightBit));
        assert_eq!(reverse("<a@ö.example>"), Err(PathFault::EightBit));
        let path = parse("ö@b.example".as_bytes(), PathKind::Reverse, true);
        assert_eq!(path.as_deref(), Ok("ö@b.example"));
        assert_eq!(parse(b"\xff@b", PathKind::Reverse, true), Err(PathFault::Syntax));
        assert_eq!(parse(b"\xff@b", PathKind::Reverse, false), Err(PathFault::EightBit));
        assert_eq!(parse(b"a\xc2\x85@b", PathKind::Reverse, true), Err(PathFault::Syntax));
    }
}
