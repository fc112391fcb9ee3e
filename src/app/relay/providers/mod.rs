//! Reads messages that providers post, and checks their signatures (contract §6). Pure: bytes in, a
//! message with its envelope out, or an error.
//!
//! Each file describes one provider: its requests in raw-MIME mode, the proof of their origin, and
//! where that is documented. Modes that take the message apart are refused with advice on the right
//! setting, because a sender's signature cannot be verified over pieces. The provider's own
//! verdicts on SPF, DKIM and spam are not read.

mod certificate;
mod form;
mod hops;
pub mod json;
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

#[derive(Clone, Copy, Debug)]
pub struct Post<'p> {
    pub headers: &'p [(String, Vec<u8>)],
    pub body: &'p Bytes,
}

impl<'p> Post<'p> {
    /// Returns the value of a header field; None if it is missing, repeated or not UTF-8.
    pub(super) fn header(&self, name: &str) -> Option<&'p str> {
        let mut found = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        match (found.next(), found.next()) {
            (Some((_, value)), None) => std::str::from_utf8(value).ok(),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderMail {
    /// As the provider had it, with the provider's line ends.
    pub raw: Bytes,
    /// Without angle brackets; empty for `<>`.
    pub reverse_path: String,
    /// As the provider has them, in its order.
    pub recipients: Vec<String>,
    /// The client that brought the message to the provider, with its HELO, if the provider names
    /// them.
    pub client: Option<IpAddr>,
    pub helo: Option<String>,
    /// The proof that the provider posted, in plain words.
    pub proof: &'static str,
    /// The provider's one-time token for this message.
    pub token: Option<Token>,
}

/// A token that is accepted for one content only: its signature does not cover the message, so a
/// stranger who saw one could send it with another message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub token: [u8; 32],
    /// The digest of the envelope and the message that came with it.
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

impl ProviderMail {
    /// Returns a digest of message and envelope, equal for each retry of the provider.
    pub fn content(&self) -> [u8; 32] {
        let mut said = Context::new(&SHA256);
        let texts = self.recipients.iter().chain([&self.reverse_path]).map(String::as_bytes);
        for octets in texts.chain([self.raw.as_ref()]) {
            // With its length in front, no piece runs into its neighbour.
            said.update(&u64::try_from(octets.len()).unwrap_or(u64::MAX).to_be_bytes());
            said.update(octets);
        }
        let mut sum = [0; 32];
        sum.copy_from_slice(said.finish().as_ref());
        sum
    }
}

/// The greatest age of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ages {
    /// For a signature that covers the message: as long as the provider retries.
    pub covering: Duration,
    /// For a signature that does not.
    pub bare: Duration,
    /// For a signature of an account's own adapter.
    pub signed: Duration,
    /// How far a provider's clock may be ahead of ours.
    pub ahead: Duration,
}

impl Ages {
    /// Fails if the signature made at `at` is older than `most`. A signature from the future
    /// defers: it was verified, so our own clock must be behind.
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

/// Parses Unix seconds: digits only.
fn unix_seconds(text: &str) -> Option<Timestamp> {
    let digits = (1..=12).contains(&text.len()) && text.bytes().all(|octet| octet.is_ascii_digit());
    let seconds = digits.then(|| text.parse::<i64>().ok()).flatten()?;
    Some(Timestamp::from_millis(seconds * 1000))
}

/// Trims an address of an envelope, and the angle brackets that some providers leave on it.
fn path(text: &str) -> String {
    let text = text.trim();
    let bare = text.strip_prefix('<').and_then(|text| text.strip_suffix('>')).unwrap_or(text);
    bare.trim().to_owned()
}

#[cfg(test)]
mod tests;
