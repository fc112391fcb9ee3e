//! Replies, and the one table from reasons to what the client is told (contract §2, Replies).

use std::io::Write as _;

use crate::domain::id::IntakeId;
use crate::domain::ports::Answer;
use crate::domain::reason::Reason;

use super::notice::Notice;

/// A reply line, with its code and CRLF (RFC 5321 §4.5.3.1.5).
const MAX_LINE: usize = 512;

/// A repeat of what is there, which makes nothing new (contract §2.6).
pub(super) const AGAIN: &str = "accepted before";

/// Octets of foreign detail in one reply: a few lines, whatever the other side wrote.
const MAX_DETAIL: usize = 1000;

/// The SMTP code, the enhanced status code, and the words for the sending side. This is the whole
/// table; `malformed` found on the wire has notices of its own (550 5.5.2 and close).
pub const fn for_reason(reason: Reason) -> (u16, &'static str, &'static str) {
    match reason {
        Reason::UnknownRecipient => (550, "5.1.1", "no such recipient here"),
        Reason::InactiveRecipient => (550, "5.2.1", "the recipient is not active"),
        Reason::OneAgentPerTransaction => {
            (452, "4.5.3", "send this recipient in another transaction")
        }
        Reason::SenderInvalid => (
            550,
            "5.6.0",
            "the message needs exactly one From field with exactly one mailbox, and each single \
             field once",
        ),
        Reason::DkimMissing => (550, "5.7.20", "the message has no DKIM signature"),
        Reason::DkimFailed => (550, "5.7.20", "no DKIM signature of the message verifies"),
        Reason::DkimUnacceptable => {
            (550, "5.7.21", "the DKIM signature verifies, but is of a kind that does not count")
        }
        Reason::DkimUnaligned => (
            550,
            "5.7.22",
            "no DKIM signature is of the From domain; if your provider signs with a domain of its \
             own, set up DKIM for yours",
        ),
        Reason::SenderNotAllowed => (550, "5.7.1", "the recipient does not take mail from you"),
        Reason::RelayRefused => (550, "5.7.1", "refused by the recipient's application"),
        Reason::LoopDetected => (554, "5.4.6", "the message goes round in a loop"),
        Reason::TooLarge => (552, "5.3.4", "the message is over the size limit"),
        Reason::Malformed => (554, "5.6.0", "the message breaks the format of internet mail"),
        Reason::DkimNotYetValid => {
            (451, "4.7.5", "by our clock the DKIM signature is not valid yet: try again")
        }
        Reason::DnsUnavailable => (451, "4.4.3", "a DNS lookup failed: try again"),
        Reason::RelayUnavailable => {
            (451, "4.4.1", "the recipient's application is not available: try again")
        }
        Reason::RateLimited => (450, "4.2.1", "too much mail in a short time: try again later"),
        Reason::StoreUnavailable => (451, "4.3.0", "the message could not be stored: try again"),
        Reason::NoSpace => (452, "4.3.1", "short of space: try again"),
        Reason::TooBusy => (421, "4.3.2", "too busy: try again"),
    }
}

/// One reply, on one line or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    code: u16,
    enhanced: &'static str,
    /// Printable ASCII; never empty.
    texts: Vec<String>,
    closes: bool,
    label: &'static str,
    record: Option<IntakeId>,
}

impl Reply {
    /// The greeting: the host and nothing about the software behind it (RFC 5321 §4.3.1).
    pub fn greeting(hostname: &str) -> Self {
        Self::plain(220, vec![printable(&format!("{hostname} ESMTP"))], "greeting")
    }

    /// The answer to HELO or EHLO: the host, then one line for each extension (RFC 5321 §4.1.1.1).
    pub fn hello(hostname: &str, keywords: &[String]) -> Self {
        let mut texts = vec![printable(hostname)];
        texts.extend(keywords.iter().map(|keyword| printable(keyword)));
        Self::plain(250, texts, "hello")
    }

    /// A notice.
    pub fn notice(notice: Notice) -> Self {
        Self::said(notice, None, None)
    }

    /// A notice and what it is about: a piece of what the client sent.
    pub fn about(notice: Notice, about: &str) -> Self {
        Self::said(notice, Some(about), None)
    }

    /// A notice that has left a record.
    pub fn recorded(notice: Notice, record: Option<IntakeId>) -> Self {
        Self::said(notice, None, record)
    }

    /// A reason, with what exactly was wrong and the record that it left.
    pub fn reason(reason: Reason, detail: Option<&str>, record: Option<IntakeId>) -> Self {
        let (code, enhanced, words) = for_reason(reason);
        let texts = folded(&sentence(words, detail, record), enhanced);
        Self { code, enhanced, texts, closes: code == 421, label: reason.as_str(), record }
    }

    /// The answer to a message.
    pub fn answer(answer: &Answer) -> Self {
        let detail = answer.detail.as_deref();
        match answer.reason {
            Some(reason) => Self::reason(reason, detail, answer.record),
            None => {
                let words = if answer.again { AGAIN } else { "accepted" };
                Self {
                    code: 250,
                    enhanced: "2.0.0",
                    texts: folded(&sentence(words, detail, answer.record), "2.0.0"),
                    closes: false,
                    label: "accepted",
                    record: answer.record,
                }
            }
        }
    }

    /// The same reply, and the connection ends with it.
    #[must_use]
    pub fn and_close(self) -> Self {
        Self { closes: true, ..self }
    }

    /// The reply code.
    pub const fn code(&self) -> u16 {
        self.code
    }

    /// Whether the connection ends with this reply.
    pub const fn closes(&self) -> bool {
        self.closes
    }

    /// The reason code or the notice's name: for logs.
    pub const fn label(&self) -> &'static str {
        self.label
    }

    /// The record that the refusal or the message left.
    pub const fn record(&self) -> Option<IntakeId> {
        self.record
    }

    /// Appends the reply as it goes over the wire.
    pub fn write(&self, out: &mut Vec<u8>) {
        let last = self.texts.len().saturating_sub(1);
        for (at, text) in self.texts.iter().enumerate() {
            let mark = if at == last { ' ' } else { '-' };
            let gap = if self.enhanced.is_empty() { "" } else { " " };
            // Writing to a Vec does not fail.
            let _written = write!(out, "{}{mark}{}{gap}{text}\r\n", self.code, self.enhanced);
        }
    }

    fn said(notice: Notice, about: Option<&str>, record: Option<IntakeId>) -> Self {
        let text = sentence(notice.words(), about, record);
        Self {
            code: notice.code(),
            enhanced: notice.enhanced(),
            texts: folded(&text, notice.enhanced()),
            closes: notice.closes(),
            label: notice.label(),
            record,
        }
    }

    fn plain(code: u16, texts: Vec<String>, label: &'static str) -> Self {
        Self { code, enhanced: "", texts, closes: false, label, record: None }
    }
}

fn sentence(words: &str, detail: Option<&str>, record: Option<IntakeId>) -> String {
    let mut text = words.to_owned();
    if let Some(detail) = detail.map(printable).filter(|detail| !detail.is_empty()) {
        text.push_str(": ");
        text.push_str(&detail);
    }
    if let Some(record) = record {
        text.push_str(&format!(" [record {record}]"));
    }
    text
}

/// Printable ASCII only, and not too much of it: a detail may quote what a stranger wrote, and a
/// CRLF in it would be a reply of the stranger's making.
fn printable(text: &str) -> String {
    let shown = |c: char| match c {
        ' '..='~' => c,
        '\t' | '\r' | '\n' => ' ',
        _ => '?',
    };
    text.trim().chars().take(MAX_DETAIL).map(shown).collect()
}

/// Cuts `text` into lines that fit, between words where there are any.
fn folded(text: &str, enhanced: &str) -> Vec<String> {
    // Three digits, a mark, the enhanced code, a space, CRLF.
    let room = MAX_LINE - 3 - 1 - enhanced.len() - 1 - 2;
    if text.len() <= room {
        return vec![text.to_owned()];
    }
    let (mut lines, mut line) = (Vec::new(), String::new());
    for mut word in text.split(' ') {
        if !line.is_empty() && line.len() + 1 + word.len() > room {
            lines.push(std::mem::take(&mut line));
        }
        while let Some((head, rest)) = word.split_at_checked(room).filter(|(_, r)| !r.is_empty()) {
            lines.push(head.to_owned());
            word = rest;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    /// Contract §2, Replies, as it stands there.
    const CONTRACT: &[(&str, &str)] = &[
        ("unknown_recipient", "550 5.1.1"),
        ("inactive_recipient", "550 5.2.1"),
        ("one_agent_per_transaction", "452 4.5.3"),
        ("sender_invalid", "550 5.6.0"),
        ("dkim_missing", "550 5.7.20"),
        ("dkim_failed", "550 5.7.20"),
        ("dkim_unacceptable", "550 5.7.21"),
        ("dkim_unaligned", "550 5.7.22"),
        ("sender_not_allowed", "550 5.7.1"),
        ("relay_refused", "550 5.7.1"),
        ("loop_detected", "554 5.4.6"),
        ("too_large", "552 5.3.4"),
        ("malformed", "554 5.6.0"),
        ("dkim_not_yet_valid", "451 4.7.5"),
        ("dns_unavailable", "451 4.4.3"),
        ("relay_unavailable", "451 4.4.1"),
        ("rate_limited", "450 4.2.1"),
        ("store_unavailable", "451 4.3.0"),
        ("no_space", "452 4.3.1"),
        ("too_busy", "421 4.3.2"),
    ];

    fn wire(reply: &Reply) -> String {
        let mut out = Vec::new();
        reply.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_table_is_the_contracts() {
        let ours: Vec<_> = Reason::ALL
            .iter()
            .map(|reason| {
                let (code, enhanced, _) = for_reason(*reason);
                (reason.as_str(), format!("{code} {enhanced}"))
            })
            .collect();
        let theirs: Vec<_> =
            CONTRACT.iter().map(|(name, codes)| (*name, (*codes).to_owned())).collect();
        assert_eq!(ours, theirs);
        for reason in Reason::ALL {
            let (code, enhanced, _) = for_reason(*reason);
            assert_eq!(code < 500, reason.is_temporary(), "{reason}");
            assert_eq!(enhanced.as_bytes()[0], code.to_string().as_bytes()[0], "{reason}");
            assert_eq!(Reply::reason(*reason, None, None).closes(), code == 421);
        }
    }

    #[test]
    fn notices_agree_with_themselves() {
        for notice in Notice::ALL {
            let (code, enhanced) = (notice.code().to_string(), notice.enhanced());
            assert!(enhanced.is_empty() || enhanced.as_bytes()[0] == code.as_bytes()[0]);
            assert!(notice.words().is_ascii() && notice.words().len() < 400);
        }
    }

    #[test]
    fn a_strangers_words_stay_within_the_reply() {
        let reply = Reply::reason(Reason::SenderInvalid, Some("a\r\n250 fine\0\u{202e}é\n"), None);
        let text = wire(&reply);
        assert_eq!(text.matches("\r\n").count(), 1);
        assert!(text.ends_with(": a  250 fine???\r\n"), "{text}");
    }

    #[test]
    fn long_replies_are_folded_and_every_line_is_a_reply_line() {
        let record = Some(IntakeId(Uuid::nil()));
        for detail in ["word ".repeat(300), "x".repeat(5000), "y".repeat(600) + " z"] {
            let text = wire(&Reply::reason(Reason::DkimFailed, Some(&detail), record));
            let lines: Vec<&str> = text.split_inclusive("\r\n").collect();
            let (last, others) = lines.split_last().unwrap();
            assert!(others.iter().all(|line| line.starts_with("550-5.7.20 ")), "{text}");
            assert!(last.starts_with("550 5.7.20 "), "{text}");
            assert!(lines.iter().all(|line| line.len() <= MAX_LINE), "{text}");
            assert!(text.trim_end().ends_with(&format!("{}]", Uuid::nil())), "{text}");
        }
    }

    #[test]
    fn ehlo_lines_have_no_enhanced_code() {
        let reply = Reply::hello("mx.example", &["PIPELINING".into(), "8BITMIME".into()]);
        assert_eq!(wire(&reply), "250-mx.example\r\n250-PIPELINING\r\n250 8BITMIME\r\n");
        assert_eq!(wire(&Reply::greeting("mx.example")), "220 mx.example ESMTP\r\n");
    }
}
