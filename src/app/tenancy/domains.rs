//! Domains: given by the operator, whose word is proof, or proven by what their DNS says.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{Tenancy, TenancyError};
use crate::domain::account::AccountType;
use crate::domain::domain_name::DomainName;
use crate::domain::id::AccountId;
use crate::store::{DomainClaim, DomainLimits, HeldDomain, Proven};
use crate::verify::{Authenticator, is_public_suffix};

/// A name on the wire has 255 octets (RFC 1035 §2.3.4): as text, without its final dot, 253.
const LONGEST_NAME: usize = 253;

/// Whether a domain is an account's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It is.
    Given,
    /// Its DNS does not hold the challenge.
    Missing,
}

impl Tenancy {
    /// Gives a domain to an account; it belongs to one account only.
    pub async fn add_domain(
        &self,
        domain: &DomainName,
        account: AccountId,
    ) -> Result<(), TenancyError> {
        let account = self.account(account).await?;
        if account.kind == AccountType::Agent {
            return Err(TenancyError::Invalid(
                "a domain belongs to a partner, a reseller or an organization; give the Agent an \
                 address in it instead"
                    .into(),
            ));
        }
        let owner = self.store.claim_domain(domain, account.id, self.act()).await?;
        if owner == account.id { Ok(()) } else { Err(taken(domain)) }
    }

    /// Claims a domain for an account, or proves a claim that it has: by a TXT record of
    /// [`proof_name`] that holds the challenge, exactly. No transaction is open while `dns` is
    /// asked.
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
            // Nobody can have published what has just been made; and whoever asks for a name before
            // it is there has every resolver on the way remember that it is not.
            DomainClaim::Made => return Ok(Proof::Missing),
            DomainClaim::Pending(challenge) => challenge,
            DomainClaim::Taken => return Err(taken(domain)),
            DomainClaim::TooManyClaims => {
                return Err(TenancyError::Conflict(format!(
                    "an account claims at most {} domains at a time: prove one, or delete one",
                    limits.claims
                )));
            }
            DomainClaim::TooManyDomains => {
                return Err(TenancyError::Conflict(format!(
                    "an account has at most {} domains, claimed ones included: delete one first",
                    limits.domains
                )));
            }
            DomainClaim::NoAccount => {
                return Err(TenancyError::NotFound(format!("there is no account {account}")));
            }
        };
        let texts = dns.texts(proof_name(domain), rules.lookup()).await.map_err(|cause| {
            let detail = format!(
                "the DNS of {domain} does not answer; nothing was changed: try again after the time \
                 in Retry-After"
            );
            TenancyError::Unavailable { detail, cause }
        })?;
        if !texts.iter().any(|text| text == challenge.as_bytes()) {
            return Ok(Proof::Missing);
        }
        match self.store.prove_domain(domain, account, &challenge, self.act()).await? {
            Proven::Yes => Ok(Proof::Given),
            Proven::Taken => Err(taken(domain)),
            Proven::NoClaim => Err(TenancyError::Conflict(format!(
                "the claim to {domain} was deleted meanwhile: claim it again"
            ))),
        }
    }

    /// The domains of an account, or all, and those that are claimed and not proven, by name.
    pub async fn domains(
        &self,
        account: Option<AccountId>,
    ) -> Result<Vec<HeldDomain>, TenancyError> {
        Ok(self.store.domains(account).await?)
    }

    /// Takes a domain from an account, once no address uses it, or ends its claim to it.
    pub async fn remove_domain(
        &self,
        domain: &DomainName,
        account: AccountId,
    ) -> Result<(), TenancyError> {
        match self.store.remove_domain(domain, account, self.act()).await? {
            None => Err(TenancyError::NotFound(format!("{domain} does not belong to {account}"))),
            Some(0) => Ok(()),
            Some(used) => Err(TenancyError::Conflict(format!(
                "{used} addresses use {domain}: remove them first"
            ))),
        }
    }
}

/// The name whose TXT record proves whose a domain is.
pub fn proof_name(domain: &DomainName) -> String {
    format!("_gatepost.{domain}")
}

/// One answer, whoever has it.
fn taken(domain: &DomainName) -> TenancyError {
    TenancyError::Conflict(format!("{domain} belongs to another account"))
}

/// What a record can prove; the operator may give other domains, too.
fn provable(domain: &DomainName, hostname: &str) -> Result<(), TenancyError> {
    let why = if is_public_suffix(domain) {
        "is a public suffix: whoever publishes a record there does not speak for the names below \
         it; claim a domain of your own below it"
    } else if domain.as_str() == hostname {
        "is the name of this server: claim the domain that its mail is for"
    } else if proof_name(domain).len() > LONGEST_NAME {
        "is too long to be proven: with _gatepost. before it, it has more than 253 octets"
    } else {
        return Ok(());
    };
    Err(TenancyError::Invalid(format!("{domain} {why}")))
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
        for (domain, why) in [
            ("co.uk", "public suffix"),
            ("github.io", "public suffix"),
            ("example", "public suffix"),
            ("XN--P1AI", "public suffix"),
            ("mx.gatepost.example", "name of this server"),
            (&longest(244), "too long"),
            ("bank.co.uk", ""),
            ("münchen.example", ""),
            ("sub.mx.gatepost.example", ""),
            ("gatepost.example", ""),
            (&longest(243), ""),
        ] {
            let parsed = DomainName::parse(domain).unwrap();
            match provable(&parsed, "mx.gatepost.example") {
                Ok(()) => assert_eq!(why, "", "{domain}"),
                Err(TenancyError::Invalid(said)) => {
                    assert!(!why.is_empty() && said.contains(why), "{domain}: {said}");
                }
                Err(other) => panic!("{domain}: {other:?}"),
            }
        }
    }
}
