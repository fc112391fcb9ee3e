//! `/webhookRelay`: applications consulted before a message is processed, and ways in of providers
//! (contract §6).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::app::delivery::webhook_record::CustomHeader;
use crate::app::relay::verification;
use crate::app::relay::{InboundKey, RelayChange, RelaySettings};
use crate::domain::relay::{HopOutcome, Relay, RelayAttempt, RelayType};
use crate::domain::secret::MASK;
use crate::egress::signature;
use crate::http::typed::{Call, Problem, Success, refused_url, schema, successes};
use crate::wire::{Date, Id, Number, Word, schema_of};

/// The relay of an account, of one type.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Relay")]
pub struct Config {
    /// The kind of messages that are relayed.
    r#type: Word<RelayType>,
    /// The URL of the application; null while there is only a way in.
    #[schemars(example = &LISTENS)]
    url: Option<String>,
    /// How long the application may take, in milliseconds.
    #[schemars(example = &5000)]
    timeout: Option<u64>,
    /// Headers that are sent with each request.
    headers: Vec<CustomHeader>,
    /// The statuses with which it accepts a message; none means 200 to 299.
    #[schemars(example = &[200, 202])]
    success_status_codes: Vec<SuccessCode>,
    /// The URL for the provider's posts, with a secret key: share it with the provider only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", example = &"https://gatepost.example/inbound/mailgun/gpi_…/mime")]
    inbound_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Verification")]
    verification: Option<Verification>,
}

const LISTENS: &str = "https://app.example/inbound";

/// A relay with its last attempts.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WholeRelay")]
pub struct WholeConfig {
    #[serde(flatten)]
    config: Config,
    /// Newest first; only the last ones are kept.
    attempts: Vec<Attempt>,
}

/// A request to the application.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Attempt {
    /// The id of the attempt.
    id: Id,
    /// The Agent of the mail, or the account whose provider posted.
    account_id: Number,
    /// When it was made.
    date: Date,
    /// The outcome.
    outcome: Word<HopOutcome>,
    /// The status of the answer, if there was one.
    #[schemars(example = &200)]
    status: Option<u32>,
    /// How long the attempt took, in milliseconds.
    latency_ms: u64,
    /// Why the message was deferred, if it was.
    error: Option<String>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(transparent)]
struct SuccessCode(u16);

schema_of!([] SuccessCode, "SuccessCode", schema::within("One of them.", 200..=599));

/// By name; None is null.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Verification(BTreeMap<String, Option<String>>);

impl JsonSchema for Verification {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Verification".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let field = |about: &str| schema::or_null(schema::text(about));
        let field = |about: &str| schema::with(field(about), "x-null", true.into());
        let mut shown = schema::object(
            "Proof that the provider posted. Answers show ******** for a secret; sent back, it \
             keeps the secret. Null removes one.",
            vec![
                ("signingKey?", field("Mailgun: HTTP webhook signing key (required).")),
                ("publicKey?", field("SendGrid: public key of the signed webhook, in base64.")),
                ("username?", field("Postmark: user name in the URL.")),
                ("password?", field("Postmark: password in the URL.")),
                ("topicArn?", field("SES: the SNS topic that may post.")),
            ],
        );
        if generator.contract().is_deserialize() {
            shown = schema::with(shown, "additionalProperties", false.into());
        }
        let shown = schema::like(shown, json!({ "signingKey": MASK }));
        Schema::try_from(shown).unwrap_or_default()
    }
}

/// Lists the types of relays that can be set up
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Types {}

/// A type.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Type {
    /// Its name, for people.
    name: Word<RelayType>,
    /// The messages that it relays, and its settings.
    description: String,
}

pub async fn types(call: Call, _: Types) -> Result<TypesListed, Problem> {
    let relays = call.relays();
    let told = |(kind, description): &(RelayType, &str)| Type {
        name: Word(*kind),
        description: (*description).to_owned(),
    };
    Ok(TypesListed { types: relays.types().iter().map(told).collect() })
}

/// Lists the relays of an account
///
/// Lists only relays of the account itself, not those of the accounts above.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct List {}

pub async fn list(call: Call, _: List) -> Result<Listed, Problem> {
    let configured = call.relays().list(call.account().id).await?;
    Ok(Listed { configs: configured.iter().map(shape).collect() })
}

/// Shows the relay of this type, with its last attempts
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Show {
    /// The kind of messages that are relayed.
    #[schemars(extend("x-noun" = "relay type"))]
    r#type: Word<RelayType>,
}

pub async fn show(call: Call, request: Show) -> Result<RelayAnswer, Problem> {
    Ok(RelayAnswer { config: whole(&call, request.r#type.0).await? })
}

/// Sets the relay of this type, or changes it
///
/// Fields that are not sent stay. The application decides first on each message: a success status
/// lets the message be processed, 406 refuses it, and any other defers it. Of the relays of an
/// Agent and of the accounts above it, the nearest counts. All types but smtp have a way in: the
/// provider posts to inboundUrl, /inbound/{type}/{inboundKey} with its own key, without a token. Type
/// json has a way in alone: your own adapter posts there what receiveMessage takes, signed by
/// Standard Webhooks with `secret`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(example = json!({
    "url": LISTENS,
    "timeout": 5000,
    "headers": [{ "Authorization": "Bearer …" }],
    "successStatusCodes": [200, 202],
}), extend("minProperties" = 1))]
pub struct Set {
    /// The kind of messages that are relayed.
    #[schemars(extend("x-noun" = "relay type"))]
    r#type: Word<RelayType>,
    /// The https URL of the application. Without it only the way in changes.
    #[schemars(example = &LISTENS)]
    url: Option<String>,
    /// How long the application may take, in milliseconds.
    #[schemars(example = &5000)]
    timeout: Option<u64>,
    /// Headers that are sent with each request.
    headers: Option<Vec<CustomHeader>>,
    /// The statuses with which it accepts a message; none means 200 to 299.
    #[schemars(example = &[200, 202])]
    success_status_codes: Option<Vec<SuccessCode>>,
    /// Whether to make a new inbound key, for json with a new secret; the previous one stops working.
    rotate_inbound_key: Option<bool>,
    verification: Option<Verification>,
}

impl HasBeenSet {
    fn own_message(&self) -> &'static str {
        match (&self.secret, &self.config.config.url) {
            (Some(_), Some(_)) => Self::MESSAGE,
            (Some(_), None) => "inbound key set; its secret is shown only once",
            (None, None) => "inbound key set",
            (None, Some(_)) => "relay set",
        }
    }
}

/// Sets a relay, or changes the way in of its provider. Only the answer that makes a secret shows
/// it.
pub async fn set(call: Call, request: Set) -> Result<HasBeenSet, Problem> {
    let url = match &request.url {
        Some(text) => Some(call.http.urls.destination(text).await),
        None => None,
    };
    let url = url.transpose().map_err(|error| refused_url("url", &error))?;
    let codes = |codes: Vec<SuccessCode>| codes.into_iter().map(|SuccessCode(code)| code).collect();
    let change = RelayChange {
        url,
        timeout: request.timeout.map(Duration::from_millis),
        headers: request.headers.map(CustomHeader::pairs),
        success: request.success_status_codes.map(codes),
        verification: request.verification.map(|Verification(given)| given),
        rotate_key: request.rotate_inbound_key.unwrap_or_default(),
    };
    let Word(kind) = request.r#type;
    let set = call.relays().set(call.account().id, kind, &change).await?;
    let config = whole(&call, kind).await?;
    Ok(HasBeenSet { config, secret: set.made.as_ref().map(signature::secret_text) })
}

/// Removes the relay of this type
///
/// Messages are processed without it from now on. The way in of the provider, and its verification,
/// stay: DELETE /webhookRelay/{type}/inboundKey ends those.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Remove {
    /// The kind of messages that are relayed.
    #[schemars(extend("x-noun" = "relay type"))]
    r#type: Word<RelayType>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Removed {}

/// Ends the inbound key of this type for good
///
/// The provider's posts to inboundUrl get 404 from now on. The relay stays. A later POST makes a
/// new key, which only its answer and this account's GET show.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RemoveInboundKey {
    /// The kind of messages that are relayed.
    #[schemars(extend("x-noun" = "relay type"))]
    r#type: Word<RelayType>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct InboundKeyRemoved {}

successes! {
    TypesListed {
        /// All types.
        types: Vec<Type>
    } = OK "relay types found";
    Listed {
        /// One of each type at most.
        configs: Vec<Config>
    } = OK "relays found";
    RelayAnswer { config: WholeConfig } = OK "relay found";
    Removed = OK "relay deleted; messages are processed without it from now on";
    InboundKeyRemoved = OK "inbound key ended; its URL answers 404 from now on";
    HasBeenSet {
        config: WholeConfig,
        /// The secret that signs its requests, for json those of your adapter; shown only in the
        /// answer that creates it.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String", example = &"whsec_…")]
        secret: Option<String>,
    } = OK "relay set; its secret is shown only once", varies;
}

/// Removes the relay at once, but not the way in.
pub async fn remove(call: Call, request: Remove) -> Result<Removed, Problem> {
    call.relays().remove(call.account().id, request.r#type.0).await?;
    Ok(Removed {})
}

/// Ends the way in at once, but keeps the relay.
pub async fn remove_inbound_key(
    call: Call,
    request: RemoveInboundKey,
) -> Result<InboundKeyRemoved, Problem> {
    call.relays().remove_inbound_key(call.account().id, request.r#type.0).await?;
    Ok(InboundKeyRemoved {})
}

async fn whole(call: &Call, kind: RelayType) -> Result<WholeConfig, Problem> {
    let relays = call.relays();
    let configured = relays.show(call.account().id, kind).await?;
    let attempts = match &configured.relay {
        Some(relay) => relays.attempts(relay.id).await?,
        None => Vec::new(),
    };
    Ok(WholeConfig { config: shape(&configured), attempts: attempts.iter().map(attempt).collect() })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Shows no secret except the inbound key, which the account gives to its provider. Headers show
/// their names, and that they have values.
fn shape(configured: &RelaySettings) -> Config {
    let RelaySettings { kind, relay, inbound_key, made: _ } = configured;
    let relay = relay.as_ref();
    let headers =
        |relay: &Relay| relay.headers.iter().map(|one| CustomHeader::masked(&one.name)).collect();
    let codes = |relay: &Relay| relay.success.iter().copied().map(SuccessCode).collect();
    let (url, verification) = match inbound_key {
        Some(InboundKey { url, verification, .. }) => (url.as_ref(), verification.as_ref()),
        None => (None, None),
    };
    let shown = |proof| {
        let shown = verification::masked_fields(proof).into_iter();
        Verification(shown.map(|(name, value)| (name.to_owned(), value)).collect())
    };
    Config {
        r#type: Word(*kind),
        url: relay.map(|relay| relay.url.to_string()),
        timeout: relay.map(|relay| millis(relay.timeout)),
        headers: relay.map(headers).unwrap_or_default(),
        success_status_codes: relay.map(codes).unwrap_or_default(),
        inbound_url: url.map(|url| String::from_utf8_lossy(url.expose()).into_owned()),
        verification: verification.map(shown),
    }
}

fn attempt(attempt: &RelayAttempt) -> Attempt {
    Attempt {
        id: Id(attempt.id.0),
        account_id: attempt.account.into(),
        date: Date(attempt.at),
        outcome: Word(attempt.outcome),
        status: attempt.status.map(u32::from),
        latency_ms: millis(attempt.took),
        error: attempt.error.clone(),
    }
}
