//! Replies to the client (contract §2, Replies).

use std::io::Write as _;

use crate::domain::id::IntakeId;
use crate::domain::ports::IntakeReply;
use crate::domain::reason::Reason;

use super::notice::Notice;

/// Longest reply line in bytes, with code and CRLF (RFC 5321 §4.5.3.1.5).
const MAX_LINE: usize = 512;

/// Reply to a repeated message, which creates nothing new (contract §2, Repeats).
pub(super) const AGAIN: &str = "accepted before";

/// Characters of foreign detail in one reply: a few lines at most.
const MAX_DETAIL: usize = 1000;

/// One reply, of one or several lines.
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
    /// The greeting: the host name, and nothing about the software (RFC 5321 §4.3.1).
    pub fn greeting(hostname: &str) -> Self {
        Self::plain(220, vec![printable(&format!("{hostname} ESMTP"))], "greeting")
    }

    /// The reply to HELO or EHLO: the host, then one line per extension (RFC 5321 §4.1.1.1).
    pub fn hello(hostname: &str, keywords: &[String]) -> Self {
        let mut texts = vec![printable(hostname)];
        texts.extend(keywords.iter().map(|keyword| printable(keyword)));
        Self::plain(250, texts, "hello")
    }

    pub fn notice(notice: Notice) -> Self {
        Self::said(notice, None, None)
    }

    /// A notice with the piece of the client's line that it is about.
    pub fn about(notice: Notice, about: &str) -> Self {
        Self::said(notice, Some(about), None)
    }

    /// A notice with the record that it left.
    pub fn recorded(notice: Notice, record: Option<IntakeId>) -> Self {
        Self::said(notice, None, record)
    }

    /// A reason with its detail and the record that it left.
    pub fn reason(reason: Reason, detail: Option<&str>, record: Option<IntakeId>) -> Self {
        let (code, enhanced, words) = reason.reply();
        let texts = folded(&sentence(words, detail, record), enhanced);
        Self { code, enhanced, texts, closes: code == 421, label: reason.as_str(), record }
    }

    /// The reply to a message.
    pub fn answer(answer: &IntakeReply) -> Self {
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

    /// Returns the reply so that the connection ends with it.
    #[must_use]
    pub fn and_close(self) -> Self {
        Self { closes: true, ..self }
    }

    pub const fn code(&self) -> u16 {
        self.code
    }

    pub const fn closes(&self) -> bool {
        self.closes
    }

    /// The reason code or the name of the notice, for logs.
    pub const fn label(&self) -> &'static str {
        self.label
    }

    /// The record of the refusal or the message.
    pub const fn record(&self) -> Option<IntakeId> {
        self.record
    }

    /// Appends the reply in its wire form.
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

/// Printable ASCII, up to [`MAX_DETAIL`] characters. A detail may quote a stranger: a CRLF in it
/// would forge a reply.
fn printable(text: &str) -> String {
    let shown = |c: char| match c {
        ' '..='~' => c,
        '\t' | '\r' | '\n' => ' ',
        _ => '?',
    };
    text.trim().chars().take(MAX_DETAIL).map(shown).collect()
}

/// Cuts `text` into lines that fit, between words where possible.
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

    fn wire(reply: &Reply) -> String {
        let mut out = Vec::new();
        reply.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn reasons_agree_with_themselves() {
        for reason in Reason::ALL {
            let (code, enhanced, words) = reason.reply();
            assert!((400..600).contains(&code), "{reason}");
            assert_eq!(enhanced.as_bytes()[0], code.to_string().as_bytes()[0], "{reason}");
            assert!(words.is_ascii() && words.len() < 400, "{reason}");
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
