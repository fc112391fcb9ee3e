//! The certificate with which Amazon SNS signs.
//!
//! It comes without a chain. It is trusted for its origin (https, a host of Amazon's, pinned in
//! [`super::sns`]), its name and its validity, as Amazon's own libraries do.

use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;

use crate::domain::clock::Timestamp;
use crate::egress::validity::validity;

/// The name of the signer in every region.
const NAME: &str = "sns.amazonaws.com";

#[derive(Clone, Debug)]
pub struct Certificate {
    /// SubjectPublicKeyInfo.
    key: Vec<u8>,
    from: Timestamp,
    until: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// Cut short, or a page from a middlebox: a retry may succeed.
    #[error("SigningCertURL does not lead to a certificate")]
    Unreadable,
    #[error("the certificate at SigningCertURL is not from Amazon SNS")]
    Name,
}

impl Certificate {
    /// Reads PEM. The certificate must be for `sns.amazonaws.com`, or for the `host` that it came
    /// from (China's regions have names of their own).
    pub fn from_pem(pem: &[u8], host: &str) -> Result<Self, CertificateError> {
        let der = CertificateDer::from_pem_slice(pem).map_err(|_| CertificateError::Unreadable)?;
        let (from, until) = validity(&der).ok_or(CertificateError::Unreadable)?;
        let parsed = ParsedCertificate::try_from(&der).map_err(|_| CertificateError::Unreadable)?;
        let is_for = |name: &str| {
            ServerName::try_from(name).is_ok_and(|name| verify_server_name(&parsed, &name).is_ok())
        };
        if !is_for(NAME) && !is_for(host) {
            return Err(CertificateError::Name);
        }
        Ok(Self { key: parsed.subject_public_key_info().to_vec(), from, until })
    }

    /// Verifies a signature (RSA, PKCS #1 v1.5, SHA-256), at any time.
    pub fn signed(&self, said: &[u8], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.key);
        key.verify(said, signature).is_ok()
    }

    pub fn is_over(&self, now: Timestamp) -> bool {
        now > self.until
    }

    /// Tells whether the certificate is not valid yet: then our clock is behind.
    pub fn is_to_come(&self, now: Timestamp) -> bool {
        now < self.from
    }
}
