//! A webhook as the API and the command line show it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::domain::clock::{Clock, Timestamp};
use crate::domain::destination::{Destination, Payload, Wants};
use crate::domain::event::Category;
use crate::domain::secret::MASK;
use crate::egress::signature;
use crate::wire::{Date, Id, Number, Seconds, Word};

/// A webhook, without its secret.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    /// The id of the webhook.
    id: Id,
    /// The account that it belongs to.
    user_id: Number,
    /// Where it listens, https.
    #[schemars(example = &"https://hooks.example/gatepost")]
    url: String,
    /// Its name, for people.
    #[schemars(example = &"CRM")]
    label: String,
    /// Which events it gets.
    r#type: Word<Category>,
    /// When it was made, in Unix seconds.
    timestamp: Seconds,
    /// When it was made.
    created_at: Date,
    /// The key that verifies its v1a signatures.
    public_key: Option<String>,
    /// Whether it gets each room in order.
    ordered: bool,
    /// How much of each event is sent.
    payload: Word<Payload>,
    /// Headers that are sent with each attempt.
    headers: Vec<CustomHeader>,
    /// Why the webhook is disabled; null if it is not.
    disabled: Option<Disabled>,
    /// How often it failed since it last succeeded.
    failures: u64,
    /// Since when it fails.
    failing_since: Option<Date>,
    /// When the secret was last rotated.
    secret_rotated_at: Option<Date>,
    /// Until when the previous secret also signs.
    former_secret_until: Option<Date>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Disabled {
    /// Since when.
    since: Date,
    /// Why.
    reason: String,
}

/// A header by its name. Answers show ******** in the place of its value, which leaves it as it is when it is
/// sent back.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(
    extend("minProperties" = 1, "maxProperties" = 1, "x-expected" = "an object of one name and its text, such as {\"X-Api-Key\": \"…\"}"),
    example = json!({ "X-Api-Key": MASK })
)]
pub struct CustomHeader(BTreeMap<String, String>);

impl CustomHeader {
    /// As an answer shows it.
    pub fn masked(name: &str) -> Self {
        Self(BTreeMap::from([(name.to_owned(), MASK.to_owned())]))
    }

    pub fn pairs(given: Vec<Self>) -> Vec<(String, String)> {
        given.into_iter().flat_map(|Self(header)| header).collect()
    }
}

/// Returns the time until which a former secret also signs; None if none does.
pub fn former_until(webhook: &Destination, now: Timestamp) -> Option<Timestamp> {
    webhook.former_secrets.iter().map(|one| one.until).filter(|until| *until > now).max()
}

impl Webhook {
    /// Returns the record, without the secret and the values of headers.
    pub fn of(webhook: &Destination, clock: &Clock) -> Self {
        let Wants { ordered, payload, headers } = &webhook.wants;
        let disabled = webhook.disabled.as_ref();
        Self {
            id: Id(webhook.id.0),
            user_id: webhook.account.into(),
            url: webhook.url.to_string(),
            label: webhook.label.clone(),
            r#type: Word(webhook.category),
            timestamp: Seconds(webhook.created_at),
            created_at: Date(webhook.created_at),
            public_key: signature::public_key(&webhook.secret),
            ordered: *ordered,
            payload: Word(*payload),
            headers: headers.iter().map(|one| CustomHeader::masked(&one.name)).collect(),
            disabled: disabled
                .map(|one| Disabled { since: Date(one.at), reason: one.reason.clone() }),
            failures: webhook.health.failures,
            failing_since: webhook.health.failing_since.map(|at| Date(clock.wall_of(at))),
            secret_rotated_at: webhook.secret_rotated_at.map(Date),
            former_secret_until: former_until(webhook, clock.now()).map(Date),
        }
    }
}
