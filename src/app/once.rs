//! Requests that are carried out once (contract §4, `Idempotency-Key`), and what they were
//! answered.
//!
//! That a request happens once is the store's doing (`store/tenancy/once.rs`). Its answer is kept after it,
//! for whoever did not hear it. An answer may show a secret that is shown this once, so it is at rest
//! only as what the caller's own API key opens, and of that key the store knows the hash alone: a
//! copy of the database opens none.

use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest::{Context, SHA256};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use uuid::Uuid;

use crate::domain::audit::Once;
use crate::domain::id::{KeyId, Mint};
use crate::rules::AccessRules;
use crate::store::{Store, StoreError};

/// What the key of an answer is for (RFC 5869 §3.2).
const PURPOSE: &[u8] = b"gatepost: the answer to a request with an Idempotency-Key";

/// The answers of requests that are carried out once.
#[derive(Clone, Debug)]
pub struct Answers {
    store: Store,
    mint: Mint,
    rules: Arc<AccessRules>,
}

/// What is known of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing: it is to be carried out.
    New,
    /// It was carried out, and answered so.
    Answered(Vec<u8>),
    /// It is being carried out, or was, and its answer is not there.
    Unanswered,
    /// Under this Idempotency-Key something else was asked for.
    Different,
}

impl Answers {
    /// Kept in this store as long as the rules say.
    pub const fn new(store: Store, mint: Mint, rules: Arc<AccessRules>) -> Self {
        Self { store, mint, rules }
    }

    /// A request of this key to this operation under this `Idempotency-Key`; `asked` is everything
    /// that it asks for, in one spelling.
    pub fn request(&self, key: KeyId, operation: &str, name: &str, asked: &str) -> Once {
        // Neither an operation nor a name holds a NUL, so that no two are written alike.
        let digest = hash(&[key.0.as_bytes(), operation.as_bytes(), b"\0", name.as_bytes()]);
        let until = self.mint.clock().steady().plus(self.rules.idempotency.keep());
        Once { digest, request: hash(&[asked.as_bytes()]), until }
    }

    /// Whether it was carried out, and what it was answered; `token` is the caller's API key.
    pub async fn known(&self, once: &Once, token: &str) -> Result<Known, StoreError> {
        let found = self.store.carried_out(once.digest, self.mint.clock().steady()).await?;
        let Some(done) = found else { return Ok(Known::New) };
        if done.request != once.request {
            return Ok(Known::Different);
        }
        let answer = done.answer.and_then(|sealed| open(once, token, sealed));
        Ok(answer.map_or(Known::Unanswered, Known::Answered))
    }

    /// Keeps what `holder` was answered; of one that is too large, only that it was. False where
    /// another request was first: that one's answer is kept, or will be.
    pub async fn keep(
        &self,
        once: &Once,
        holder: Uuid,
        token: &str,
        answer: Option<Vec<u8>>,
    ) -> Result<bool, StoreError> {
        let sealed = answer.and_then(|answer| seal(once, token, &self.mint, answer));
        let now = self.mint.clock().steady();
        self.store.keep_answer(once, holder, now, sealed.as_deref()).await
    }
}

fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    context.finish().as_ref().first_chunk().copied().unwrap_or_default()
}

/// The key that this request's answer is encrypted with: each has one of its own.
fn key(once: &Once, token: &str) -> Option<LessSafeKey> {
    let derived = Salt::new(HKDF_SHA256, &once.digest).extract(token.as_bytes());
    let derived = derived.expand(&[PURPOSE], &AES_256_GCM).map(UnboundKey::from);
    derived.map(LessSafeKey::new).ok()
}

/// A nonce and the ciphertext, bound to what was asked for.
fn seal(once: &Once, token: &str, mint: &Mint, mut answer: Vec<u8>) -> Option<Vec<u8>> {
    let nonce = mint.secret().first_chunk::<NONCE_LEN>().copied()?;
    let unique = Nonce::assume_unique_for_key(nonce);
    let sealing =
        key(once, token)?.seal_in_place_append_tag(unique, Aad::from(once.request), &mut answer);
    sealing.ok().map(|()| [nonce.as_slice(), &answer].concat())
}

fn open(once: &Once, token: &str, sealed: Vec<u8>) -> Option<Vec<u8>> {
    let (nonce, rest) = sealed.split_first_chunk::<NONCE_LEN>()?;
    let (nonce, mut rest) = (Nonce::assume_unique_for_key(*nonce), rest.to_vec());
    let plain = key(once, token)?.open_in_place(nonce, Aad::from(once.request), &mut rest);
    plain.ok().map(|plain| plain.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::clock::{Clock, Timestamp};

    #[test]
    fn an_answer_is_opened_by_its_own_key_for_its_own_request() {
        let clock = Clock::new(|| Timestamp::from_millis(0));
        let random = |octets: &mut [u8]| aws_lc_rs::rand::fill(octets).unwrap();
        let mint = Mint::new(clock, Arc::new(random));
        let until = Timestamp::from_millis(0);
        let once = Once { digest: [1; 32], request: [2; 32], until };
        let answer = b"{\"secret\":\"whsec_x\"}".to_vec();
        let sealed = seal(&once, "gp_a", &mint, answer.clone()).unwrap();
        assert!(!sealed.windows(6).any(|six| six == b"whsec_"));
        assert_ne!(seal(&once, "gp_a", &mint, answer.clone()).unwrap(), sealed, "a new nonce");
        assert_eq!(open(&once, "gp_a", sealed.clone()), Some(answer));
        assert_eq!(open(&once, "gp_b", sealed.clone()), None);
        assert_eq!(open(&Once { request: [3; 32], ..once }, "gp_a", sealed.clone()), None);
        assert_eq!(open(&Once { digest: [3; 32], ..once }, "gp_a", sealed.clone()), None);
        for cut in [0, 11, 12, sealed.len() - 1] {
            assert_eq!(open(&once, "gp_a", sealed[..cut].to_vec()), None);
        }
    }
}
