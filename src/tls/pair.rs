//! A certificate chain with its key, checked.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::domain::clock::Timestamp;
use crate::domain::domain_name::DomainName;
use crate::egress::certificate::Certificate;

/// A chain whose first certificate belongs to the key.
#[derive(Clone, Debug)]
pub struct Pair {
    pub(super) certified: Arc<CertifiedKey>,
    certificate: Certificate,
}

/// Why a chain and a key cannot be used, with the remedy.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    #[error("the certificate is not in PEM form")]
    Chain(#[source] pem::Error),
    #[error("there is no certificate: expected PEM, -----BEGIN CERTIFICATE-----")]
    NoCertificate,
    #[error(
        "there is no readable key: expected PEM, -----BEGIN PRIVATE KEY-----, without a passphrase"
    )]
    Key(#[source] pem::Error),
    #[error(
        "a key of this kind cannot be used: give an ECDSA key (P-256) or an RSA key of 2048 bit"
    )]
    KindOfKey(#[source] rustls::Error),
    #[error("the certificate cannot be read")]
    Certificate(#[source] rustls::Error),
    #[error("cannot read the validity period of the certificate")]
    Validity,
    #[error(
        "certificate and key do not belong together: give the key that the certificate was issued \
         for, and the server's own certificate as the first of the chain"
    )]
    Mismatch,
}

impl Pair {
    /// Reads PEM: the chain, the server's own certificate first, and its key. One text may hold
    /// both.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, PairError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(PairError::Chain)?;
        let own = chain.first().ok_or(PairError::NoCertificate)?;
        let certificate = Certificate::read(own.clone()).ok_or(PairError::Validity)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(PairError::Key)?;
        let key =
            default_provider().key_provider.load_private_key(key).map_err(PairError::KindOfKey)?;
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            Ok(()) => Ok(Self { certified: Arc::new(certified), certificate }),
            Err(rustls::Error::InconsistentKeys(_)) => Err(PairError::Mismatch),
            Err(error) => Err(PairError::Certificate(error)),
        }
    }

    /// The chain, the server's own certificate first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.certified.cert
    }

    /// The server's own certificate.
    pub const fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    pub const fn from(&self) -> Timestamp {
        self.certificate.from()
    }

    pub const fn until(&self) -> Timestamp {
        self.certificate.until()
    }

    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.certificate.is_valid(now)
    }

    /// Whether the certificate is for this host (RFC 9525 §6: alternative names only).
    pub fn names(&self, host: &DomainName) -> bool {
        self.certificate.names(host)
    }

    /// Returns the data of a TLSA record for this key (RFC 7672 §3.1.1).
    pub fn tlsa(&self) -> String {
        self.certificate.tlsa()
    }
}
