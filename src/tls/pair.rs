//! A certificate chain with its key, checked.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::client::verify_server_name;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;

use crate::domain::clock::Timestamp;
use crate::domain::domain_name::DomainName;

use crate::egress::validity::validity;

/// A chain whose first certificate belongs to the key.
#[derive(Clone, Debug)]
pub struct Pair {
    pub(super) certified: Arc<CertifiedKey>,
    /// The first and the last instant of validity.
    from: Timestamp,
    until: Timestamp,
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
        let (from, until) = validity(own).ok_or(PairError::Validity)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(PairError::Key)?;
        let key =
            default_provider().key_provider.load_private_key(key).map_err(PairError::KindOfKey)?;
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            Ok(()) => Ok(Self { certified: Arc::new(certified), from, until }),
            Err(rustls::Error::InconsistentKeys(_)) => Err(PairError::Mismatch),
            Err(error) => Err(PairError::Certificate(error)),
        }
    }

    /// The chain, the server's own certificate first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.certified.cert
    }

    pub const fn from(&self) -> Timestamp {
        self.from
    }

    pub const fn until(&self) -> Timestamp {
        self.until
    }

    pub fn is_valid(&self, now: Timestamp) -> bool {
        (self.from..=self.until).contains(&now)
    }

    /// Whether the certificate is for this host (RFC 9525 §6: alternative names only).
    pub fn names(&self, host: &DomainName) -> bool {
        let Ok(name) = ServerName::try_from(host.as_str()) else { return false };
        let own = self.certified.end_entity_cert().and_then(ParsedCertificate::try_from);
        own.is_ok_and(|own| verify_server_name(&own, &name).is_ok())
    }

    /// Returns the data of a TLSA record for this key (RFC 7672 §3.1.1). It stays true for every
    /// certificate of the key.
    pub fn tlsa(&self) -> String {
        let public = self.certified.key.public_key();
        let hash = public.map(|public| digest(&SHA256, public.as_ref()));
        let octets = hash.as_ref().map_or(&[][..], AsRef::as_ref);
        octets.iter().fold("3 1 1 ".to_owned(), |text, octet| format!("{text}{octet:02x}"))
    }
}
