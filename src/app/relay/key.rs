//! The form of an inbound key: `gpi_` and 256 random bits in base64url, 47 characters.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::domain::id::Mint;
use crate::domain::key::KeyHash;

const PREFIX: &str = "gpi_";
const LENGTH: usize = 47;

/// A new key. It is shown in the URL that a provider is given, and found by its hash.
pub(super) fn mint(mint: &Mint) -> String {
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(mint.secret()))
}

/// The hash by which a way is found; `None` for what cannot be a key, whatever its size.
pub(super) fn hash(key: &str) -> Option<KeyHash> {
    if key.len() != LENGTH || !key.starts_with(PREFIX) {
        return None;
    }
    let hash = digest(&SHA256, key.as_bytes());
    <[u8; 32]>::try_from(hash.as_ref()).ok().map(KeyHash)
}
