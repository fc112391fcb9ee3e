//! Responses to requests with an `Idempotency-Key` (contract §4, `Idempotency-Key`).
//!
//! The store ensures that such a request is carried out once (`store/tenancy/idempotency.rs`). This
//! module keeps the response, for a caller that lost it. A response may show a secret that is shown
//! only once, so it is encrypted at rest under the caller's API key. The store knows only the hash
//! of that key: a copy of the database decrypts nothing.

use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest::{Context, SHA256};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use uuid::Uuid;

use crate::domain::audit::Once;
use crate::domain::id::{KeyId, Mint};
use crate::rules::AccessRules;
use crate::store::{Store, StoreError};

/// The purpose of the derived key (RFC 5869 §3.2).
const PURPOSE: &[u8] = b"gatepost: the answer to a request with an Idempotency-Key";

/// Keeps the responses of idempotent requests, encrypted.
#[derive(Clone, Debug)]
pub struct KeptResponses {
    store: Store,
    mint: Mint,
    rules: Arc<AccessRules>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestState {
    /// Not carried out yet.
    New,
    /// Carried out; the response is kept.
    Answered(Vec<u8>),
    /// Being carried out, or carried out without a response that is kept and readable.
    Unanswered,
    /// The Idempotency-Key was used for another request.
    Different,
}

impl KeptResponses {
    /// Keeps responses in `store`, as long as the rules say.
    pub const fn new(store: Store, mint: Mint, rules: Arc<AccessRules>) -> Self {
        Self { store, mint, rules }
    }

    /// Identifies a request: the API key, the operation and `name`, its `Idempotency-Key`. `asked`
    /// is the whole content of the request, in one spelling.
    pub fn request(&self, key: KeyId, operation: &str, name: &str, asked: &str) -> Once {
        // Neither an operation nor a name holds a NUL: no two pairs make the same bytes.
        let digest = hash(&[key.0.as_bytes(), operation.as_bytes(), b"\0", name.as_bytes()]);
        let until = self.mint.clock().steady().plus(self.rules.idempotency.keep());
        Once { digest, request: hash(&[asked.as_bytes()]), until }
    }

    /// Returns the state of the request; `token` is the caller's API key, which decrypts the
    /// response.
    pub async fn state(&self, once: &Once, token: &str) -> Result<RequestState, StoreError> {
        let found = self.store.remembered_request(once.digest, self.mint.clock().steady()).await?;
        let Some(done) = found else { return Ok(RequestState::New) };
        if done.request != once.request {
            return Ok(RequestState::Different);
        }
        let answer = done.answer.and_then(|sealed| open(once, token, sealed));
        Ok(answer.map_or(RequestState::Unanswered, RequestState::Answered))
    }

    /// Keeps the response to the request with the id `holder`. None, for a response that is too
    /// large, records only that the request was carried out. Returns false if another request was
    /// first: its response is kept.
    pub async fn keep_response(
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

/// Derives the key that encrypts this request's response; each request has its own.
fn key(once: &Once, token: &str) -> Option<LessSafeKey> {
    let derived = Salt::new(HKDF_SHA256, &once.digest).extract(token.as_bytes());
    let derived = derived.expand(&[PURPOSE], &AES_256_GCM).map(UnboundKey::from);
    derived.map(LessSafeKey::new).ok()
}

/// Returns a nonce and the ciphertext, which is bound to the content of the request.
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
