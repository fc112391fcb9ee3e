//! Facts of a certificate that operators need: for whom it is, how long it lasts, the data of a TLSA
//! record for its key.

use aws_lc_rs::digest::{SHA256, SHA512, digest};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;

use super::validity::{is_self_issued, validity};
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

    /// Returns why a sender that verifies certificates does not deliver to this host, if that can be
    /// seen from the certificate. Whether senders trust its authority cannot.
    pub fn fault(&self, host: &DomainName, now: Timestamp) -> Option<&'static str> {
        if is_self_issued(&self.der) {
            Some("it is self-signed")
        } else if !self.is_valid(now) {
            Some("it has expired, or is not valid yet")
        } else if !self.names(host) {
            Some("it is for another host")
        } else {
            None
        }
    }

    /// Returns the data of a TLSA record for the key (RFC 7672 §3.1.1). It stays true for every
    /// certificate of the key. Without a hash if the certificate cannot be read.
    pub fn tlsa(&self) -> String {
        let hash = self.key().map(|key| hex(digest(&SHA256, &key).as_ref()));
        format!("3 1 1 {}", hash.unwrap_or_default())
    }

    /// Whether the data of a TLSA record, as `usage selector matching hex`, is of this certificate
    /// or its key. None for usages but 3, and for numbers that RFC 6698 §2.1 does not know: of 2 the
    /// authority decides, and others mean nothing to senders of mail (RFC 7672 §3.1.3).
    pub fn matches_tlsa(&self, data: &str) -> Option<bool> {
        let [usage, selector, matching, published] = data.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        let selected = match (usage, selector) {
            ("3", "0") => self.der.to_vec(),
            ("3", "1") => self.key().unwrap_or_default(),
            _ => return None,
        };
        let own = match matching {
            "0" => hex(&selected),
            "1" => hex(digest(&SHA256, &selected).as_ref()),
            "2" => hex(digest(&SHA512, &selected).as_ref()),
            _ => return None,
        };
        Some(own == published)
    }

    /// The key with its algorithm; None if the certificate cannot be read.
    fn key(&self) -> Option<Vec<u8>> {
        let own = ParsedCertificate::try_from(&self.der).ok()?;
        Some(own.subject_public_key_info().as_ref().to_vec())
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, CertifiedIssuer, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn each_form_of_tlsa_for_a_certificate_of_a_host_is_compared() {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(vec!["mx.example".to_owned()]).unwrap();
        let own = parameters.self_signed(&key).unwrap();
        let own = Certificate::read(own.der().clone()).unwrap();
        let spki = own.key().unwrap();
        for (start, data) in [
            ("3 0 0", own.der.to_vec()),
            ("3 0 1", digest(&SHA256, &own.der).as_ref().to_vec()),
            ("3 0 2", digest(&SHA512, &own.der).as_ref().to_vec()),
            ("3 1 0", spki.clone()),
            ("3 1 1", digest(&SHA256, &spki).as_ref().to_vec()),
            ("3 1 2", digest(&SHA512, &spki).as_ref().to_vec()),
        ] {
            let data = format!("{start} {}", hex(&data));
            assert_eq!(own.matches_tlsa(&data), Some(true), "{data}");
            assert_eq!(own.matches_tlsa(&format!("{data}00")), Some(false), "{data}");
        }
        for other in ["2 1 1 ab", "1 1 1 ab", "3 2 1 ab", "3 1 3 ab", "3 1 1", ""] {
            assert_eq!(own.matches_tlsa(other), None, "{other}");
        }
        assert_eq!(own.matches_tlsa(&own.tlsa()), Some(true));
    }

    #[test]
    fn what_senders_would_not_accept_is_said() {
        let (host, now) = (DomainName::parse("mx.example").unwrap(), Timestamp::from_millis(0));
        let key = || KeyPair::generate().unwrap();
        let named = |name: &str, until| {
            let mut parameters = CertificateParams::new(vec![name.to_owned()]).unwrap();
            parameters.not_before = date_time_ymd(1960, 1, 1);
            parameters.not_after = date_time_ymd(until, 1, 1);
            parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
            parameters
        };
        let authority = CertifiedIssuer::self_signed(named("authority", 2000), key()).unwrap();
        let issued = |name, until| {
            let issued = named(name, until).signed_by(&key(), &authority).unwrap();
            Certificate::read(issued.der().clone()).unwrap().fault(&host, now)
        };
        let own = named("mx.example", 2000).self_signed(&key()).unwrap();
        let own = Certificate::read(own.der().clone()).unwrap();
        assert_eq!(issued("mx.example", 2000), None);
        assert_eq!(own.fault(&host, now), Some("it is self-signed"));
        assert!(issued("mx.example", 1965).unwrap().contains("expired"));
        assert!(issued("other.example", 2000).unwrap().contains("another host"));
    }
}
