//! Bytes that must never be shown by accident.

use std::fmt;

/// Replaces a secret in API responses. Sent back, it keeps the stored secret.
pub const MASK: &str = "********";

/// A secret: no Display, masked in Debug. Only `expose` returns the bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// Returns the bytes: for signing, hashing and storing only.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
