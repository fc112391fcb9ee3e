//! `/domains`, `/domain`: the mail domains of an account, and how it proves that they are its own.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::answer::success;
use super::super::call::Call;
use super::super::error::Problem;
use super::super::state::Http;
use crate::app::tenancy::{Proof, proof_name};
use crate::domain::domain_name::{DomainName, DomainNameError};
use crate::store::HeldDomain;

/// All that the account has or claims.
pub(in super::super) async fn list(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let fields = shape(&http, &call).await?;
    Ok(success(StatusCode::OK, "domains found", fields))
}

/// Claims a domain, or looks for the proof of a claim.
pub(in super::super) async fn claim(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let domain = DomainName::parse(call.body().required_text("domain")?);
    let domain = domain.map_err(|error| refused(&error))?;
    let (tenancy, dns) = (call.tenancy(&http), &http.use_cases.dns);
    let message = match tenancy.claim_domain(&domain, call.account().id, dns).await? {
        Proof::Given => format!("{domain} belongs to the account"),
        Proof::Missing => format!(
            "not verified yet: publish a TXT record {} with the text in challenge, and send it \
             again when the record is published, with another Idempotency-Key if you use one",
            proof_name(&domain)
        ),
    };
    let fields = shape(&http, &call).await?;
    Ok(success(StatusCode::CREATED, &message, fields))
}

/// Gives a domain up, or the claim to it.
pub(in super::super) async fn remove(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let text = match (call.query().get("domain"), call.body().text("domain")?) {
        (Some(text), None) | (None, Some(text)) => text,
        _ => return Err(Problem::invalid("name the domain once: in the body or in the query")),
    };
    // One that an earlier version took can be removed, as the list shows it.
    let domain = DomainName::parse(text).or_else(|error| DomainName::kept(text).map_err(|_| error));
    let domain = domain.map_err(|error| refused(&error))?;
    call.tenancy(&http).remove_domain(&domain, call.account().id).await?;
    let fields = shape(&http, &call).await?;
    Ok(success(StatusCode::OK, "the account no longer has the domain", fields))
}

fn refused(error: &DomainNameError) -> Problem {
    Problem::invalid(format!("domain: {error}"))
}

async fn shape(http: &Http, call: &Call) -> Result<Value, Problem> {
    let domains = call.tenancy(http).domains(Some(call.account().id)).await?;
    Ok(json!({ "domains": domains.iter().map(entry).collect::<Vec<_>>() }))
}

fn entry(held: &HeldDomain) -> Value {
    json!({
        "domain": held.domain.as_str(),
        "accountId": held.account.get(),
        "verified": held.challenge.is_none(),
        "challenge": held.challenge,
    })
}
