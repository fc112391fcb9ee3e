//! Bytes that must not be shown by accident.

use std::fmt;

/// Stands for a secret in what is shown; sent back, it keeps the secret that is there.
pub const MASK: &str = "********";

/// A secret: no Display, masked in Debug; whoever needs the bytes says so with `expose`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Takes the bytes in.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes themselves: for signing, hashing and storing only.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
