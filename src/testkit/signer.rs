//! Signs mail with DKIM, for `gatepost send --sign`, the fixtures and the tests.
//!
//! A [`Key`] is read from PEM (PKCS#8, or PKCS#1 for RSA) or generated, and writes the TXT record
//! that publishes it. A [`Signer`] puts one `DKIM-Signature` field, made by mail-auth, before a
//! message. The gateway itself signs no mail.

use std::fmt;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::KeyPair as _;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mail_auth::crypto::{DkimKey, Ed25519Key, RsaKey, Sha256, SigningKey};
use mail_auth::dkim::{Canonicalization, DkimSigner, Signature};
use mail_auth::headers::HeaderWriter;

/// Fields that are signed by default: those that a reader sees, so that none can be changed or
/// added.
pub const DEFAULT_HEADERS: &[&str] = &[
    "From",
    "To",
    "Cc",
    "Subject",
    "Date",
    "Message-ID",
    "Reply-To",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
];

#[derive(Debug, thiserror::Error)]
pub enum SignError {
    #[error("not a PEM file with an RSA or Ed25519 private key (PKCS#8, or PKCS#1 for RSA)")]
    Pem,
    #[error("the key cannot be used: {0}")]
    Key(String),
    #[error("the message cannot be signed: {0}")]
    Message(mail_auth::Error),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    RsaPkcs1,
    RsaPkcs8,
    Ed25519Pkcs8,
}

/// A private key; only [`Key::to_pem`] and [`Key::der`] reveal it.
#[derive(Clone)]
pub struct Key {
    form: Form,
    der: Vec<u8>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.form {
            Form::RsaPkcs1 | Form::RsaPkcs8 => "Key(rsa)",
            Form::Ed25519Pkcs8 => "Key(ed25519)",
        })
    }
}

impl Key {
    /// Reads the first private key of a PEM file.
    pub fn from_pem(pem: &str) -> Result<Self, SignError> {
        let (label, der) = read_pem(pem).ok_or(SignError::Pem)?;
        let key = match label {
            "RSA PRIVATE KEY" => Self { form: Form::RsaPkcs1, der },
            "PRIVATE KEY" if Ed25519Key::from_pkcs8_maybe_unchecked_der(&der).is_ok() => {
                Self { form: Form::Ed25519Pkcs8, der }
            }
            "PRIVATE KEY" => Self { form: Form::RsaPkcs8, der },
            _ => return Err(SignError::Pem),
        };
        key.public()?;
        Ok(key)
    }

    /// A new RSA key of 2048 bits.
    pub fn generate_rsa() -> Result<Self, SignError> {
        let refuse = |_| SignError::Key("no RSA key could be made".into());
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).map_err(refuse)?;
        let der: Pkcs8V1Der<'_> = pair.as_der().map_err(refuse)?;
        Ok(Self { form: Form::RsaPkcs8, der: der.as_ref().to_vec() })
    }

    pub fn generate_ed25519() -> Result<Self, SignError> {
        let der =
            Ed25519Key::generate_pkcs8().map_err(|error| SignError::Key(error.to_string()))?;
        Ok(Self { form: Form::Ed25519Pkcs8, der })
    }

    /// The key as PEM, for a file.
    pub fn to_pem(&self) -> String {
        let label = if self.form == Form::RsaPkcs1 { "RSA PRIVATE KEY" } else { "PRIVATE KEY" };
        let mut pem = format!("-----BEGIN {label}-----\n");
        let text = STANDARD.encode(&self.der);
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let (line, after) = rest.split_at(rest.len().min(64));
            pem.push_str(line);
            pem.push('\n');
            rest = after;
        }
        pem.push_str(&format!("-----END {label}-----\n"));
        pem
    }

    /// The TXT record for `<selector>._domainkey.<domain>` that publishes the key (RFC 6376 §3.6.1;
    /// RFC 8463 §4 for Ed25519, whose `p=` is the bare key).
    pub fn txt_record(&self) -> Result<String, SignError> {
        let kind = if self.form == Form::Ed25519Pkcs8 { "ed25519" } else { "rsa" };
        Ok(format!("v=DKIM1; k={kind}; p={}", STANDARD.encode(self.public()?)))
    }

    /// The DER of the private key, in the form that was read.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    fn public(&self) -> Result<Vec<u8>, SignError> {
        if self.form == Form::Ed25519Pkcs8 {
            return Ok(self.ed25519()?.public_key());
        }
        let pair = if self.form == Form::RsaPkcs1 {
            RsaKeyPair::from_der(&self.der)
        } else {
            RsaKeyPair::from_pkcs8(&self.der)
        };
        let pair = pair.map_err(|error| SignError::Key(error.to_string()))?;
        let der: PublicKeyX509Der<'_> = pair
            .public_key()
            .as_der()
            .map_err(|_| SignError::Key("the public key cannot be written".into()))?;
        Ok(der.as_ref().to_vec())
    }

    fn ed25519(&self) -> Result<Ed25519Key, SignError> {
        Ed25519Key::from_pkcs8_maybe_unchecked_der(&self.der)
            .map_err(|error| SignError::Key(error.to_string()))
    }

    fn signing(&self) -> Result<DkimKey, SignError> {
        Ok(match self.form {
            Form::Ed25519Pkcs8 => DkimKey::Ed25519(self.ed25519()?),
            Form::RsaPkcs1 | Form::RsaPkcs8 => DkimKey::Rsa(self.rsa()?),
        })
    }

    #[expect(deprecated, reason = "the successor wants a type of a crate that is not ours to name")]
    fn rsa(&self) -> Result<RsaKey<Sha256>, SignError> {
        match self.form {
            Form::RsaPkcs1 => RsaKey::from_der(&self.der),
            _ => RsaKey::from_pkcs8_der(&self.der),
        }
        .map_err(|error| SignError::Key(error.to_string()))
    }
}

#[derive(Clone, Debug)]
pub struct Signer {
    key: Key,
    domain: String,
    selector: String,
    headers: Vec<String>,
    header_form: Canonicalization,
    body_form: Canonicalization,
}

impl Signer {
    /// Signs as `domain` with the key published at `<selector>._domainkey.<domain>`:
    /// relaxed/relaxed, over [`DEFAULT_HEADERS`].
    pub fn new(key: Key, domain: &str, selector: &str) -> Self {
        Self {
            key,
            domain: domain.to_owned(),
            selector: selector.to_owned(),
            headers: DEFAULT_HEADERS.iter().map(|name| (*name).to_owned()).collect(),
            header_form: Canonicalization::Relaxed,
            body_form: Canonicalization::Relaxed,
        }
    }

    /// The fields to sign. Missing ones are signed as absent, so that they cannot be added later
    /// (RFC 6376 §5.4.2).
    #[must_use]
    pub fn headers<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.headers = names.into_iter().map(str::to_owned).collect();
        self
    }

    /// The canonicalization of header section and body (`c=`).
    #[must_use]
    pub fn canonicalization(mut self, header: Canonicalization, body: Canonicalization) -> Self {
        self.header_form = header;
        self.body_form = body;
        self
    }

    /// The name at which the key must be published.
    pub fn key_name(&self) -> String {
        format!("{}._domainkey.{}", self.selector, self.domain)
    }

    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the message after a new `DKIM-Signature` field; `t=` is the system's time.
    pub fn sign(&self, raw: &[u8]) -> Result<Vec<u8>, SignError> {
        Ok([self.signature(raw)?.to_header().as_bytes(), raw].concat())
    }

    /// Returns the message with a signature made `age` seconds ago that was valid for half of that
    /// time (`t=`, `x=`). mail-auth only signs as of now, so its signature is edited and computed
    /// again. The header canonicalization must be relaxed.
    pub fn sign_expired(&self, raw: &[u8], age: u64) -> Result<Vec<u8>, SignError> {
        let mut signature = self.signature(raw)?;
        signature.t = signature.t.saturating_sub(age);
        signature.x = signature.t.saturating_add(age / 2);
        signature.b.clear();
        let mut signed: Vec<u8> = signature.h.iter().flat_map(|name| relaxed(raw, name)).collect();
        signature.write(&mut signed, false);
        signature.b = self.key.signing()?.sign(signed.as_slice()).map_err(SignError::Message)?;
        Ok([signature.to_header().as_bytes(), raw].concat())
    }

    fn signature(&self, raw: &[u8]) -> Result<Signature, SignError> {
        DkimSigner::from_key(self.key.signing()?)
            .domain(&self.domain)
            .selector(&self.selector)
            .headers(self.headers.iter().map(String::as_str))
            .header_canonicalization(self.header_form)
            .body_canonicalization(self.body_form)
            .sign(raw)
            .map_err(SignError::Message)
    }
}

/// The last field of this name in the relaxed form of RFC 6376 §3.4.2, with its line end; empty if
/// there is none.
fn relaxed(raw: &[u8], name: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(raw);
    let head = text.split("\r\n\r\n").next().unwrap_or_default();
    // A line that begins with a blank continues the field above it.
    let unfolded = head.replace("\r\n ", " ").replace("\r\n\t", " ");
    let fields = unfolded.split("\r\n").filter_map(|line| line.split_once(':'));
    let last = fields.filter(|(known, _)| known.trim_end().eq_ignore_ascii_case(name)).last();
    let Some((_, value)) = last else { return Vec::new() };
    let value = value.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    format!("{}:{value}\r\n", name.to_ascii_lowercase()).into_bytes()
}

/// Returns label and bytes of the first block of a PEM file (RFC 7468).
fn read_pem(text: &str) -> Option<(&str, Vec<u8>)> {
    let (_, rest) = text.split_once("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    let (body, _) = rest.split_once("-----END ")?;
    let body: String = body.split_ascii_whitespace().collect();
    Some((label, STANDARD.decode(body).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_a_file_and_say_how_to_publish_them() {
        for key in [Key::generate_rsa().unwrap(), Key::generate_ed25519().unwrap()] {
            let again = Key::from_pem(&key.to_pem()).unwrap();
            assert_eq!(again.txt_record().unwrap(), key.txt_record().unwrap());
        }
        let record = Key::generate_ed25519().unwrap().txt_record().unwrap();
        assert_eq!(record.len(), "v=DKIM1; k=ed25519; p=".len() + 44);
        for text in ["", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", PUBLIC] {
            assert!(Key::from_pem(text).is_err(), "{text}");
        }
    }

    const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n";

    #[test]
    fn pkcs1_keys_sign() {
        // Older tools write the bare key, which PKCS#8 wraps in 26 bytes at this size.
        let der = Key::generate_rsa().unwrap().der()[26..].to_vec();
        let pem = Key { form: Form::RsaPkcs1, der }.to_pem();
        let key = Key::from_pem(&pem).unwrap();
        assert!(key.txt_record().unwrap().starts_with("v=DKIM1; k=rsa; p=MIIB"));
        assert!(key.to_pem().contains("RSA PRIVATE KEY"));
        let signer = Signer::new(key, "good.example", "s1");
        assert_eq!(signer.key_name(), "s1._domainkey.good.example");
        let signed = signer.sign(b"From: a@good.example\r\n\r\nHi\r\n").unwrap();
        let signed = String::from_utf8(signed).unwrap();
        assert!(signed.starts_with("DKIM-Signature: v=1; a=rsa-sha256; s=s1; d=good.example;"));
        assert!(signed.ends_with("From: a@good.example\r\n\r\nHi\r\n"));
        assert!(!format!("{signer:?}").contains("PRIVATE"));
    }
}
