//! Parses framed command lines (RFC 5321 §4.1.1).

use super::notice::Notice;
use super::parameters::MailParameters;
use crate::domain::path::{self, PathFault, PathKind};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// EHLO (`esmtp`) or HELO, with its argument.
    Hello {
        name: String,
        esmtp: bool,
    },
    StartTls,
    Mail {
        path: String,
        parameters: MailParameters,
    },
    Recipient {
        path: String,
    },
    Data,
    Reset,
    Noop,
    Quit,
    Verify,
    /// The notice is the help on the topic.
    Help(Notice),
}

impl Command {
    /// Whether a session of such commands alone would never come to a message.
    pub const fn is_idle(&self) -> bool {
        match self {
            Self::Hello { .. } | Self::Reset | Self::Noop | Self::Verify | Self::Help(_) => true,
            Self::StartTls | Self::Mail { .. } | Self::Recipient { .. } => false,
            Self::Data | Self::Quit => false,
        }
    }
}

/// Why a line is no command: the reply, and the part of the line it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    pub notice: Notice,
    /// A piece of the client's line, a few dozen characters at most. The reply makes it printable.
    pub about: Option<String>,
}

impl From<Notice> for Rejected {
    fn from(notice: Notice) -> Self {
        Self { notice, about: None }
    }
}

/// Parses one line without its CRLF. With `smtputf8` (the open transaction began with SMTPUTF8),
/// recipients may be outside ASCII (RFC 6531 §3.4).
pub fn parse(line: &[u8], smtputf8: bool) -> Result<Command, Rejected> {
    // RFC 5321 §4.1.1: tolerate trailing white space.
    let line = line.trim_ascii_end();
    let end = line.iter().position(|b| *b == b' ').unwrap_or(line.len());
    let (verb, rest) = line.split_at_checked(end).unwrap_or((line, b""));
    let argument = trim_spaces(rest);
    match verb.to_ascii_uppercase().as_slice() {
        b"EHLO" => hello(argument, true),
        b"HELO" => hello(argument, false),
        b"STARTTLS" => alone(argument, Command::StartTls),
        b"MAIL" => mail(argument),
        b"RCPT" => recipient(argument, smtputf8),
        b"DATA" => alone(argument, Command::Data),
        b"RSET" => alone(argument, Command::Reset),
        b"QUIT" => alone(argument, Command::Quit),
        b"NOOP" => Ok(Command::Noop),
        b"HELP" => Ok(Command::Help(help(argument))),
        b"VRFY" if argument.is_empty() => Err(Notice::MissingArgument.into()),
        b"VRFY" => Ok(Command::Verify),
        // Known but not offered: EXPN (RFC 5321 §7.3), other ways to send, to turn round, to log
        // in.
        b"EXPN" | b"BDAT" | b"BURL" | b"AUTH" | b"ETRN" | b"ATRN" | b"TURN" | b"SEND" | b"SOML"
        | b"SAML" => Err(Notice::NotOffered.into()),
        // A browser tricked into speaking to us, with a message in the request's body. PROXY: a
        // client that pretends to be another, or a proxy that is not trusted.
        b"GET" | b"POST" | b"PUT" | b"HEAD" | b"OPTIONS" | b"CONNECT" | b"PROXY" => {
            Err(Notice::NotSmtp.into())
        }
        _ => Err(Notice::UnknownCommand.into()),
    }
}

fn alone(argument: &[u8], command: Command) -> Result<Command, Rejected> {
    if argument.is_empty() { Ok(command) } else { Err(Notice::SurplusArgument.into()) }
}

/// Accepts any printable name: the name proves nothing, and many clients get it wrong (RFC 5321
/// §4.1.4 forbids refusing mail for that).
fn hello(argument: &[u8], esmtp: bool) -> Result<Command, Rejected> {
    let name = str::from_utf8(argument).unwrap_or_default();
    if name.is_empty() || !name.bytes().all(|b| matches!(b, b' '..=b'~')) {
        return Err(Notice::HelloSyntax.into());
    }
    Ok(Command::Hello { name: name.to_owned(), esmtp })
}

fn mail(argument: &[u8]) -> Result<Command, Rejected> {
    let text = after_keyword(argument, b"FROM:").ok_or(Notice::MailSyntax)?;
    let (path, rest) = path::split(text).ok_or(Notice::SenderAddress)?;
    let parameters = MailParameters::parse(rest)?;
    let path = path::parse(path, PathKind::Reverse, parameters.smtputf8);
    let path = path.map_err(|fault| match fault {
        PathFault::Syntax => Notice::SenderAddress,
        PathFault::TooLong => Notice::SenderTooLong,
        PathFault::EightBit => Notice::EightBitAddress,
    })?;
    Ok(Command::Mail { path, parameters })
}

/// Takes no parameters: no extension with a parameter of RCPT is offered.
fn recipient(argument: &[u8], smtputf8: bool) -> Result<Command, Rejected> {
    let text = after_keyword(argument, b"TO:").ok_or(Notice::RecipientSyntax)?;
    let (path, rest) = path::split(text).ok_or(Notice::RecipientAddress)?;
    MailParameters::none(rest)?;
    let path = path::parse(path, PathKind::Forward, smtputf8).map_err(|fault| match fault {
        PathFault::Syntax => Notice::RecipientAddress,
        PathFault::TooLong => Notice::RecipientTooLong,
        PathFault::EightBit => Notice::EightBitAddress,
    })?;
    Ok(Command::Recipient { path })
}

/// Help on the topic; the overview for no topic or an unknown one.
fn help(topic: &[u8]) -> Notice {
    match topic.to_ascii_uppercase().as_slice() {
        b"MAIL" => Notice::HelpMail,
        b"RCPT" => Notice::HelpRecipient,
        b"DATA" => Notice::HelpData,
        _ => Notice::Help,
    }
}

/// Tolerates spaces after the keyword: `FROM: <…>` is wrong, but common.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn verbs_have_no_case_and_arguments_keep_theirs() {
        let expected = Command::Recipient { path: "UsEr@Example.Com".into() };
        assert_eq!(parse(b"rCpT tO: <UsEr@Example.Com>  ", false), Ok(expected));
        let hello = Command::Hello { name: "[IPv6:2001:db8::1]".into(), esmtp: true };
        assert_eq!(parse(b"ehlo [IPv6:2001:db8::1]", false), Ok(hello));
        let hello = Command::Hello { name: "my_host (at home)".into(), esmtp: false };
        assert_eq!(parse(b"HELO   my_host (at home) ", false), Ok(hello));
    }

    #[test]
    fn international_paths_need_smtputf8() {
        let eight_bit = Err(Notice::EightBitAddress.into());
        assert_eq!(parse("RCPT TO:<ö@b.example>".as_bytes(), false), eight_bit);
        assert_eq!(parse(b"RCPT TO:<\xff@b.example>", false), eight_bit);
        assert_eq!(parse("MAIL FROM:<ö@b.example>".as_bytes(), true), eight_bit);
        let path = "ö@b.example".to_owned();
        assert_eq!(
            parse("RCPT TO:<ö@b.example>".as_bytes(), true),
            Ok(Command::Recipient { path: path.clone() })
        );
        let parameters = MailParameters { smtputf8: true, ..MailParameters::default() };
        assert_eq!(
            parse("MAIL FROM:<ö@b.example> SmtpUtf8".as_bytes(), false),
            Ok(Command::Mail { path, parameters })
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn any_octets_are_a_command_or_a_notice(
            verb in prop::sample::select(vec!["", "EHLO ", "MAIL FROM:", "RCPT TO:", "MAIL FROM:<"]),
            rest in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let line = [verb.as_bytes(), &rest].concat();
            if let Ok(Command::Mail { path, .. } | Command::Recipient { path }) = parse(&line, false) {
                prop_assert!(path.bytes().all(|b| (b' '..=b'~').contains(&b)));
            }
            if let Ok(Command::Mail { path, .. } | Command::Recipient { path }) = parse(&line, true) {
                prop_assert!(!path.chars().any(char::is_control));
            }
        }
    }
}
