//! Domains: given by the operator, whose word is proof, or proven by a DNS record.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio::time::Instant;

use super::error::Unprovable;
use super::{Tenancy, TenancyError};
use crate::domain::account::AccountType;
use crate::domain::domain_name::DomainName;
use crate::domain::id::AccountId;
use crate::store::{DomainClaim, DomainLimits, DomainProof, HeldDomain};
use crate::verify::{Authenticator, is_public_suffix};

/// A name has 255 bytes on the wire (RFC 1035 §2.3.4): 253 as text without the final dot.
const LONGEST_NAME: usize = 253;

/// The result of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The account owns the domain.
    Given,
    /// The DNS lacks the challenge.
    Missing,
}

impl Tenancy {
    /// Gives a domain to an account. Fails with `DomainTaken` if another account owns it.
    pub async fn add_domain(
        &self,
        domain: &DomainName,
        account: AccountId,
    ) -> Result<(), TenancyError> {
        let account = self.account(account).await?;
        if account.kind == AccountType::Agent {
            return Err(TenancyError::DomainOfAgent);
        }
        let owner = self.store.claim_domain(domain, account.id, self.act()).await?;
        let is_owner = owner == account.id;
        is_owner.then_some(()).ok_or_else(|| TenancyError::DomainTaken(domain.clone()))
    }

    /// Claims a domain for an account, or proves its pending claim: a TXT record at [`proof_name`]
    /// must equal the challenge. A new claim is `Missing` at once. No transaction is open during
    /// the look-up.
    pub async fn claim_domain(
        &self,
        domain: &DomainName,
        account: AccountId,
        dns: &Authenticator,
    ) -> Result<Proof, TenancyError> {
        provable(domain, dns.hostname())?;
        let rules = &self.rules.domains;
        let limits = DomainLimits { claims: rules.max_claims, domains: rules.max_domains };
        let fresh = format!("gatepost-verify={}", URL_SAFE_NO_PAD.encode(self.mint.secret()));
        let claim = self.store.pending_claim(domain, account, &fresh, limits, self.act()).await?;
        let challenge = match claim {
            DomainClaim::Owned => return Ok(Proof::Given),
            // Nobody can have published a new challenge yet. And looking up a name before it exists
            // makes every resolver on the way remember that it does not.
            DomainClaim::Made => return Ok(Proof::Missing),
            DomainClaim::Pending(challenge) => challenge,
            DomainClaim::Taken => return Err(TenancyError::DomainTaken(domain.clone())),
            DomainClaim::TooManyClaims => {
                return Err(TenancyError::TooManyClaims { most: limits.claims });
            }
            DomainClaim::TooManyDomains => {
                return Err(TenancyError::TooManyDomains { most: limits.domains });
            }
            DomainClaim::NoAccount => return Err(TenancyError::NoAccount(account)),
        };
        let texts = dns.texts(proof_name(domain), Instant::now() + rules.lookup()).await;
        let texts = texts.map_err(|source| TenancyError::Dns { domain: domain.clone(), source })?;
        if !texts.iter().any(|text| text == challenge.as_bytes()) {
            return Ok(Proof::Missing);
        }
        match self.store.prove_domain(domain, account, &challenge, self.act()).await? {
            DomainProof::Yes => Ok(Proof::Given),
            DomainProof::Taken => Err(TenancyError::DomainTaken(domain.clone())),
            DomainProof::NoClaim => Err(TenancyError::ClaimGone(domain.clone())),
        }
    }

    /// Lists the domains of one account or of all, by name, unproven claims included.
    pub async fn domains(
        &self,
        account: Option<AccountId>,
    ) -> Result<Vec<HeldDomain>, TenancyError> {
        Ok(self.store.domains(account).await?)
    }

    /// Tells whether an account owns this domain.
    pub async fn has_domain(&self, domain: &DomainName) -> Result<bool, TenancyError> {
        Ok(self.store.has_domain(domain).await?)
    }

    /// Removes a domain from an account, or ends its claim. Fails with `DomainInUse` while an
    /// address uses the domain.
    pub async fn remove_domain(
        &self,
        domain: &DomainName,
        account: AccountId,
    ) -> Result<(), TenancyError> {
        let used = self.store.remove_domain(domain, account, self.act()).await?;
        let domain = domain.clone();
        match used {
            None => Err(TenancyError::DomainElsewhere { domain, account }),
            Some(0) => Ok(()),
            Some(used) => Err(TenancyError::DomainInUse { domain, used }),
        }
    }
}

/// The name of the TXT record that proves the owner of a domain.
pub fn proof_name(domain: &DomainName) -> String {
    format!("_gatepost.{domain}")
}

/// Fails for domains that no record can prove. The operator may still give them to an account.
fn provable(domain: &DomainName, hostname: &str) -> Result<(), TenancyError> {
    let why = if is_public_suffix(domain) {
        Unprovable::PublicSuffix
    } else if domain.as_str() == hostname {
        Unprovable::ThisServer
    } else if proof_name(domain).len() > LONGEST_NAME {
        Unprovable::TooLong
    } else {
        return Ok(());
    };
    Err(TenancyError::Unprovable { domain: domain.clone(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_can_prove_is_said_so() {
        let labels = format!("{0}.{0}.{0}.", "a".repeat(63));
        let longest = |octets: usize| {
            let rest = octets - labels.len() - ".example".len();
            format!("{labels}{}.example", "a".repeat(rest))
        };
        for (domain, expected) in [
            ("co.uk", Some(Unprovable::PublicSuffix)),
            ("github.io", Some(Unprovable::PublicSuffix)),
            ("example", Some(Unprovable::PublicSuffix)),
            ("XN--P1AI", Some(Unprovable::PublicSuffix)),
            ("mx.gatepost.example", Some(Unprovable::ThisServer)),
            (&longest(244), Some(Unprovable::TooLong)),
            ("bank.co.uk", None),
            ("münchen.example", None),
            ("sub.mx.gatepost.example", None),
            ("gatepost.example", None),
            (&longest(243), None),
        ] {
            let parsed = DomainName::parse(domain).unwrap();
            match (provable(&parsed, "mx.gatepost.example"), expected) {
                (Ok(()), None) => {}
                (Err(TenancyError::Unprovable { why, .. }), Some(expected)) if why == expected => {}
                (other, _) => panic!("{domain}: {other:?}"),
            }
        }
    }
}
