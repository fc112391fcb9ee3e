//! Whether a signature's domain may speak for the From domain (contract §2, Authentication).
//!
//! By the public suffix list, ICANN and private sections, not by the tree walk of RFC 9989: a
//! public suffix that publishes a DMARC record would otherwise join its tenants. Such a record can
//! forbid (`adkim=s`), and never allow.

use crate::domain::domain_name::DomainName;
use crate::rules::Alignment;

/// The organizational domain: one label more than the longest public suffix. `None` where the
/// domain is itself a public suffix. A top-level domain that is not on the list counts as one
/// (the list's default rule `*`), so `mail.good.example` belongs to `good.example`.
pub(super) fn organizational(domain: &DomainName) -> Option<&str> {
    psl::domain_str(domain.as_str())
}

/// Whether strangers have names directly below this one (`co.uk`, `github.io`, any single label).
pub fn is_public_suffix(domain: &DomainName) -> bool {
    organizational(domain).is_none()
}

/// How the domain of a signature stands to the From domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// It is the From domain. Equal names always align, also where they are public suffixes
    /// themselves (nhs.uk, eu.org).
    Itself,
    /// Of the same organizational domain: aligned where alignment is relaxed.
    Related,
    /// Related, and the DMARC record of the From domain says `adkim=s`.
    Forbidden,
    /// Related, and nobody knows for the time being whether the record forbids it.
    Open,
    Stranger,
}

impl Relation {
    /// Under the rule of the operator alone.
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

    /// Under what the DMARC record of the From domain says, too.
    pub(super) const fn under(self, adkim: &Adkim) -> Self {
        match (self, adkim) {
            (Self::Related, Adkim::Strict { .. }) => Self::Forbidden,
            (Self::Related, Adkim::Unknown) => Self::Open,
            (other, _) => other,
        }
    }

    /// The signer speaks for the From domain.
    pub(super) const fn is_aligned(self) -> bool {
        matches!(self, Self::Itself | Self::Related)
    }

    /// It does, or it might if a look-up had not failed.
    pub(super) const fn may_align(self) -> bool {
        self.is_aligned() || matches!(self, Self::Open)
    }
}

/// What the DMARC record that applies to the From domain says of DKIM alignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Adkim {
    /// `adkim=r`, or there is no record.
    Relaxed,
    /// `adkim=s`, in the record of this name.
    Strict { record: String },
    /// The look-up failed for the time being.
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

    /// The name of the record that makes alignment strict; empty where none does.
    pub(super) fn record(&self) -> &str {
        if let Self::Strict { record } = self { record } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            // Only what is related by the list alone depends on what the domain publishes.
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
