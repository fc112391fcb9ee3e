//! Makes cryptographically valid signatures with any tags, which a careful signer such as
//! mail-auth's would refuse to make.

use aws_lc_rs::digest;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{Ed25519KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::testkit::signer::Key;

/// Puts a signature field before `raw`: `tags` as given, then `bh=` over the first `covered` bytes
/// of the relaxed body (all by default) and `b=`. `name` is the name of the field, and `signed`
/// lists the hashed fields, which may differ from `h=` in `tags`.
pub(super) struct Forge<'f> {
    pub(super) key: &'f Key,
    pub(super) field: &'f str,
    pub(super) tags: String,
    pub(super) signed: Vec<&'f str>,
    pub(super) covered: Option<usize>,
}

impl<'f> Forge<'f> {
    /// A proper relaxed signature of good.example with selector s1 over From, To and Subject;
    /// `more` is inserted before `bh=`.
    pub(super) fn new(key: &'f Key, more: &str) -> Self {
        Self::tagged(
            key,
            &format!(
                "v=1; a=rsa-sha256; c=relaxed/relaxed; d=good.example; s=s1; \
                 h=from:to:subject; {more}"
            ),
            &["from", "to", "subject"],
        )
    }

    pub(super) fn tagged(key: &'f Key, tags: &str, signed: &[&'f str]) -> Self {
        let signed = signed.to_vec();
        Self { key, field: "DKIM-Signature", tags: tags.to_owned(), signed, covered: None }
    }

    pub(super) fn sign(&self, raw: &str) -> Vec<u8> {
        let (header, body) = raw.split_once("\r\n\r\n").unwrap();
        let body = relaxed_body(body);
        let covered = self.covered.unwrap_or(body.len());
        let hash = digest::digest(&digest::SHA256, &body.as_bytes()[..covered]);
        let value = format!("{} bh={}; b=", self.tags, STANDARD.encode(hash));
        let mut data = String::new();
        let fields = unfold(header);
        let mut used = vec![false; fields.len()];
        for name in &self.signed {
            let place = (0..fields.len())
                .rev()
                .find(|place| !used[*place] && fields[*place].0.eq_ignore_ascii_case(name));
            if let Some(place) = place {
                used[place] = true;
                data.push_str(&relaxed_field(&fields[place].0, &fields[place].1));
                data.push_str("\r\n");
            }
        }
        data.push_str(&relaxed_field(self.field, &value));
        let signature = STANDARD.encode(sign(self.key, data.as_bytes()));
        format!("{}: {value}{signature}\r\n{raw}", self.field).into_bytes()
    }
}

/// Signs `data`, without any encoding.
pub(super) fn sign(key: &Key, data: &[u8]) -> Vec<u8> {
    if let Ok(pair) = Ed25519KeyPair::from_pkcs8(key.der()) {
        return pair.sign(digest::digest(&digest::SHA256, data).as_ref()).as_ref().to_vec();
    }
    let pair = RsaKeyPair::from_pkcs8(key.der()).unwrap();
    let mut signature = vec![0; pair.public_modulus_len()];
    pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), data, &mut signature).unwrap();
    signature
}

fn unfold(header: &str) -> Vec<(String, String)> {
    let header = header.replace("\r\n ", " ").replace("\r\n\t", "\t");
    header
        .split("\r\n")
        .map(|line| line.split_once(':').unwrap())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// RFC 6376 §3.4.2.
pub(super) fn relaxed_field(name: &str, value: &str) -> String {
    let value: Vec<&str> = value.split_ascii_whitespace().collect();
    format!("{}:{}", name.to_ascii_lowercase(), value.join(" "))
}

/// RFC 6376 §3.4.4, for bodies without odd white space.
fn relaxed_body(body: &str) -> String {
    let body = body.trim_end_matches("\r\n");
    if body.is_empty() { String::new() } else { format!("{body}\r\n") }
}
