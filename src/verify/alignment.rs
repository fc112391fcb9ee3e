//! Whether a signature's domain may speak for the From domain (contract §2, Authentication).
//!
//! By the public suffix list, ICANN and private sections, not by the tree walk of RFC 9989: a
//! public suffix that publishes a DMARC record would otherwise join its tenants.

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

/// Equal names always align, also where they are public suffixes themselves (nhs.uk, eu.org);
/// relaxed, so do two names with equal organizational domains.
pub(super) fn aligned(signer: &DomainName, from: &DomainName, mode: Alignment) -> bool {
    if signer == from {
        return true;
    }
    match mode {
        Alignment::Strict => false,
        Alignment::Relaxed => {
            let organization = organizational(signer);
            organization.is_some() && organization == organizational(from)
        }
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
            assert_eq!(aligned(&signer, &from, Alignment::Relaxed), relaxed, "{signer} {from}");
            assert_eq!(aligned(&signer, &from, Alignment::Strict), signer == from);
        }
    }
}
