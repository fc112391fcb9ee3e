//! `/email/inboundPolicy`: the senders that may write to an Agent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::id::AccountId;
use crate::domain::policy::{Mode, Policy};
use crate::http::typed::{Call, Problem, successes};
use crate::wire::{Date, Number, Word};

/// The inbound policy of an Agent.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InboundPolicy {
    /// The Agent.
    account_id: Number,
    /// allowlist admits the senders on the list, open any authenticated sender.
    mode: Word<Mode>,
    /// Number of senders on the list.
    allowlist_count: u64,
    /// When the policy or the list last changed.
    updated_at: Date,
}

/// Shows the inbound policy of an Agent
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Show {}

successes! {
    PolicyAnswer { policy: InboundPolicy } = OK "inbound policy found";
    Changed: PolicyAnswer = OK "inbound policy set";
}

pub async fn show(call: Call, _: Show) -> Result<PolicyAnswer, Problem> {
    let agent = call.account().id;
    let policy = call.tenancy().policy(agent).await?;
    Ok(PolicyAnswer { policy: shape(agent, &policy) })
}

/// Sets the inbound policy of an Agent
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Set {
    /// allowlist admits the senders on the list, open any authenticated sender.
    mode: Word<Mode>,
}

pub async fn set(call: Call, request: Set) -> Result<Changed, Problem> {
    let (agent, Word(mode)) = (call.account().id, request.mode);
    let policy = call.tenancy().set_mode(agent, mode).await?;
    Ok(Changed(PolicyAnswer { policy: shape(agent, &policy) }))
}

fn shape(agent: AccountId, policy: &Policy) -> InboundPolicy {
    InboundPolicy {
        account_id: agent.into(),
        mode: Word(policy.mode),
        allowlist_count: policy.allowlist_count,
        updated_at: Date(policy.updated_at),
    }
}
