//! The published key of a signature: the restrictions in its record, and its size.
//!
//! mail-auth checks the cryptography and the identity. Whether the record permits this use (RFC
//! 6376 §3.6.1: `h=`, `s=`, `t=`) and whether the key is long enough is checked here, on the same
//! bytes.

use aws_lc_rs::{digest, signature as algorithms};
use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use mail_auth::crypto::Algorithm;
use mail_auth::dkim::DomainKey;
use mail_auth::dns::{TxtRecord, TxtRecordParser};

use super::tags::{MAX_RECORD, TagList};
use crate::domain::cause::Cause;

/// The service for which a key is asked (`s=`).
#[derive(Clone, Copy, Debug)]
pub(super) enum Service {
    Mail,
    /// Mail that reports on TLS (RFC 8460 §3).
    TlsReports,
}

/// Most records under one name that are examined.
pub(super) const MAX_RECORDS: usize = 10;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// One usable key record.
#[derive(Clone)]
pub(super) struct Key {
    pub(super) record: TxtRecord,
    pub(super) facts: Facts,
    /// Index among the records under the name.
    pub(super) place: usize,
}

/// Why a signature does not count although it may verify.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Objection {
    pub(super) cause: Cause,
    pub(super) text: String,
}

/// The facts of a key record that the verdict needs. It lives as long as the DNS answer, and has no
/// list: a stranger chooses how many words `h=` and `s=` have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    defect: Option<String>,
    /// `p=`, decoded; for RSA the bare RSAPublicKey of RFC 8017.
    pub(super) public: Vec<u8>,
    /// Size of the key in bits; None if `p=` does not match `k=`.
    pub(super) bits: Option<usize>,
    ed25519: bool,
    forbids_sha1: bool,
    forbids_sha256: bool,
    forbids_mail: bool,
    forbids_tls_reports: bool,
    testing: bool,
    strict_identity: bool,
}

impl Key {
    /// Returns the first record that is a key (RFC 6376 §6.1.2 leaves the choice open); else fails
    /// with the last error. `v=` must come first if present (§3.6.1), which mail-auth does not
    /// check.
    pub(super) fn choose(records: &[Vec<u8>]) -> Result<Self, mail_auth::Error> {
        let mut refusal = mail_auth::Error::Dns(mail_auth::DnsError::InvalidRecordType);
        let looked_at = records.iter().take(MAX_RECORDS).enumerate();
        for (place, octets) in looked_at.filter(|(_, octets)| octets.len() <= MAX_RECORD) {
            match DomainKey::parse(octets) {
                Ok(_) if TagList::read(octets).is_behind_others("v") => {}
                Ok(key) => {
                    return Ok(Self { record: key.into(), facts: Facts::read(octets), place });
                }
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }
}

impl Facts {
    pub(super) fn read(octets: &[u8]) -> Self {
        let tags = TagList::read(octets);
        let kind = tags.get("k").unwrap_or("rsa").to_ascii_lowercase();
        let has = |tag, word: &str| tags.listed(tag).any(|one| one.eq_ignore_ascii_case(word));
        let forbids = |tag, words: &[&str]| {
            tags.get(tag).is_some() && !words.iter().any(|word| has(tag, word))
        };
        let mut facts = Self {
            defect: tags.defect().map(|defect| format!("key record: {defect}")),
            ed25519: kind == "ed25519",
            forbids_sha1: forbids("h", &["sha1"]),
            forbids_sha256: forbids("h", &["sha256"]),
            forbids_mail: forbids("s", &["*", "email"]),
            forbids_tls_reports: forbids("s", &["*", "email", "tlsrpt"]),
            testing: has("t", "y"),
            strict_identity: has("t", "s"),
            ..Self::default()
        };
        let text: Vec<u8> = tags
            .get("p")
            .unwrap_or_default()
            .bytes()
            .filter(|b| !b.is_ascii_whitespace())
            .collect();
        let octets = BASE64.decode(text).unwrap_or_default();
        if facts.ed25519 {
            facts.bits = (octets.len() == 32).then_some(256);
            facts.public = octets;
        } else if let Some((public, modulus)) = rsa_parts(&octets) {
            facts.bits = Some(bit_length(modulus));
            facts.public = public.to_vec();
        }
        facts
    }

    /// Tells whether the RSA key is shorter than `bits` (RFC 8301 §3.2).
    pub(super) fn is_short(&self, bits: usize) -> bool {
        !self.ed25519 && self.bits.is_some_and(|size| size < bits)
    }

    /// Tells whether `signature` over `signed` was made with this key.
    pub(super) fn verify(&self, algorithm: Algorithm, signed: &[u8], signature: &[u8]) -> bool {
        let rsa: &dyn algorithms::VerificationAlgorithm = match algorithm {
            Algorithm::RsaSha256 => &algorithms::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
            Algorithm::RsaSha1 => &algorithms::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY,
            Algorithm::Ed25519Sha256 => {
                // RFC 8463 §3: Ed25519 signs the hash.
                let hash = digest::digest(&digest::SHA256, signed);
                let key = algorithms::UnparsedPublicKey::new(&algorithms::ED25519, &self.public);
                return key.verify(hash.as_ref(), signature).is_ok();
            }
            _ => return false,
        };
        algorithms::UnparsedPublicKey::new(rsa, &self.public).verify(signed, signature).is_ok()
    }

    /// Returns the objections to a signature with this algorithm and this key. `is_for_subdomain`
    /// tells that its `i=` is in a subdomain of `d=`.
    pub(super) fn objections(
        &self,
        algorithm: Algorithm,
        is_for_subdomain: bool,
        min_rsa_bits: usize,
        count_testing_keys: bool,
        service: Service,
    ) -> Vec<Objection> {
        let mut objections = Vec::new();
        let mut object = |cause, text: String| objections.push(Objection { cause, text });
        if let Some(defect) = &self.defect {
            object(Cause::KeyUnreadable, defect.clone());
        }
        let Some(bits) = self.bits else {
            object(Cause::KeyUnreadable, "the published key cannot be read".into());
            return objections;
        };
        if self.is_short(min_rsa_bits) {
            let text = format!("the RSA key has {bits} bits; at least {min_rsa_bits} are required");
            object(Cause::KeyShort, text);
        }
        if self.ed25519 != (algorithm == Algorithm::Ed25519Sha256) {
            object(Cause::KeyOfAnotherKind, "the published key is for another algorithm".into());
        }
        let (hash, is_forbidden) = match algorithm {
            Algorithm::RsaSha1 => ("sha1", self.forbids_sha1),
            _ => ("sha256", self.forbids_sha256),
        };
        if is_forbidden {
            object(Cause::KeyForbidsHash, format!("the key record forbids {hash} (h=)"));
        }
        let is_forbidden = match service {
            Service::Mail => self.forbids_mail,
            Service::TlsReports => self.forbids_tls_reports,
        };
        if is_forbidden {
            object(Cause::KeyForbidsMail, "the key record forbids use for mail (s=)".into());
        }
        if self.strict_identity && is_for_subdomain {
            let text = "the key record forbids subdomains in i= (t=s)".into();
            object(Cause::KeyForbidsSubdomain, text);
        }
        if self.testing && !count_testing_keys {
            object(Cause::KeyTesting, "the key is for testing only (t=y)".into());
        }
        objections
    }
}

/// Returns the RSAPublicKey and its modulus, from a bare RSAPublicKey or a SubjectPublicKeyInfo:
/// both are in use (RFC 6376 errata 3017).
fn rsa_parts(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (0x30, content, _) = element(der)? else { return None };
    match element(content)? {
        (0x02, modulus, _) => Some((der, modulus)),
        (0x30, _, rest) => {
            let (0x03, bits, _) = element(rest)? else { return None };
            let (0, key) = bits.split_first()? else { return None };
            let (0x30, content, _) = element(key)? else { return None };
            let (0x02, modulus, _) = element(content)? else { return None };
            Some((key, modulus))
        }
        _ => None,
    }
}

/// Parses one DER element: tag, content, rest.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = if *first < 0x80 {
        (usize::from(*first), rest)
    } else {
        let count = usize::from(first & 0x7f);
        // Two length bytes are enough for any key; four bound the arithmetic.
        if count == 0 || count > 4 {
            return None;
        }
        let (octets, rest) = rest.split_at_checked(count)?;
        (octets.iter().fold(0, |length, octet| length << 8 | usize::from(*octet)), rest)
    };
    let (content, after) = rest.split_at_checked(length)?;
    Some((*tag, content, after))
}

fn bit_length(number: &[u8]) -> usize {
    let zeros = number.iter().take_while(|octet| **octet == 0).count();
    match number.get(zeros) {
        Some(top) => (number.len() - zeros) * 8 - top.leading_zeros() as usize,
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::signer::Key as Pair;

    fn objections(record: &str, algorithm: Algorithm, is_for_subdomain: bool) -> String {
        let facts = Facts::read(record.as_bytes());
        let found = facts.objections(algorithm, is_for_subdomain, 1024, false, Service::Mail);
        found.iter().map(|one| one.text.as_str()).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn sizes_of_both_forms_of_rsa_key_and_of_ed25519() {
        let rsa = Pair::generate_rsa().unwrap().txt_record().unwrap();
        assert_eq!(Facts::read(rsa.as_bytes()).bits, Some(2048));
        let ed = Pair::generate_ed25519().unwrap().txt_record().unwrap();
        assert_eq!(Facts::read(ed.as_bytes()).bits, Some(256));
        // A bare RSAPublicKey of 1024 bits.
        let bare = "p=MIGJAoGBALVI635dLK4cJJAH3Lx6upo3X/Lm1tQz3mezcWTA3BUBnyIsdnRf57aD5BtNmhPrYY\
                    DlWlzw3UgnKisIxktkk5+iMQMlFtAS10JB8L3YadXNJY+JBcbeSi5TgJe4WFzNgW95FWDAuSTRXSW\
                    ZfA/8xjflbTLDx0euFZOM7C4T0GwLAgMBAAE=";
        assert_eq!(Facts::read(bare.as_bytes()).bits, Some(1024));
        assert_eq!(Facts::read(b"p=AAAA").bits, None);
        assert_eq!(Facts::read(b"k=ed25519; p=AAAA").bits, None);
    }

    #[test]
    fn what_the_record_forbids() {
        let p = Pair::generate_rsa().unwrap().txt_record().unwrap();
        let p = p.rsplit("; ").next().unwrap();
        let sha256 = Algorithm::RsaSha256;
        for (tags, expected) in [
            ("v=DKIM1; ", ""),
            ("h=sha1:sha256; s=*; t=; ", ""),
            ("s=email; ", ""),
            ("h=sha1; ", "forbids sha256"),
            ("s=tlsrpt; ", "forbids use for mail"),
            ("t=y; ", "testing"),
            ("t=s:y; ", "testing"),
            ("t=s; t=s; ", "twice"),
        ] {
            let found = objections(&format!("{tags}{p}"), sha256, false);
            assert_eq!(found.is_empty(), expected.is_empty(), "{tags}: {found}");
            assert!(found.contains(expected), "{tags}: {found}");
        }
        let strict = format!("t=s; {p}");
        assert_eq!(objections(&strict, sha256, false), "");
        assert!(objections(&strict, sha256, true).contains("t=s"));
        assert!(objections(p, Algorithm::Ed25519Sha256, false).contains("another algorithm"));
    }

    #[test]
    fn a_version_that_does_not_come_first_is_no_key() {
        let p = Pair::generate_rsa().unwrap().txt_record().unwrap();
        let p = p.rsplit("; ").next().unwrap();
        let place = |tags: &[&str]| {
            let records = tags.iter().map(|tags| format!("{tags}{p}").into_bytes());
            Key::choose(&records.collect::<Vec<_>>()).map(|key| key.place).ok()
        };
        for (tags, is_key) in [
            ("v=DKIM1; k=rsa; ", true),
            (" ; v = DKIM1;", true),
            ("k=rsa; ", true),
            ("k=rsa; v=DKIM1; ", false),
            ("k=rsa; v = DKIM1;", false),
            ("n=v=DKIM1; ", true),
        ] {
            assert_eq!(place(&[tags]), is_key.then_some(0), "{tags}");
        }
        assert!(Key::choose(&[format!("{p}; v=DKIM1").into_bytes()]).is_err());
        assert_eq!(place(&["k=rsa; v=DKIM1; ", "v=DKIM1; "]), Some(1), "another may be one");
    }

    #[test]
    fn der_that_lies_about_its_length_is_no_key() {
        for octets in [&b"\x30\x84\xff\xff\xff\xff\x02"[..], b"\x30\x80\x02\x01\x01", b"\x30", b""]
        {
            assert_eq!(rsa_parts(octets), None);
        }
        assert_eq!(bit_length(b"\x00\x80\x00"), 16);
        assert_eq!(bit_length(b"\x00\x00"), 0);
    }
}
