//! What providers post when they hand a message on whole, and how they sign (contract §6). Pure:
//! octets in, a message with its envelope out, or why not.
//!
//! Each file says of one provider what it posts in its raw-MIME mode, what proves that it was the
//! provider, and where that is documented. Other modes, in which the provider has taken the message
//! apart, are refused with what to switch on: a signature of the sender cannot be verified over
//! pieces. What a provider says of the sender (its own verdicts on SPF, DKIM and spam) is not read.

mod certificate;
mod form;
mod hops;
pub mod mailgun;
pub mod postmark;
mod refusal;
pub mod sendgrid;
pub mod ses;
pub mod sns;

use std::net::IpAddr;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256, digest};
use bytes::Bytes;

use crate::domain::clock::Timestamp;

pub use certificate::{Certificate, CertificateError};
pub use refusal::{Broken, Forged, OtherMode, Refusal, Unavailable};

/// A request of a provider, as it came.
#[derive(Clone, Copy, Debug)]
pub struct Post<'p> {
    pub headers: &'p [(String, Vec<u8>)],
    pub body: &'p Bytes,
}

impl<'p> Post<'p> {
    /// The value of a header field that is there once.
    pub(super) fn header(&self, name: &str) -> Option<&'p str> {
        let mut found = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        match (found.next(), found.next()) {
            (Some((_, value)), None) => std::str::from_utf8(value).ok(),
            _ => None,
        }
    }
}

/// A message as a provider handed it on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// As the provider had it, with line ends as it wrote them.
    pub raw: Bytes,
    /// Without angle brackets; empty for `<>`.
    pub reverse_path: String,
    /// As the provider has them, in its order.
    pub recipients: Vec<String>,
    /// Who brought the message to the provider, and what it called itself, where the provider says.
    pub client: Option<IpAddr>,
    pub helo: Option<String>,
    /// What proved that it was the provider, in plain words.
    pub proof: &'static str,
    /// A sign that the provider gives once, for this and nothing else.
    pub token: Option<Token>,
}

/// A sign that may stand for one content only: the signature that came with it does not cover the
/// message, so whoever has seen one could put it before another message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub token: [u8; 32],
    /// Of all that came with it.
    pub content: [u8; 32],
}

impl Token {
    fn of(token: &[u8], content: &[u8]) -> Self {
        Self { token: sha256(token), content: sha256(content) }
    }
}

fn sha256(octets: &[u8]) -> [u8; 32] {
    let mut sum = [0; 32];
    sum.copy_from_slice(digest(&SHA256, octets).as_ref());
    sum
}

impl Letter {
    /// A digest of what is handed on, and to whom: the same each time that the provider tries.
    pub fn content(&self) -> [u8; 32] {
        let mut said = Context::new(&SHA256);
        let texts = self.recipients.iter().chain([&self.reverse_path]).map(String::as_bytes);
        for octets in texts.chain([self.raw.as_ref()]) {
            // With its length before it no piece is taken for a part of its neighbour.
            said.update(&u64::try_from(octets.len()).unwrap_or(u64::MAX).to_be_bytes());
            said.update(octets);
        }
        let mut sum = [0; 32];
        sum.copy_from_slice(said.finish().as_ref());
        sum
    }
}

/// How old a signature may be when it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ages {
    /// One that covers the message: as long as the provider tries again.
    pub covering: Duration,
    /// One that does not.
    pub bare: Duration,
    /// How far ahead of ours a provider's clock may be.
    pub ahead: Duration,
}

impl Ages {
    /// Refuses a signature of `at` that comes too late. One that comes too early puts off: it was
    /// verified, so it is our own clock that is behind.
    fn check(&self, at: Timestamp, most: Duration, now: Timestamp) -> Result<(), Refusal> {
        if at > now.plus(self.ahead) {
            return Err(Unavailable::Early.into());
        }
        if at < now.minus(most) {
            return Err(Forged::Old.into());
        }
        Ok(())
    }
}

/// Unix seconds, and nothing else.
fn unix_seconds(text: &str) -> Option<Timestamp> {
    let digits = (1..=12).contains(&text.len()) && text.bytes().all(|octet| octet.is_ascii_digit());
    let seconds = digits.then(|| text.parse::<i64>().ok()).flatten()?;
    Some(Timestamp::from_millis(seconds * 1000))
}

/// An address in an envelope, without the angle brackets that some providers leave round it.
fn path(text: &str) -> String {
    let text = text.trim();
    let bare = text.strip_prefix('<').and_then(|text| text.strip_suffix('>')).unwrap_or(text);
    bare.trim().to_owned()
}

#[cfg(test)]
mod tests;
