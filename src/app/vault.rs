//! Seals secrets of customers (headers of relays, keys of providers, data of apps) under a key of
//! the operator: a copy of the database shows none of them. URLs of relays are not sealed and are
//! shown in full; so a secret by which an application recognises us belongs in a header.
//!
//! Sealed form: one byte for the format (1), four bytes that name the key, a nonce of twelve bytes,
//! then the ciphertext of AES-256-GCM (NIST SP 800-38D) with its tag. The place where it is kept is
//! authenticated too: a secret sealed for one account does not open in the row of another.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Map, Value};

use crate::domain::id::Mint;
use crate::domain::secret::Secret;
use crate::store::StoreError;

/// Bytes of a key.
pub const KEY_LEN: usize = 32;
const FORMAT: u8 = 1;
const NAME_LEN: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    #[error(
        "this server cannot store secrets, because it has no key to seal them: ask the operator to \
         set --secrets-key-file"
    )]
    NoKey,
    /// The secret was sealed by a key that is not configured, or is damaged, or is from another
    /// place.
    #[error(
        "these secrets were sealed with a key that this server does not have: ask the operator to \
         add that key to the file of --secrets-key-file, or set the secrets again"
    )]
    NotOurs,
}

/// Seals and opens secrets. Cheap to clone.
#[derive(Clone)]
pub struct Vault {
    /// The first key seals; every key opens.
    keys: Arc<[Key]>,
    mint: Mint,
}

struct Key {
    name: [u8; NAME_LEN],
    key: LessSafeKey,
}

/// Reads opened secrets that a row of `table` keeps as a JSON object.
pub(super) fn fields(open: &Secret, table: &'static str) -> Result<Map<String, Value>, StoreError> {
    let detail = "the decrypted secrets are not a JSON object";
    let corrupt = |_| StoreError::Corrupt { table, detail: detail.to_owned() };
    serde_json::from_slice(open.expose()).map_err(corrupt)
}

impl Vault {
    /// Seals with the first of these keys, and opens with any. Without keys it does neither.
    pub fn new(keys: &[[u8; KEY_LEN]], mint: Mint) -> Self {
        let key = |octets: &[u8; KEY_LEN]| {
            let sum = digest(&SHA256, octets);
            let name = sum.as_ref().first_chunk().copied()?;
            let unbound = UnboundKey::new(&AES_256_GCM, octets).ok()?;
            Some(Key { name, key: LessSafeKey::new(unbound) })
        };
        Self { keys: keys.iter().filter_map(key).collect(), mint }
    }

    /// Seals `open` for `place`, which names the owner and the kind of secret: `relay/17/mailgun`.
    pub fn seal(&self, place: &str, open: &[u8]) -> Result<Vec<u8>, VaultError> {
        let key = self.keys.first().ok_or(VaultError::NoKey)?;
        let random = self.mint.secret();
        let (nonce, _) = random.split_first_chunk::<NONCE_LEN>().ok_or(VaultError::NoKey)?;
        let mut sealed = vec![FORMAT];
        sealed.extend_from_slice(&key.name);
        sealed.extend_from_slice(nonce);
        let mut text = open.to_vec();
        let aad = Aad::from(place.as_bytes());
        key.key
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(*nonce), aad, &mut text)
            .map_err(|_| VaultError::NoKey)?;
        sealed.extend_from_slice(&text);
        Ok(sealed)
    }

    pub fn open(&self, place: &str, sealed: &[u8]) -> Result<Secret, VaultError> {
        if self.keys.is_empty() {
            return Err(VaultError::NoKey);
        }
        self.opened(place, sealed).ok_or(VaultError::NotOurs)
    }

    /// Tells whether the key that sealed this is configured, by the name of the key.
    pub fn has_key_of(&self, sealed: &[u8]) -> bool {
        let name = sealed.split_first().and_then(|(_, rest)| rest.first_chunk::<NAME_LEN>());
        name.is_some_and(|name| self.keys.iter().any(|key| key.name == *name))
    }

    fn opened(&self, place: &str, sealed: &[u8]) -> Option<Secret> {
        let (format, rest) = sealed.split_first()?;
        let (name, rest) = rest.split_first_chunk::<NAME_LEN>()?;
        let (nonce, text) = rest.split_first_chunk::<NONCE_LEN>()?;
        if *format != FORMAT {
            return None;
        }
        self.keys.iter().filter(|key| key.name == *name).find_map(|key| {
            let mut text = text.to_vec();
            let aad = Aad::from(place.as_bytes());
            let nonce = Nonce::assume_unique_for_key(*nonce);
            let open = key.key.open_in_place(nonce, aad, &mut text).ok()?;
            Some(Secret::new(&*open))
        })
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vault({} keys)", self.keys.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::system_mint;

    fn vault(keys: &[u8]) -> Vault {
        let keys: Vec<_> = keys.iter().map(|octet| [*octet; KEY_LEN]).collect();
        Vault::new(&keys, system_mint())
    }

    #[test]
    fn what_is_sealed_opens_at_its_place_only() {
        let sealed = vault(&[1]).seal("relay/1/ses", b"hunter2").unwrap();
        assert!(!sealed.windows(7).any(|window| window == b"hunter2"));
        assert_eq!(vault(&[1]).open("relay/1/ses", &sealed).unwrap().expose(), b"hunter2");
        assert_eq!(vault(&[1]).open("relay/2/ses", &sealed), Err(VaultError::NotOurs));
        assert_ne!(vault(&[1]).seal("relay/1/ses", b"hunter2").unwrap(), sealed);
    }

    #[test]
    fn a_key_that_was_replaced_opens_as_long_as_it_stands_behind_the_new_one() {
        let sealed = vault(&[1]).seal("p", b"x").unwrap();
        let both = vault(&[2, 1]);
        assert_eq!(both.open("p", &sealed).unwrap().expose(), b"x");
        let again = both.seal("p", b"x").unwrap();
        assert_eq!(vault(&[2]).open("p", &again).unwrap().expose(), b"x");
        assert_eq!(vault(&[2]).open("p", &sealed), Err(VaultError::NotOurs));
        assert!(both.has_key_of(&sealed) && both.has_key_of(&again));
        assert!(!vault(&[2]).has_key_of(&sealed) && !vault(&[2]).has_key_of(b"1"));
    }

    #[test]
    fn without_a_key_nothing_is_sealed_and_damage_opens_nothing() {
        assert_eq!(vault(&[]).seal("p", b"x"), Err(VaultError::NoKey));
        assert_eq!(vault(&[]).open("p", b"x"), Err(VaultError::NoKey));
        let sealed = vault(&[1]).seal("p", b"x").unwrap();
        for place in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[place] ^= 1;
            assert_eq!(vault(&[1]).open("p", &damaged), Err(VaultError::NotOurs), "{place}");
            assert_eq!(vault(&[1]).open("p", &sealed[..place]), Err(VaultError::NotOurs));
        }
    }
}
