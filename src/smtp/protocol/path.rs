//! The paths of MAIL and RCPT (RFC 5321 §4.1.2): found, checked for shape, handed on as sent.

/// What is wrong with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathFault {
    /// It is not `<local@domain>`.
    Syntax,
    /// It has octets outside ASCII, and nobody agreed on SMTPUTF8 (RFC 6531 §3.1).
    EightBit,
}

/// Which path it is: they differ in what may stand for a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// MAIL: may be empty, `<>` (RFC 5321 §4.5.5).
    Reverse,
    /// RCPT: may be `<postmaster>` (RFC 5321 §4.5.1).
    Forward,
}

/// Parses `<path>` at the start of `text`. Answers the path as sent, without angle brackets and
/// without a source route, and the text behind it. `eight_bit` says whether UTF-8 is allowed.
pub fn parse(text: &[u8], kind: PathKind, eight_bit: bool) -> Result<(String, &[u8]), PathFault> {
    let inside = text.strip_prefix(b"<").ok_or(PathFault::Syntax)?;
    let (path, rest) = split_at_bracket(inside).ok_or(PathFault::Syntax)?;
    if !rest.is_empty() && !rest.starts_with(b" ") {
        return Err(PathFault::Syntax);
    }
    if !eight_bit && !path.is_ascii() {
        return Err(PathFault::EightBit);
    }
    let path = std::str::from_utf8(path).map_err(|_| PathFault::Syntax)?;
    if path.chars().any(char::is_control) {
        return Err(PathFault::Syntax);
    }
    let mailbox = without_route(path).ok_or(PathFault::Syntax)?;
    let fits = match kind {
        PathKind::Reverse => path.is_empty() || is_mailbox(mailbox),
        PathKind::Forward => is_mailbox(mailbox) || path.eq_ignore_ascii_case("postmaster"),
    };
    if fits { Ok((mailbox.to_owned(), rest)) } else { Err(PathFault::Syntax) }
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
    let hops_are_domains =
        route.split(',').all(|hop| hop.strip_prefix('@').is_some_and(is_domain_like));
    hops_are_domains.then_some(mailbox)
}

/// Exactly one `@` outside quotes, a local part in front of it, a domain or literal behind it.
fn is_mailbox(text: &str) -> bool {
    text.rsplit_once('@').is_some_and(|(local, domain)| {
        is_domain_like(domain) && (is_quoted(local) || is_unquoted(local))
    })
}

fn is_domain_like(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| !c.is_whitespace() && !"<>()@,;\\\"".contains(c))
}

/// Lenient about dots: some providers give out addresses such as `a..b@`.
fn is_unquoted(local: &str) -> bool {
    !local.is_empty() && local.chars().all(|c| !c.is_whitespace() && !"<>()[]@,;:\\\"".contains(c))
}

/// One quoted string and nothing beside it.
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

    fn reverse(text: &str) -> Result<String, PathFault> {
        parse(text.as_bytes(), PathKind::Reverse, false).map(|(path, _)| path)
    }

    fn forward(text: &str) -> Result<String, PathFault> {
        parse(text.as_bytes(), PathKind::Forward, false).map(|(path, _)| path)
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
        let (_, rest) = parse(b"<a@b> SIZE=1", PathKind::Reverse, false).unwrap();
        assert_eq!(rest, b" SIZE=1");
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
        ] {
            assert_eq!(reverse(text), Err(PathFault::Syntax), "{text}");
            assert_eq!(forward(text), Err(PathFault::Syntax), "{text}");
        }
        assert_eq!(forward("<>"), Err(PathFault::Syntax));
        assert_eq!(reverse("<postmaster>"), Err(PathFault::Syntax));
    }

    #[test]
    fn eight_bit_needs_an_agreement() {
        assert_eq!(reverse("<ö@b.example>"), Err(PathFault::EightBit));
        let (path, _) = parse("<ö@b.example>".as_bytes(), PathKind::Reverse, true).unwrap();
        assert_eq!(path, "ö@b.example");
        assert_eq!(parse(b"<\xff@b>", PathKind::Reverse, true), Err(PathFault::Syntax));
    }
}
