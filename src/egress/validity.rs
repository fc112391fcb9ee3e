//! Reads the validity period of a certificate from its DER, and whether it is its own issuer.
//!
//! rustls checks other parties' certificates but never tells when one's own expires. This reads up
//! to the two times and the subject (RFC 5280 §4.1) and nothing after them.

use jiff::civil::DateTime;

use crate::domain::clock::Timestamp;

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
/// `[0] EXPLICIT`: the optional version of a certificate.
const VERSION: u8 = 0xa0;

/// Returns the first and the last instant at which the certificate `der` is valid; None if it is no
/// certificate.
pub fn validity(der: &[u8]) -> Option<(Timestamp, Timestamp)> {
    let (_, fields) = from_issuer(der)?;
    let (times, _) = expect(fields, SEQUENCE)?;
    let (from, times) = time(times)?;
    let (until, _) = time(times)?;
    Some((from, until))
}

/// Whether the certificate `der` names its own subject as its issuer, so that no authority vouches
/// for it.
pub fn is_self_issued(der: &[u8]) -> bool {
    let names = || {
        let (issuer, fields) = from_issuer(der)?;
        let (_, fields) = expect(fields, SEQUENCE)?;
        let (subject, _) = expect(fields, SEQUENCE)?;
        Some((issuer, subject))
    };
    names().is_some_and(|(issuer, subject)| issuer == subject)
}

/// Returns the issuer of a certificate, and the fields behind it: first the times, then the subject.
fn from_issuer(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (certificate, _) = expect(der, SEQUENCE)?;
    let (fields, _) = expect(certificate, SEQUENCE)?;
    let fields = expect(fields, VERSION).map_or(fields, |(_, rest)| rest);
    let (_, fields) = expect(fields, INTEGER)?;
    // Skip the signature algorithm.
    let (_, fields) = expect(fields, SEQUENCE)?;
    expect(fields, SEQUENCE)
}

fn expect(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = element(der)?;
    (found == tag).then_some((content, rest))
}

/// Parses one element: tag, content, rest (X.690 §8.1, definite lengths only).
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, der) = der.split_first()?;
    let (length, der) = der.split_first()?;
    let (length, der) = match length {
        0..=0x7f => (usize::from(*length), der),
        // No certificate needs more than four length bytes.
        0x81..=0x84 => {
            let (octets, der) = der.split_at_checked(usize::from(length - 0x80))?;
            let length = octets.iter().fold(0, |sum, octet| sum << 8 | usize::from(*octet));
            (length, der)
        }
        _ => return None,
    };
    let (content, rest) = der.split_at_checked(length)?;
    Some((*tag, content, rest))
}

/// Parses `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ` (RFC 5280 §4.1.2.5); returns the time and the rest.
fn time(der: &[u8]) -> Option<(Timestamp, &[u8])> {
    let (tag, text, rest) = element(der)?;
    let digits = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let width = match tag {
        UTC_TIME => 2,
        GENERALIZED_TIME => 4,
        _ => return None,
    };
    if digits.len() != width + 10 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (year, digits) = digits.split_at_checked(width)?;
    let year = match (width, year.parse::<i16>().ok()?) {
        (2, year @ 50..) => 1900 + year,
        (2, year) => 2000 + year,
        (_, year) => year,
    };
    let number = |at: usize| digits.get(at..at + 2)?.parse::<i8>().ok();
    let [month, day, hour] = [number(0)?, number(2)?, number(4)?];
    let at = DateTime::new(year, month, day, hour, number(6)?, number(8)?, 0).ok()?;
    Some((Timestamp::from_utc(at), rest))
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
