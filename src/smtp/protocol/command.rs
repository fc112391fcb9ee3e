//! Command lines, framed already, to commands (RFC 5321 §4.1.1).

use super::notice::Notice;
use super::path::{self, PathFault, PathKind};

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// EHLO (`esmtp`) or HELO with its argument.
    Hello {
        name: String,
        esmtp: bool,
    },
    /// `size` is what SIZE= declares, octets; 0 when nothing is declared (RFC 1870 §5).
    Mail {
        path: String,
        size: u64,
    },
    Recipient {
        path: String,
    },
    Data,
    Reset,
    Noop,
    Quit,
    Verify,
    Help,
    StartTls,
}

/// Parses one line without its CRLF; the notice is the reply to a line that is no command.
pub fn parse(line: &[u8]) -> Result<Command, Notice> {
    // RFC 5321 §4.1.1: trailing white space is to be tolerated.
    let line = line.trim_ascii_end();
    let end = line.iter().position(|b| *b == b' ').unwrap_or(line.len());
    let (verb, rest) = line.split_at_checked(end).unwrap_or((line, b""));
    let argument = trim_spaces(rest);
    match verb.to_ascii_uppercase().as_slice() {
        b"EHLO" => hello(argument, true),
        b"HELO" => hello(argument, false),
        b"MAIL" => mail(argument),
        b"RCPT" => recipient(argument),
        b"DATA" => alone(argument, Command::Data),
        b"RSET" => alone(argument, Command::Reset),
        b"QUIT" => alone(argument, Command::Quit),
        b"STARTTLS" => alone(argument, Command::StartTls),
        b"NOOP" => Ok(Command::Noop),
        b"HELP" => Ok(Command::Help),
        b"VRFY" if argument.is_empty() => Err(Notice::MissingArgument),
        b"VRFY" => Ok(Command::Verify),
        b"EXPN" | b"BDAT" | b"AUTH" => Err(Notice::NotOffered),
        // A browser that was made to speak to us, with a message in the request's body.
        b"GET" | b"POST" | b"PUT" | b"HEAD" | b"OPTIONS" | b"CONNECT" => Err(Notice::NotSmtp),
        // A client that would like to be taken for another one, or a proxy that is not trusted.
        b"PROXY" => Err(Notice::NotSmtp),
        _ => Err(Notice::UnknownCommand),
    }
}

fn alone(argument: &[u8], command: Command) -> Result<Command, Notice> {
    if argument.is_empty() { Ok(command) } else { Err(Notice::SurplusArgument) }
}

/// Any one word of printable ASCII: what a host calls itself proves nothing, and many are wrong
/// about it (RFC 5321 §4.1.4 forbids to refuse mail for that).
fn hello(argument: &[u8], esmtp: bool) -> Result<Command, Notice> {
    let name = str::from_utf8(argument).unwrap_or_default();
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(Notice::HelloSyntax);
    }
    Ok(Command::Hello { name: name.to_owned(), esmtp })
}

fn mail(argument: &[u8]) -> Result<Command, Notice> {
    let text = after_keyword(argument, b"FROM:").ok_or(Notice::MailSyntax)?;
    let (path, rest) = address(text, PathKind::Reverse)?;
    let (mut size, mut body) = (None, None);
    for parameter in parameters(rest) {
        let (key, value) = split_parameter(parameter);
        let seen_before = match key.to_ascii_uppercase().as_slice() {
            b"SIZE" => size.replace(declared_size(value)?).is_some(),
            b"BODY" => body.replace(known_body(value)?).is_some(),
            _ => return Err(Notice::UnknownParameter),
        };
        if seen_before {
            return Err(Notice::ParameterValue);
        }
    }
    Ok(Command::Mail { path, size: size.unwrap_or(0) })
}

fn recipient(argument: &[u8]) -> Result<Command, Notice> {
    let text = after_keyword(argument, b"TO:").ok_or(Notice::RecipientSyntax)?;
    let (path, rest) = address(text, PathKind::Forward)?;
    match parameters(rest).next() {
        None => Ok(Command::Recipient { path }),
        Some(_) => Err(Notice::UnknownParameter),
    }
}

fn address(text: &[u8], kind: PathKind) -> Result<(String, &[u8]), Notice> {
    path::parse(text, kind, false).map_err(|fault| match fault {
        PathFault::Syntax => Notice::AddressSyntax,
        PathFault::EightBit => Notice::EightBitAddress,
    })
}

/// `FROM: <…>` with a space is wrong and common.
fn after_keyword<'a>(argument: &'a [u8], keyword: &[u8]) -> Option<&'a [u8]> {
    let (head, rest) = argument.split_at_checked(keyword.len())?;
    head.eq_ignore_ascii_case(keyword).then(|| trim_spaces(rest))
}

fn trim_spaces(mut text: &[u8]) -> &[u8] {
    while let Some(rest) = text.strip_prefix(b" ") {
        text = rest;
    }
    text
}

fn parameters(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|b| *b == b' ').filter(|parameter| !parameter.is_empty())
}

fn split_parameter(parameter: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut halves = parameter.splitn(2, |b| *b == b'=');
    (halves.next().unwrap_or_default(), halves.next())
}

/// Digits only. A number beyond 64 bits stays the largest instead of wrapping to a small one.
fn declared_size(value: Option<&[u8]>) -> Result<u64, Notice> {
    let digits = value.filter(|v| !v.is_empty()).ok_or(Notice::ParameterValue)?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(Notice::ParameterValue);
    }
    let step = |sum: u64, digit: &u8| {
        sum.saturating_mul(10).saturating_add(u64::from(digit.saturating_sub(b'0')))
    };
    Ok(digits.iter().fold(0, step))
}

/// Both bodies are taken as they come (RFC 6152); BINARYMIME is not offered.
fn known_body(value: Option<&[u8]>) -> Result<(), Notice> {
    let value = value.unwrap_or_default();
    if value.eq_ignore_ascii_case(b"7BIT") || value.eq_ignore_ascii_case(b"8BITMIME") {
        Ok(())
    } else {
        Err(Notice::ParameterValue)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn size_of(line: &str) -> Result<u64, Notice> {
        match parse(line.as_bytes())? {
            Command::Mail { size, .. } => Ok(size),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn sizes_do_not_wrap() {
        assert_eq!(size_of("MAIL FROM:<> SIZE=1000"), Ok(1000));
        assert_eq!(size_of("MAIL FROM:<> SIZE=0"), Ok(0));
        assert_eq!(size_of("MAIL FROM:<> SIZE=18446744073709551615"), Ok(u64::MAX));
        for digits in 20..40 {
            assert_eq!(size_of(&format!("MAIL FROM:<> SIZE={}", "9".repeat(digits))), Ok(u64::MAX));
        }
        for value in ["", "-1", "+1", "1e3", "0x10", "1 1", "١"] {
            let answer = size_of(&format!("MAIL FROM:<> SIZE={value}"));
            assert!(answer.is_err(), "{value}: {answer:?}");
        }
        assert_eq!(size_of("MAIL FROM:<> SIZE"), Err(Notice::ParameterValue));
    }

    #[test]
    fn verbs_have_no_case_and_arguments_keep_theirs() {
        let expected = Command::Recipient { path: "UsEr@Example.Com".into() };
        assert_eq!(parse(b"rCpT tO: <UsEr@Example.Com>  "), Ok(expected));
        let hello = Command::Hello { name: "[IPv6:2001:db8::1]".into(), esmtp: true };
        assert_eq!(parse(b"ehlo [IPv6:2001:db8::1]"), Ok(hello));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn any_octets_are_a_command_or_a_notice(
            verb in prop::sample::select(vec!["", "EHLO ", "MAIL FROM:", "RCPT TO:", "MAIL FROM:<"]),
            rest in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let line = [verb.as_bytes(), &rest].concat();
            if let Ok(Command::Mail { path, .. } | Command::Recipient { path }) = parse(&line) {
                prop_assert!(path.bytes().all(|b| (b' '..=b'~').contains(&b)));
            }
        }
    }
}
