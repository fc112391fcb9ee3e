//! Mail domains, in the one spelling that is ever compared: the lower-case A-label form.

use std::fmt;

/// A host name of at least one label, IDNA-normalised to lower-case A-labels, at most 253 octets
/// (RFC 1035 §2.3.4), letters, digits and hyphens only (RFC 5321 §2.3.5).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainName(String);

/// Text that is not a mail domain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a domain: expected letters, digits, hyphens and single dots between labels")]
pub struct DomainNameError(pub String);

impl DomainName {
    /// Parses U-labels or A-labels. A trailing dot, an underscore and an address literal are
    /// refused. So is every spelling that IDNA would map onto another one (full-width letters and
    /// dots, invisible characters, decomposed accents), letter case apart: what is compared must be
    /// what a person wrote.
    pub fn parse(text: &str) -> Result<Self, DomainNameError> {
        let refuse = || DomainNameError(text.chars().take(80).collect());
        if text.is_empty() || text.len() > 1024 {
            return Err(refuse());
        }
        let ascii = idna::domain_to_ascii_strict(text).map_err(|_| refuse())?;
        let (unicode, _) = idna::domain_to_unicode(&ascii);
        let labels = ascii.split('.').zip(unicode.split('.'));
        let as_written = text.split('.').count() == ascii.split('.').count()
            && text.split('.').zip(labels).all(|(written, (ascii, unicode))| {
                written.eq_ignore_ascii_case(ascii) || written.to_lowercase() == unicode
            });
        if !as_written {
            return Err(refuse());
        }
        let labels_are_hosts = ascii.split('.').all(|label| {
            !label.is_empty()
                && label.len() <= 63
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        });
        let is_an_ip = ascii
            .split('.')
            .next_back()
            .is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit()));
        if ascii.len() > 253 || !labels_are_hosts || is_an_ip {
            return Err(refuse());
        }
        Ok(Self(ascii))
    }

    /// The lower-case A-label form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_per_domain() {
        for text in [
            "München.example",
            "münchen.EXAMPLE",
            "xn--mnchen-3ya.example",
            "XN--MNCHEN-3YA.example",
        ] {
            assert_eq!(
                DomainName::parse(text).unwrap().as_str(),
                "xn--mnchen-3ya.example",
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_not_a_host_name_is_refused() {
        for text in [
            "",
            ".",
            "good.example.",
            ".good.example",
            "good..example",
            "good_x.example",
            "-a.example",
            "a-.example",
            "[127.0.0.1]",
            "127.0.0.1",
            "good.example ",
            "go od.example",
            "good\u{3002}example",
            "good\u{ff0e}example",
            "a\0b.example",
            "good.example\r",
            "good\u{200b}.example",
        ] {
            assert!(DomainName::parse(text).is_err(), "{text:?}");
        }
        assert!(DomainName::parse(&"a.".repeat(200)).is_err());
        assert!(DomainName::parse(&format!("{}.example", "a".repeat(64))).is_err());
    }
}
