//! Alignment: whether a signature's domain may speak for the From domain (contract §2,
//! Authentication).
//!
//! Uses the public suffix list, ICANN and private sections, not the tree walk of RFC 9989: there, a
//! public suffix with a DMARC record would join its tenants. A DMARC record can forbid (`adkim=s`),
//! never allow.

use crate::domain::domain_name::DomainName;
use crate::rules::Alignment;

/// Returns the organizational domain: one label more than the longest public suffix; None if the
/// domain is itself a public suffix. A top-level domain that is not on the list counts as one (the
/// list's default rule `*`), so `mail.good.example` belongs to `good.example`.
pub(super) fn organizational(domain: &DomainName) -> Option<&str> {
    psl::domain_str(domain.as_str())
}

/// Tells whether strangers may own names directly below this one (`co.uk`, `github.io`, any single
/// label).
pub fn is_public_suffix(domain: &DomainName) -> bool {
    organizational(domain).is_none()
}

/// Relation of a signature's domain to the From domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// The From domain itself. Equal names always align, even if they are public suffixes (nhs.uk,
    /// eu.org).
    Itself,
    /// Same organizational domain; aligned if alignment is relaxed.
    Related,
    /// Related, but the DMARC record of the From domain has `adkim=s`.
    Forbidden,
    /// Related, but the look-up that could forbid it failed for now.
    Open,
    Stranger,
}

impl Relation {
    /// Returns the relation under the operator's rule alone.
    pub(super) fn of(signer: &DomainName, from: &DomainName, mode: Alignment) -> Self {
        let organization = organizational(signer);
        if signer == from {
            Self::Itself
        } else if mode == Alignment::Relaxed
            && organization.is_some()
            && organization == organizational(from)
        {
            Self::Related
        } else {
            Self::Stranger
        }
    }

    /// Applies the DMARC record of the From domain.
    pub(super) const fn under(self, adkim: &Adkim) -> Self {
        match (self, adkim) {
            (Self::Related, Adkim::Strict { .. }) => Self::Forbidden,
            (Self::Related, Adkim::Unknown) => Self::Open,
            (other, _) => other,
        }
    }

    /// Tells whether the signer speaks for the From domain.
    pub(super) const fn is_aligned(self) -> bool {
        matches!(self, Self::Itself | Self::Related)
    }

    /// Tells whether the signer speaks for the From domain, or might if a look-up had not failed.
    pub(super) const fn may_align(self) -> bool {
        self.is_aligned() || matches!(self, Self::Open)
    }
}

/// DKIM alignment in the DMARC record that applies to the From domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Adkim {
    /// `adkim=r`, or no record.
    Relaxed,
    /// `adkim=s`, in the record with this name.
    Strict { record: String },
    /// The look-up failed for now.
    Unknown,
}

impl Adkim {
    /// The word in the evidence.
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::Relaxed => "relaxed",
            Self::Strict { .. } => "strict",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the name of the record that makes alignment strict; empty if none does.
    pub(super) fn record(&self) -> &str {
        if let Self::Strict { record } = self { record } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list's own cases.
    #[test]
    fn the_suite_of_the_public_suffix_list_comes_out_as_published() {
        let suite = include_str!("../../fixtures/public-suffix.txt");
        let cases = suite.lines().filter(|line| !line.starts_with('#'));
        let cases: Vec<_> = cases.map(|line| line.split_once(' ').unwrap()).collect();
        assert_eq!(cases.len(), 77);
        for (name, expected) in cases {
            let parsed = DomainName::parse(name).ok();
            assert_eq!(parsed.is_none(), name.starts_with('.'), "{name}");
            let found = parsed.as_ref().and_then(organizational);
            let expected = Some(expected).filter(|text| *text != "-");
            let expected = expected.map(|text| DomainName::parse(text).unwrap());
            assert_eq!(found, expected.as_ref().map(DomainName::as_str), "{name}");
        }
    }

    #[test]
    fn who_speaks_for_whom() {
        for (signer, from, relaxed) in [
            ("good.example", "good.example", true),
            ("mail.good.example", "good.example", true),
            ("good.example", "news.good.example", true),
            ("a.good.example", "b.good.example", true),
            ("good.example", "notgood.example", false),
            ("example", "good.example", false),
            ("co.uk", "bank.co.uk", false),
            ("bank.co.uk", "shop.co.uk", false),
            ("mail.bank.co.uk", "bank.co.uk", true),
            ("github.io", "b.github.io", false),
            ("a.github.io", "b.github.io", false),
            ("x.a.github.io", "a.github.io", true),
            ("nhs.uk", "nhs.uk", true),
            ("eu.org", "eu.org", true),
            ("eu.org", "x.eu.org", false),
            ("com", "com", true),
        ] {
            let (signer, from) =
                (DomainName::parse(signer).unwrap(), DomainName::parse(from).unwrap());
            let of = |mode| Relation::of(&signer, &from, mode);
            assert_eq!(of(Alignment::Relaxed).is_aligned(), relaxed, "{signer} {from}");
            assert_eq!(of(Alignment::Strict).is_aligned(), signer == from);
            // Only a relation by the list depends on the DMARC record.
            let strict = Adkim::Strict { record: "_dmarc.good.example".into() };
            let related = relaxed && signer != from;
            for (adkim, then) in [(strict, Relation::Forbidden), (Adkim::Unknown, Relation::Open)] {
                let relation = of(Alignment::Relaxed);
                let expected = if related { then } else { relation };
                assert_eq!(relation.under(&adkim), expected, "{signer} {from} {adkim:?}");
                assert_eq!(relation.under(&adkim).is_aligned(), signer == from);
            }
            assert_eq!(of(Alignment::Relaxed).under(&Adkim::Relaxed).is_aligned(), relaxed);
        }
    }
}
