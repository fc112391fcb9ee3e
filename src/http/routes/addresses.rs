//! `/email/addresses`: the addresses under which an Agent receives mail.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::answer::success;
use super::super::call::Call;
use super::super::error::Problem;
use super::super::state::Http;
use crate::app::tenancy::{Claiming, TenancyError};
use crate::domain::address::Address;

/// All of them.
pub(in super::super) async fn list(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let fields = shape(&http, &call).await?;
    Ok(success(StatusCode::OK, "addresses found", fields))
}

/// Gives the Agent an address, in a domain of an account above it.
pub(in super::super) async fn add(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let address = Address::parse(call.body().required_text("address")?);
    let address = address.map_err(TenancyError::NoAddress)?;
    let catch_all = call.body().flag("catchAll")?.unwrap_or(false);
    let tenancy = call.tenancy(&http);
    tenancy.claim_address(call.account(), &address, catch_all, Claiming::Never).await?;
    let fields = shape(&http, &call).await?;
    Ok(success(StatusCode::CREATED, "the Agent has the address", fields))
}

/// Takes an address from the Agent.
pub(in super::super) async fn remove(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let text = match (call.query().get("address"), call.body().text("address")?) {
        (Some(text), None) | (None, Some(text)) => text,
        _ => return Err(Problem::invalid("name the address once: in the body or in the query")),
    };
    let (tenancy, agent) = (call.tenancy(&http), call.account().id);
    let address = tenancy.named_address(agent, text).await?;
    tenancy.release_address(agent, &address).await?;
    let fields = shape(&http, &call).await?;
    Ok(success(StatusCode::OK, "the Agent no longer has the address", fields))
}

async fn shape(http: &Http, call: &Call) -> Result<Value, Problem> {
    let addresses = call.tenancy(http).addresses(call.account().id).await?;
    Ok(json!({ "addresses": addresses.iter().map(entry).collect::<Vec<_>>() }))
}

fn entry((address, catch_all): &(Address, bool)) -> Value {
    json!({ "address": address.to_string(), "catchAll": catch_all })
}
