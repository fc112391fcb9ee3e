//! The form of API keys, inbound keys and secrets of console sessions: a prefix for the use, and 256
//! random bits in base64url.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::domain::id::Mint;
use crate::domain::key::KeyHash;

/// Characters behind the prefix.
const LENGTH: usize = 43;

/// One kind of keys, named by its prefix.
pub struct Form(&'static str);

pub const API: Form = Form("gp_");
/// Inbound keys, in the URLs that providers are given.
pub const INBOUND: Form = Form("gpi_");
/// Secrets of console sessions, in cookies, and the tickets of links to the console.
pub const SESSION: Form = Form("gps_");

/// A hash that no key has.
pub const NOBODYS: KeyHash = KeyHash([0; 32]);

impl Form {
    /// Makes a key, which is shown once, and the hash under which the store finds it.
    pub fn mint(&self, mint: &Mint) -> (String, KeyHash) {
        let key = format!("{}{}", self.0, URL_SAFE_NO_PAD.encode(mint.secret()));
        let hash = hashed(&key);
        (key, hash)
    }

    /// Whether there is such a key in a text, or the beginning of one.
    pub fn is_in(&self, text: &str) -> bool {
        text.contains(self.0)
    }

    /// Returns the hash under which the store finds a key; None if the text cannot be a key. A text
    /// of another length is not hashed.
    pub fn hash(&self, key: &str) -> Option<KeyHash> {
        let random = key.strip_prefix(self.0)?;
        (random.len() == LENGTH).then(|| hashed(key))
    }
}

pub fn hash(token: &str) -> Option<KeyHash> {
    API.hash(token)
}

fn hashed(key: &str) -> KeyHash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, key.as_bytes()).as_ref());
    KeyHash(hash)
}

/// Returns the last four characters, by which a person tells keys apart.
pub fn last_four(token: &str) -> String {
    token.chars().skip(token.chars().count().saturating_sub(4)).collect()
}
