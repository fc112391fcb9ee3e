//! The form of a key: `gp_` and 256 random bits in base64url, 46 characters.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::domain::id::Mint;
use crate::domain::key::KeyHash;

const PREFIX: &str = "gp_";
const LENGTH: usize = 46;

/// A new key. It is shown once and kept only as its hash.
pub fn mint(mint: &Mint) -> String {
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(mint.secret()))
}

/// The hash of no key: none is known that has it.
pub const NOBODYS: KeyHash = KeyHash([0; 32]);

/// The hash under which a key is kept; `None` for what cannot be a key, whatever its size.
pub fn hash(token: &str) -> Option<KeyHash> {
    if token.len() != LENGTH || !token.starts_with(PREFIX) {
        return None;
    }
    let hash = digest(&SHA256, token.as_bytes());
    <[u8; 32]>::try_from(hash.as_ref()).ok().map(KeyHash)
}

/// The last four characters, by which a person tells keys apart.
pub fn last_four(token: &str) -> String {
    token.chars().skip(token.chars().count().saturating_sub(4)).collect()
}
