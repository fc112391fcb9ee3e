//! Standard Webhooks 1.0, symmetric scheme `v1`: HMAC-SHA256 over `id.timestamp.body`.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::domain::clock::Timestamp;
use crate::domain::secret::Secret;

/// The version of the scheme, as it stands before each signature.
pub const VERSION: &str = "v1";

/// The secret as a customer is shown it, once: `whsec_` and base64 with padding.
pub fn shown(secret: &Secret) -> String {
    format!("whsec_{}", STANDARD.encode(secret.expose()))
}

/// One signature in base64, without the version. `at` counts in whole seconds, as it stands in
/// `webhook-timestamp`; `body` is exactly what goes over the wire.
pub fn sign(secret: &Secret, id: &str, at: Timestamp, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose());
    let mut context = hmac::Context::with_key(&key);
    context.update(id.as_bytes());
    context.update(b".");
    context.update(at.seconds().to_string().as_bytes());
    context.update(b".");
    context.update(body);
    STANDARD.encode(context.sign())
}

/// The value of `webhook-signature`: one `v1,…` per secret, separated by spaces, so that a
/// receiver that knows any one of them can verify (rotation signs with the old and the new).
pub fn header<'a>(
    secrets: impl IntoIterator<Item = &'a Secret>,
    id: &str,
    at: Timestamp,
    body: &[u8],
) -> String {
    let signed = |secret| format!("{VERSION},{}", sign(secret, id, at, body));
    secrets.into_iter().map(signed).collect::<Vec<_>>().join(" ")
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
            let oracle = standardwebhooks::Webhook::new(&shown(&secret)).unwrap();
            let signature = header([&secret], "evt_1", now(), body);
            oracle.verify(body, &headers("evt_1", now(), &signature)).unwrap();
            oracle.verify(b"{}", &headers("evt_1", now(), &signature)).unwrap_err();
            oracle.verify(body, &headers("evt_2", now(), &signature)).unwrap_err();
            let late = now().plus(Duration::from_secs(10));
            oracle.verify(body, &headers("evt_1", late, &signature)).unwrap_err();
        }
    }

    #[test]
    fn during_rotation_either_secret_verifies() {
        let (old, new, other) = (Secret::new([1; 32]), Secret::new([2; 32]), Secret::new([3; 32]));
        let headers = headers("evt_1", now(), &header([&new, &old], "evt_1", now(), b"{}"));
        let verify = |secret: &Secret| {
            standardwebhooks::Webhook::new(&shown(secret)).unwrap().verify(b"{}", &headers)
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
        assert_eq!(
            header([&secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", at, body),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }
}
