//! The least: nobody verifies a signature without hashing the body and one public-key operation.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair as RsaKeyPair;
use aws_lc_rs::signature::{
    ED25519, Ed25519KeyPair, KeyPair, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256,
};
use bytes::Bytes;
use gatepost::testkit::signer::Key;

use crate::letters::{Keys, Letter};

/// As long as the header fields that a signature covers, about.
const SIGNED: &[u8] = &[b'h'; 600];

pub struct Least {
    raw: Bytes,
    signatures: Vec<(ParsedPublicKey, Vec<u8>)>,
}

impl Keys {
    pub fn least(&self, letter: &Letter) -> Least {
        Least { raw: letter.raw.clone(), signatures: letter.keys.iter().map(signature).collect() }
    }
}

impl Least {
    /// Verifies all signatures, and fails if one is bad.
    pub fn run(&self) -> bool {
        std::hint::black_box(digest(&SHA256, &self.raw));
        let all = self.signatures.iter().all(|(key, sig)| key.verify_sig(SIGNED, sig).is_ok());
        assert!(all);
        all
    }
}

fn signature(key: &Key) -> (ParsedPublicKey, Vec<u8>) {
    if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(key.der()) {
        let public = ParsedPublicKey::new(&ED25519, pair.public_key()).unwrap();
        return (public, pair.sign(SIGNED).as_ref().to_vec());
    }
    let pair = RsaKeyPair::from_pkcs8(key.der()).unwrap();
    let public: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
    let public = ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public.as_ref()).unwrap();
    let mut signature = vec![0; pair.public_modulus_len()];
    pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), SIGNED, &mut signature).unwrap();
    (public, signature)
}
