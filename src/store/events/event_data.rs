//! The `data` that some events keep as it was at their time. Others read their subject when shown.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::domain::account::Account;
use crate::domain::destination::Destination;
use crate::domain::event::Category;
use crate::wire::{CampaignId, Date, Id, Number, Word};

/// Makes the stored `data` of an event.
pub fn event_data(data: &impl Serialize) -> Value {
    // This fails only for a map whose keys are not strings; no `data` has one.
    serde_json::to_value(data).unwrap_or_default()
}

/// The policy as it is now.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyData {
    /// The Agent.
    pub account_id: Number,
    /// The mode.
    #[schemars(extend("enum" = ["allowlist", "open"]))]
    pub mode: &'static str,
    /// How many senders are on the list now.
    pub allowlist_count: u64,
    /// How many senders this change added.
    pub added: usize,
    /// How many senders this change removed.
    pub removed: usize,
}

/// The live configuration now.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublishedData {
    #[serde(flatten)]
    pub changed: ChangedConfig,
    /// The version that was restored; null if the staged configuration was published.
    pub version_id: Option<Number>,
    /// The version that holds the previous live configuration, if there was one.
    pub previous_version_id: Option<Number>,
}

/// A configuration that changed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangedConfig {
    /// The Agent.
    pub account_id: Number,
    /// The id of the live configuration, which GET /agent/{agentConfigId} shows.
    pub campaign_id: CampaignId,
    /// The revision of the changed configuration.
    pub revision: i64,
    /// The names of the changed fields.
    pub changed: Vec<String>,
}

/// A webhook.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct NamedWebhook {
    /// The id of the webhook.
    id: Id,
    /// Scheme, host and port of the URL.
    origin: String,
    /// The label.
    label: String,
    /// The category of events that the webhook gets.
    #[serde(rename = "type")]
    category: Word<Category>,
}

/// Shows only the origin: paths contain secrets, and accounts above get the event too.
impl From<&Destination> for NamedWebhook {
    fn from(destination: &Destination) -> Self {
        Self {
            id: Id(destination.id.0),
            origin: destination.url.origin().ascii_serialization(),
            label: destination.label.clone(),
            category: Word(destination.category),
        }
    }
}

/// The webhook that is tested.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestData {
    /// The account of the webhook.
    account_id: Number,
    /// The webhook.
    webhook: NamedWebhook,
}

impl TestData {
    /// A test of a webhook of this account.
    pub fn of(account: &Account, destination: &Destination) -> Self {
        Self { account_id: account.id.into(), webhook: destination.into() }
    }
}

/// The webhook, and why it gets nothing any more.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DisabledData {
    /// The account of the webhook.
    pub account_id: Number,
    /// The webhook.
    pub webhook: NamedWebhook,
    /// Why nothing is sent any more.
    pub reason: String,
    /// Since when every attempt failed.
    pub failing_since: Option<Date>,
    /// The HTTP status of the last answer, if there was one.
    pub last_status: Option<u16>,
    /// The last error, in plain words.
    pub error: Option<String>,
}
