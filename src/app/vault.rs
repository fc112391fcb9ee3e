//! What customers entrust to us for use elsewhere (headers of relays, keys of providers, data of
//! apps) is at rest only as what a key of the operator opens: a copy of the database shows none.
//! URLs of relays are no secret in this sense: they are at rest, and shown, as they are, so that
//! what an application knows us by belongs into a header.
//!
//! Sealed: one octet (the format, 1), four that name the key, a nonce of twelve, AES-256-GCM (NIST
//! SP 800-38D) over the text with its tag. The place where it is kept is authenticated with it, so
//! that what was sealed for one account opens in no row of another.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest};

use crate::domain::id::Mint;
use crate::domain::secret::Secret;

/// Octets of a key.
pub const KEY_LEN: usize = 32;
const FORMAT: u8 = 1;
const NAME_LEN: usize = 4;

/// Why something cannot be sealed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// No key is configured.
    #[error(
        "this server keeps no secrets, because it has no key for them: its operator gives it one \
         with --secrets-key-file"
    )]
    NoKey,
    /// Sealed by a key that is not configured, or damaged, or moved from another place.
    #[error(
        "what is kept here was sealed by a key that this server does not have: its operator adds \
         that key to the file of --secrets-key-file, or it is set once more"
    )]
    NotOurs,
}

/// Seals and opens. Cheap to clone.
#[derive(Clone)]
pub struct Vault {
    /// The first seals; all open.
    keys: Arc<[Key]>,
    mint: Mint,
}

struct Key {
    name: [u8; NAME_LEN],
    key: LessSafeKey,
}

impl Vault {
    /// Seals by the first of these keys, and opens what any of them sealed. Without any it does
    /// neither.
    pub fn new(keys: &[[u8; KEY_LEN]], mint: Mint) -> Self {
        let key = |octets: &[u8; KEY_LEN]| {
            let sum = digest(&SHA256, octets);
            let name = sum.as_ref().first_chunk().copied()?;
            let unbound = UnboundKey::new(&AES_256_GCM, octets).ok()?;
            Some(Key { name, key: LessSafeKey::new(unbound) })
        };
        Self { keys: keys.iter().filter_map(key).collect(), mint }
    }

    /// What may be kept at `place`, which names what it is, and whose: `relay/17/mailgun`.
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

    /// What was sealed for this place.
    pub fn open(&self, place: &str, sealed: &[u8]) -> Result<Secret, VaultError> {
        if self.keys.is_empty() {
            return Err(VaultError::NoKey);
        }
        self.opened(place, sealed).ok_or(VaultError::NotOurs)
    }

    /// Whether one of these keys, by its name, is the one that sealed it.
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
