//! `/domains`, `/domain`: the mail domains of an account, and the proof of owning them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::tenancy::{Proof, proof_name};
use crate::domain::domain_name::DomainName;
use crate::http::typed::{Call, Problem, refused, successes};
use crate::store::HeldDomain;
use crate::wire::Number;

/// A mail domain of an account, or one that it claims.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Domain")]
pub struct MailDomain {
    /// The name of the domain.
    #[schemars(example = &DOMAIN)]
    domain: String,
    /// The account that has or claims the domain.
    account_id: Number,
    /// Whether the domain is proven.
    verified: bool,
    /// The text for the TXT record _gatepost.<domain>; null once the domain is proven.
    challenge: Option<String>,
}

const DOMAIN: &str = "agents.example";

/// Lists the mail domains of an account
#[derive(Debug, Deserialize, JsonSchema)]
pub struct List {}

successes! {
    Domains {
        /// All domains of the account.
        domains: Vec<MailDomain>
    } = OK "domains found";
    Claimed {
        #[serde(flatten)]
        all: Domains,
        #[serde(skip)]
        message: String,
    } = CREATED "the domain is claimed", varies;
    Removed: Domains = OK "the account no longer has the domain";
}

pub async fn list(call: Call, _: List) -> Result<Domains, Problem> {
    list_all(&call).await
}

/// Claims or verifies a mail domain
///
/// Send the domain again once its TXT record is published: the answer says whether the record was
/// found.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Claim {
    /// The domain.
    #[schemars(example = &DOMAIN)]
    domain: String,
}

impl Claimed {
    fn own_message(&self) -> &str {
        &self.message
    }
}

pub async fn claim(call: Call, request: Claim) -> Result<Claimed, Problem> {
    let domain = DomainName::parse(&request.domain).map_err(|error| refused("domain", &error))?;
    let (tenancy, dns) = (call.tenancy(), &call.http.use_cases.dns);
    let message = match tenancy.claim_domain(&domain, call.account().id, dns).await? {
        Proof::Given => format!("{domain} belongs to the account"),
        Proof::Missing => format!(
            "not verified yet: publish a TXT record {} with the text in challenge, then send the \
             domain again, with another Idempotency-Key if you use one",
            proof_name(&domain)
        ),
    };
    Ok(Claimed { all: list_all(&call).await?, message })
}

/// Gives up a mail domain, or the claim to it
///
/// Name it in the query or in the body.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Remove {
    /// The domain.
    #[schemars(example = &DOMAIN)]
    domain: String,
}

pub async fn remove(call: Call, request: Remove) -> Result<Removed, Problem> {
    // Accepts a name that an earlier version stored, as the list shows it.
    let text = &request.domain;
    let domain = DomainName::parse(text).or_else(|error| DomainName::kept(text).map_err(|_| error));
    let domain = domain.map_err(|error| refused("domain", &error))?;
    call.tenancy().remove_domain(&domain, call.account().id).await?;
    list_all(&call).await.map(Removed)
}

async fn list_all(call: &Call) -> Result<Domains, Problem> {
    let shape = |held: HeldDomain| MailDomain {
        domain: held.domain.as_str().to_owned(),
        account_id: held.account.into(),
        verified: held.challenge.is_none(),
        challenge: held.challenge,
    };
    let domains = call.tenancy().domains(Some(call.account().id)).await?;
    Ok(Domains { domains: domains.into_iter().map(shape).collect() })
}
