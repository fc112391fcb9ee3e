//! The validity period of a certificate, and whether it is its own issuer: rustls checks other
//! parties' certificates but never tells when one's own expires.

use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use crate::domain::clock::Timestamp;

/// Returns the first and the last instant at which the certificate `der` is valid; None if it is no
/// certificate.
pub fn validity(der: &[u8]) -> Option<(Timestamp, Timestamp)> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let at = |seconds: i64| Some(Timestamp::from_millis(seconds.checked_mul(1000)?));
    let period = certificate.validity();
    Some((at(period.not_before.timestamp())?, at(period.not_after.timestamp())?))
}

/// Whether the certificate `der` names its own subject as its issuer, so that no authority vouches
/// for it.
pub fn is_self_issued(der: &[u8]) -> bool {
    let read = X509Certificate::from_der(der);
    read.is_ok_and(|(_, own)| own.subject().as_raw() == own.issuer().as_raw())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn certificate(years: [i32; 2]) -> Vec<u8> {
        let mut parameters = CertificateParams::new(vec!["mx.example".to_owned()]).unwrap();
        parameters.not_before = date_time_ymd(years[0], 2, 28);
        parameters.not_after = date_time_ymd(years[1], 12, 31);
        parameters.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn both_forms_of_a_time_are_read() {
        for (years, shown) in [
            ([1975, 2049], ["1975-02-28", "2049-12-31"]),
            ([2026, 4095], ["2026-02-28", "4095-12-31"]),
        ] {
            let (from, until) = validity(&certificate(years)).unwrap();
            assert_eq!(from.to_string(), format!("{}T00:00:00.000Z", shown[0]));
            assert_eq!(until.to_string(), format!("{}T00:00:00.000Z", shown[1]));
        }
    }

    #[test]
    fn every_cut_certificate_is_none() {
        let whole = certificate([2026, 2027]);
        for end in 0..whole.len() {
            assert_eq!(validity(&whole[..end]), None);
        }
    }

    proptest! {
        #[test]
        fn never_panics(der in proptest::collection::vec(any::<u8>(), 0..200)) {
            validity(&der);
            is_self_issued(&der);
        }

        #[test]
        fn never_panics_on_a_damaged_one(at in 0_usize..300, octet in any::<u8>()) {
            let mut der = certificate([2026, 2027]);
            let at = at % der.len();
            der[at] = octet;
            validity(&der);
            is_self_issued(&der);
        }
    }
}
