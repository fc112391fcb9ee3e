//! Mail domains, in the one spelling that is ever compared: lower-case A-labels.

use std::fmt;

use icu_normalizer::ComposingNormalizerBorrowed;

/// A host name of at least one label, IDNA-normalised to lower-case A-labels, at most 253 bytes
/// (RFC 1035 §2.3.4), with letters, digits and hyphens only (RFC 5321 §2.3.5).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainName(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a domain: expected letters, digits, hyphens and single dots between labels")]
pub struct DomainNameError(pub String);

impl DomainName {
    /// Parses U-labels or A-labels. Refuses a trailing dot, an underscore and an address literal.
    /// Also refuses every spelling that IDNA would map to another one (full-width letters and dots,
    /// invisible characters, decomposed accents), except for letter case: the name that is compared
    /// must be the name that a person wrote.
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
                written.eq_ignore_ascii_case(ascii) || is_label(written, unicode)
            });
        if as_written { Self::kept(&ascii) } else { Err(refuse()) }
    }

    /// Reads back a stored spelling, made by this version or an earlier one. Does not check labels
    /// against the IDNA tables: the tables change, and must not make stored rows unreadable.
    pub fn kept(text: &str) -> Result<Self, DomainNameError> {
        let labels_are_hosts = text.split('.').all(|label| {
            !label.is_empty()
                && label.len() <= 63
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        });
        let is_an_ip = text
            .split('.')
            .next_back()
            .is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit()));
        if text.len() > 253 || !labels_are_hosts || is_an_ip {
            return Err(DomainNameError(text.chars().take(80).collect()));
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the U-labels: to show to people, never to compare.
    pub fn to_unicode(&self) -> String {
        idna::domain_to_unicode(&self.0).0
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Tells whether `written` is `u_label` apart from letter case. It must be composed, and each
/// capital must be the only capital of its small letter. This excludes signs that only map to
/// letters (Kelvin sign to k, Ångström sign to å). A capital with two small letters (Σ at the end
/// of a word) is refused where the two differ.
fn is_label(written: &str, u_label: &str) -> bool {
    let is_own_capital =
        |c: char| c.to_lowercase().eq([c]) || c.to_lowercase().flat_map(char::to_uppercase).eq([c]);
    written == u_label
        || ComposingNormalizerBorrowed::new_nfc().is_normalized(written)
            && written.chars().all(is_own_capital)
            && written.to_lowercase() == u_label
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

    /// Labels with their RFC 3492 forms, computed elsewhere.
    #[test]
    fn a_and_u_labels_are_one_spelling() {
        for (u_label, a_label) in [
            ("fa\u{df}", "xn--fa-hia"),
            ("stra\u{df}e", "xn--strae-oqa"),
            ("\u{3b2}\u{3cc}\u{3bb}\u{3bf}\u{3c2}", "xn--nxasmm1c"),
            ("\u{3b2}\u{3cc}\u{3bb}\u{3bf}\u{3c3}", "xn--nxasmq6b"),
            ("g\u{43e}\u{43e}d", "xn--gd-fmca"),
            ("\u{430}\u{440}\u{440}\u{4cf}\u{435}", "xn--80ak6aa92e"),
            ("\u{915}\u{94d}\u{200d}\u{937}", "xn--11b2ezcw70k"),
            ("\u{915}\u{94d}\u{937}", "xn--11b2ezc"),
            ("\u{7528}\u{6237}", "xn--zouo53b"),
            // Cherokee letters are mapped onto their capitals.
            ("\u{13a0}", "xn--58d"),
        ] {
            let domain = DomainName::parse(&format!("{u_label}.example")).unwrap();
            assert_eq!(domain.as_str(), format!("{a_label}.example"));
            let upper = a_label.to_uppercase();
            assert_eq!(DomainName::parse(&format!("{upper}.Example")).unwrap(), domain);
            assert_eq!(domain.to_unicode(), format!("{u_label}.example"));
            assert_eq!(DomainName::kept(domain.as_str()), Ok(domain));
        }
    }

    #[test]
    fn what_only_maps_onto_a_label_is_not_it() {
        for text in [
            // Signs: Kelvin, Angstrom, Ohm, long s, a capital theta of formulas.
            "\u{212a}elvin.example",
            "\u{212b}ngstrom.example",
            "\u{2126}mega.example",
            "mi\u{17f}t.example",
            "\u{3f4}eta.example",
            // Capitals with two small forms, or with a small form of two letters.
            "\u{392}\u{38c}\u{39b}\u{39f}\u{3a3}.example",
            "\u{130}stanbul.example",
            "STRA\u{1e9e}E.example",
            // Full width, decomposed, ligatures, joiners out of place.
            "\u{ff47}ood.example",
            "mu\u{308}nchen.example",
            "o\u{fb03}ce.example",
            "go\u{200d}od.example",
            "go\u{200c}od.example",
            "go\u{ad}od.example",
            "go\u{fe0f}od.example",
            "good\u{ff61}example",
            // A-labels that encode no valid U-label, or nothing.
            "xn--a.example",
            "xn--a-.example",
            "xn--.example",
            "xn--good-.example",
            "xn--Mnchen-3yA\u{e9}.example",
            "xn--munchen-gie.example",
            "xn--ood-c86s.example",
            "xn--kz9a.example",
            "xn--ab-m1t.example",
            "xn--zzzzzzzzzzzz.example",
        ] {
            assert!(DomainName::parse(text).is_err(), "{text:?}");
        }
        let large = DomainName::parse("\u{413}\u{41e}\u{414}.example");
        assert_eq!(large, DomainName::parse("\u{433}\u{43e}\u{434}.example"));
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
