//! Writes the letters of `gatepost send --dev` and `gatepost doctor --send-test`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::cli::Failure;
use crate::domain::id::Mint;

/// Bytes of text in an encoded word, before base64: the word may be 75 characters long (RFC 2047
/// §2).
const WORD: usize = 42;
/// Bytes in a line of base64, before encoding (RFC 2045 §6.8: at most 76 characters).
const LINE: usize = 57;
/// The longest line that is sent without encoding (RFC 5322 §2.1.1).
const LONGEST: usize = 998;

/// An unsigned letter.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Letter<'a> {
    /// The sender's name, in plain ASCII.
    pub name: &'static str,
    pub from: &'a str,
    pub subject: String,
    /// `plain` or `html`.
    pub form: &'static str,
    pub text: String,
}

impl Letter<'_> {
    /// Returns the bytes of the letter, with CRLF line ends. Fails if the subject has control
    /// characters.
    pub fn raw(&self, to: &str, mint: &Mint) -> Result<Vec<u8>, Failure> {
        if self.subject.chars().any(char::is_control) {
            return Err("--subject: expected one line without control characters".into());
        }
        let (name, from, form, id) = (self.name, self.from, self.form, mint.uuid());
        // Always UTC, in the format of RFC 5322 §3.3.
        let date = mint.clock().now().utc().strftime("%a, %d %b %Y %H:%M:%S +0000").to_string();
        let domain = from.split_once('@').map_or("", |(_, domain)| domain);
        let subject = encoded(&self.subject);
        let (encoding, body) = body(&self.text);
        Ok(format!(
            "From: {name} <{from}>\r\n\
             To: {to}\r\n\
             Subject: {subject}\r\n\
             Date: {date}\r\n\
             Message-ID: <{id}@{domain}>\r\n\
             MIME-Version: 1.0\r\n\
             Content-Type: text/{form}; charset=utf-8\r\n\
             Content-Transfer-Encoding: {encoding}\r\n\
             \r\n\
             {body}"
        )
        .into_bytes())
    }
}

/// Returns a subject, in encoded words if it is not plain (RFC 2047).
fn encoded(subject: &str) -> String {
    if subject.is_ascii() && subject.len() < LONGEST - "Subject: ".len() {
        return subject.to_owned();
    }
    let (mut words, mut word) = (Vec::new(), String::new());
    for sign in subject.chars() {
        if word.len() + sign.len_utf8() > WORD {
            words.push(std::mem::take(&mut word));
        }
        word.push(sign);
    }
    words.push(word);
    let words: Vec<_> =
        words.iter().map(|word| format!("=?utf-8?b?{}?=", STANDARD.encode(word))).collect();
    words.join("\r\n ")
}

/// Returns the transfer encoding and the encoded body.
fn body(text: &str) -> (&'static str, String) {
    let lines: Vec<&str> = text.lines().collect();
    let text = format!("{}\r\n", lines.join("\r\n"));
    let is_plain =
        |line: &&str| line.len() <= LONGEST && line.is_ascii() && !line.contains(['\r', '\0']);
    if lines.iter().all(is_plain) {
        return ("7bit", text);
    }
    let lines: Vec<_> = text.as_bytes().chunks(LINE).map(|line| STANDARD.encode(line)).collect();
    ("base64", format!("{}\r\n", lines.join("\r\n")))
}

#[cfg(test)]
mod tests {
    use super::super::names;
    use super::*;
    use crate::run;

    fn letter(subject: &str, text: &str) -> Result<String, Failure> {
        let (subject, text) = (subject.to_owned(), text.to_owned());
        let letter = Letter { name: "Alice", from: names::SENDER, subject, form: "plain", text };
        letter.raw(names::AGENT, &run::system_mint()).map(|raw| String::from_utf8(raw).unwrap())
    }

    #[test]
    fn a_plain_letter_stays_plain_and_any_other_comes_through() {
        let plain = letter("Order 4711", "Hello\nAlice").unwrap();
        assert!(plain.contains("Subject: Order 4711\r\n"), "{plain}");
        assert!(plain.ends_with("7bit\r\n\r\nHello\r\nAlice\r\n"), "{plain}");
        let (subject, text) = ("Grüße ".repeat(20), format!("Grüße\n{}", "x".repeat(2000)));
        let raw = letter(subject.trim_end(), &text).unwrap();
        assert!(raw.is_ascii() && raw.lines().all(|line| line.len() <= 78), "{raw}");
        let parsed = mail_parser::MessageParser::default().parse(raw.as_bytes()).unwrap();
        assert_eq!(parsed.subject(), Some(subject.trim_end()));
        assert_eq!(parsed.body_text(0).unwrap().trim_end().replace("\r\n", "\n"), text);
        assert!(parsed.date().is_some());
    }

    #[test]
    fn a_subject_is_one_line() {
        assert!(letter("a\r\nBcc: b", "").is_err());
    }
}
