//! The form of keys: a prefix that says what a key is for, and 256 random bits in base64url.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::domain::id::Mint;
use crate::domain::key::KeyHash;

/// Characters behind the prefix.
const LENGTH: usize = 43;

/// One kind of keys, by its prefix.
pub struct Form(&'static str);

/// Keys of the API.
pub const API: Form = Form("gp_");
/// Keys in the URLs that providers are given.
pub const INBOUND: Form = Form("gpi_");

/// The hash of no key: none is known that has it.
pub const NOBODYS: KeyHash = KeyHash([0; 32]);

impl Form {
    /// A new key, which is shown once, and the hash by which it is found.
    pub fn mint(&self, mint: &Mint) -> (String, KeyHash) {
        let key = format!("{}{}", self.0, URL_SAFE_NO_PAD.encode(mint.secret()));
        let hash = hashed(&key);
        (key, hash)
    }

    /// The hash by which a key is found; `None` for what cannot be a key, whatever its size.
    pub fn hash(&self, key: &str) -> Option<KeyHash> {
        let random = key.strip_prefix(self.0)?;
        (random.len() == LENGTH).then(|| hashed(key))
    }
}

/// The hash of a key of the API.
pub fn hash(token: &str) -> Option<KeyHash> {
    API.hash(token)
}

fn hashed(key: &str) -> KeyHash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, key.as_bytes()).as_ref());
    KeyHash(hash)
}

/// The last four characters, by which a person tells keys apart.
pub fn last_four(token: &str) -> String {
    token.chars().skip(token.chars().count().saturating_sub(4)).collect()
}
