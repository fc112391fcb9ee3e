//! Facts of a certificate that operators need: for whom it is, how long it lasts, the data of a TLSA
//! record for its key.

use aws_lc_rs::digest::{SHA256, digest};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;

use super::validity::validity;
use crate::domain::clock::Timestamp;
use crate::domain::domain_name::DomainName;

/// A certificate that can be read; whoever issued it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    der: CertificateDer<'static>,
    /// The first and the last instant of validity.
    from: Timestamp,
    until: Timestamp,
}

impl Certificate {
    /// Returns None if the period of validity cannot be read.
    pub fn read(der: CertificateDer<'static>) -> Option<Self> {
        let (from, until) = validity(&der)?;
        Some(Self { der, from, until })
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
        let own = ParsedCertificate::try_from(&self.der);
        own.is_ok_and(|own| verify_server_name(&own, &name).is_ok())
    }

    /// Returns the data of a TLSA record for the key (RFC 7672 §3.1.1). It stays true for every
    /// certificate of the key. Without a hash if the certificate cannot be read.
    pub fn tlsa(&self) -> String {
        let own = ParsedCertificate::try_from(&self.der);
        let hash = own.map(|own| digest(&SHA256, own.subject_public_key_info().as_ref()));
        let octets = hash.as_ref().map_or(&[][..], AsRef::as_ref);
        octets.iter().fold("3 1 1 ".to_owned(), |text, octet| format!("{text}{octet:02x}"))
    }
}
