//! Standard Webhooks 1.0 signatures over `id.timestamp.body`: `v1`, HMAC-SHA256 with the secret,
//! and `v1a`, Ed25519, for receivers that should verify without being able to sign.
//!
//! The key of `v1a` is derived from the secret, so that both rotate together and nothing more is
//! stored. The holder of the secret could also sign with it; the holder of the public key could
//! not.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::error::KeyRejected;
use aws_lc_rs::hmac;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::domain::clock::Timestamp;
use crate::domain::secret::Secret;

/// The prefix of a symmetric signature.
pub const VERSION: &str = "v1";
/// The prefix of an asymmetric signature.
const ASYMMETRIC: &str = "v1a";
/// Separates this use of the secret from all others.
const KEY_OF: &[u8] = b"gatepost webhook v1a ed25519";

/// Returns the secret as it is shown to a customer, once: `whsec_` and base64 with padding.
pub fn secret_text(secret: &Secret) -> String {
    format!("whsec_{}", STANDARD.encode(secret.expose()))
}

/// Reads a secret as [`secret_text`] shows it; None if it is none.
pub fn read_secret(text: &str) -> Option<Secret> {
    STANDARD.decode(text.strip_prefix("whsec_")?).ok().map(Secret::new)
}

/// Returns the key that verifies `v1a`, as shown to customers: `whpk_` and base64 with padding. Not
/// secret, but derived from the secret, so it tells which one is in use. None if the library fails.
pub fn public_key(secret: &Secret) -> Option<String> {
    let pair = pair(secret).ok()?;
    Some(format!("whpk_{}", STANDARD.encode(pair.public_key())))
}

fn pair(secret: &Secret) -> Result<Ed25519KeyPair, KeyRejected> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose());
    // As long as an Ed25519 private key: 32 bytes (RFC 8032 §5.1.5).
    Ed25519KeyPair::from_seed_unchecked(hmac::sign(&key, KEY_OF).as_ref())
}

/// Returns a `webhook-signature` value with one `v1,…`: for bodies that are too large to be signed
/// twice.
pub fn symmetric_header(secret: &Secret, id: &str, at: Timestamp, body: &[u8]) -> String {
    format!("{VERSION},{}", sign(secret, id, at, body))
}

/// Returns one signature in base64 without its prefix. `at` is rounded down to whole seconds, as in
/// `webhook-timestamp`; `body` is exactly what is sent.
pub fn sign(secret: &Secret, id: &str, at: Timestamp, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose());
    // In pieces, so that a whole message is not copied.
    let mut context = hmac::Context::with_key(&key);
    let seconds = at.seconds().to_string();
    for piece in [id.as_bytes(), b".", seconds.as_bytes(), b".", body] {
        context.update(piece);
    }
    STANDARD.encode(context.sign())
}

/// Whether a `webhook-signature` value has a `v1,…` by this secret, over exactly this body. Takes the
/// same time whichever octet differs.
pub fn verify(secret: &Secret, id: &str, at: Timestamp, body: &[u8], header: &str) -> bool {
    let expected = sign(secret, id, at, body);
    let is_ours = |one: &str| {
        let signature = one.strip_prefix(VERSION).and_then(|rest| rest.strip_prefix(','));
        signature.is_some_and(|given| {
            verify_slices_are_equal(given.as_bytes(), expected.as_bytes()).is_ok()
        })
    };
    header.split(' ').any(is_ours)
}

/// Returns the first signature of a `webhook-signature` value without its prefix; empty if none.
pub fn first_signature(header: &str) -> &str {
    let first = header.split(' ').next().unwrap_or_default();
    first.split_once(',').map_or("", |(_, signature)| signature)
}

/// Returns a `webhook-signature` value with a `v1,…` and a `v1a,…` per secret, separated by spaces,
/// `v1` first. A receiver that knows any one of the secrets can verify (during a rotation the old
/// and the new one sign).
pub fn header<'a>(
    secrets: impl IntoIterator<Item = &'a Secret>,
    id: &str,
    at: Timestamp,
    body: &[u8],
) -> String {
    let seconds = at.seconds().to_string();
    let content = [id.as_bytes(), b".", seconds.as_bytes(), b".", body].concat();
    let (mut symmetric, mut asymmetric) = (Vec::new(), Vec::new());
    for secret in secrets {
        symmetric.push(format!("{VERSION},{}", sign(secret, id, at, body)));
        if let Ok(pair) = pair(secret) {
            asymmetric.push(format!("{ASYMMETRIC},{}", STANDARD.encode(pair.sign(&content))));
        }
    }
    symmetric.extend(asymmetric);
    symmetric.join(" ")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use reqwest::header::{HeaderMap, HeaderValue};

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "the oracle compares with the real clock")]
    fn now() -> Timestamp {
        let now = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Timestamp::from_millis(0).plus(now)
    }

    fn headers(id: &str, at: Timestamp, signature: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("webhook-id", HeaderValue::from_str(id).unwrap());
        headers.insert("webhook-timestamp", HeaderValue::from(at.seconds()));
        headers.insert("webhook-signature", HeaderValue::from_str(signature).unwrap());
        headers
    }

    #[test]
    fn the_published_crate_verifies_what_we_sign() {
        let body = "{\"text\":\"grüße\"}".as_bytes();
        for length in [24, 32, 64] {
            let secret = Secret::new(vec![7; length]);
            let oracle = standardwebhooks::Webhook::new(&secret_text(&secret)).unwrap();
            let signature = header([&secret], "evt_1", now(), body);
            oracle.verify(body, &headers("evt_1", now(), &signature)).unwrap();
            oracle.verify(b"{}", &headers("evt_1", now(), &signature)).unwrap_err();
            oracle.verify(body, &headers("evt_2", now(), &signature)).unwrap_err();
            let late = now().plus(Duration::from_secs(10));
            oracle.verify(body, &headers("evt_1", late, &signature)).unwrap_err();
        }
    }

    #[test]
    fn what_the_published_crate_signs_is_verified_and_nothing_else() {
        let body = "{\"text\":\"grüße\"}".as_bytes();
        let (secret, other) = (Secret::new([7; 32]), Secret::new([8; 32]));
        let oracle = standardwebhooks::Webhook::new(&secret_text(&secret)).unwrap();
        let at = now();
        let theirs = oracle.sign("evt_1", at.seconds(), body).unwrap();
        let (_, bare) = theirs.split_once(',').unwrap();
        for header in [theirs.clone(), format!("v1,AAAA v1a,{bare} {theirs} v2,x")] {
            assert!(verify(&secret, "evt_1", at, body, &header), "{header}");
        }
        assert!(!verify(&other, "evt_1", at, body, &theirs));
        assert!(!verify(&secret, "evt_2", at, body, &theirs));
        assert!(!verify(&secret, "evt_1", at.plus(Duration::from_secs(1)), body, &theirs));
        assert!(!verify(&secret, "evt_1", at, b"{}", &theirs));
        let cut = &theirs[..theirs.len() - 1];
        for header in ["", "v1,", bare, cut, &format!("v1a,{bare}"), &format!("v1, {bare}")] {
            assert!(!verify(&secret, "evt_1", at, body, header), "{header}");
        }
    }

    #[test]
    fn during_rotation_either_secret_verifies() {
        let (old, new, other) = (Secret::new([1; 32]), Secret::new([2; 32]), Secret::new([3; 32]));
        let headers = headers("evt_1", now(), &header([&new, &old], "evt_1", now(), b"{}"));
        let verify = |secret: &Secret| {
            standardwebhooks::Webhook::new(&secret_text(secret)).unwrap().verify(b"{}", &headers)
        };
        verify(&old).unwrap();
        verify(&new).unwrap();
        verify(&other).unwrap_err();
    }

    /// The example of the specification's reference libraries.
    #[test]
    fn the_published_example() {
        let secret = Secret::new(STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap());
        let at = Timestamp::from_millis(1_614_265_330_000);
        let body = br#"{"test": 2432232314}"#;
        let header = header([&secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", at, body);
        let (symmetric, asymmetric) = header.split_once(' ').unwrap();
        assert_eq!(symmetric, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        // Made by PyNaCl from the same secret: a change would change every customer's key.
        let public = "whpk_fxBYWWNbVCxXcsHmdp0A+vcB/TGSUdp9uv+cQbfQWUI=";
        assert_eq!(public_key(&secret).as_deref(), Some(public));
        let signature = "v1a,n0HV01iC/WIXPmE/stu7SfxWqVbemrMnuaIZkXAP/Fmg\
                         eOg94JTCbVlH2Axpd2exDvRu7FT4AilEcDgfdd1hCw==";
        assert_eq!(asymmetric, signature);
    }
}
