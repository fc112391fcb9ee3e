//! `/email/addresses`: the addresses under which an Agent receives mail.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::tenancy::{Claiming, TenancyError};
use crate::domain::address::Address;
use crate::http::typed::{Call, Problem, refused, successes};
use crate::store::HeldAddress;

/// An address of an Agent.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentAddress {
    /// The address.
    #[schemars(example = &DESK)]
    address: String,
    /// Catch-all for the domain.
    catch_all: bool,
}

const DESK: &str = "support@agents.example";

/// Lists the addresses of an Agent
#[derive(Debug, Deserialize, JsonSchema)]
pub struct List {}

successes! {
    Addresses {
        /// All addresses of the Agent.
        addresses: Vec<AgentAddress>
    } = OK "addresses found";
    Added: Addresses = CREATED "the Agent has the address";
    Removed: Addresses = OK "the Agent no longer has the address";
}

pub async fn list(call: Call, _: List) -> Result<Addresses, Problem> {
    list_all(&call).await
}

/// Gives an Agent an address
///
/// The domain must belong to an account above the Agent.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Add {
    /// The address.
    #[schemars(example = &DESK)]
    address: String,
    /// Catch-all for the domain.
    catch_all: Option<bool>,
}

pub async fn add(call: Call, request: Add) -> Result<Added, Problem> {
    let address = Address::parse(&request.address).map_err(|error| refused("address", &error))?;
    let catch_all = request.catch_all.unwrap_or_default();
    let tenancy = call.tenancy();
    tenancy.claim_address(call.account(), &address, catch_all, Claiming::Never).await?;
    list_all(&call).await.map(Added)
}

/// Takes an address from an Agent
///
/// Name it in the query or in the body.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Remove {
    /// The address.
    #[schemars(example = &DESK)]
    address: String,
}

pub async fn remove(call: Call, request: Remove) -> Result<Removed, Problem> {
    let (tenancy, agent) = (call.tenancy(), call.account().id);
    let named = tenancy.named_address(agent, &request.address).await;
    let address = named.map_err(|error| match error {
        TenancyError::NoAddress(error) => refused("address", &error),
        other => other.into(),
    })?;
    tenancy.release_address(agent, &address).await?;
    list_all(&call).await.map(Removed)
}

async fn list_all(call: &Call) -> Result<Addresses, Problem> {
    let addresses = call.tenancy().addresses(call.account().id).await?;
    let shape = |held: HeldAddress| AgentAddress {
        address: held.address.to_string(),
        catch_all: held.catch_all,
    };
    Ok(Addresses { addresses: addresses.into_iter().map(shape).collect() })
}
