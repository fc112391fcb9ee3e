//! Details of an account that v2 clients send beside its name. They are checked,
//! stored and shown; only the plan decides something. One table has the type of each field.
//!
//! Secrets among them (credentials of providers, keys of apps) are not stored:
//! [`MASK`](crate::domain::secret::MASK) stands in their place.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::masking::{masked, without_secrets};
use crate::domain::account::{Details, PLAN};
use crate::domain::address::{Address, AddressError};
use crate::wire::{mark, schema_of};

/// The longest text of one field, in bytes. `max_account_bytes` of `policies/access.toml` bounds
/// all fields together.
const LONGEST_TEXT: usize = 2000;

/// How deep objects and arrays may nest. An event carries them some levels deeper, and the JSON
/// parser stops at 128.
const DEEPEST: usize = 32;

/// The type of a field.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    /// A mailbox.
    Email,
    Flag,
    Word(&'static [&'static str]),
    /// Any object; the names of its fields tell which are secrets.
    Object,
    List(&'static [ItemField]),
}

/// The type of a field of an object in a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Text,
    /// Optional, unlike the others.
    Flag,
    /// An object of credentials.
    Secret,
}

/// A field of an object in a list.
struct ItemField {
    name: &'static str,
    part: Part,
    about: &'static str,
}

struct Field {
    name: &'static str,
    kind: Kind,
    about: &'static str,
}

const FIELDS: &[Field] = &[
    field("email", Kind::Email, "The email address of a contact person."),
    field("firstName", Kind::Text, "A first name."),
    field("lastName", Kind::Text, "A last name."),
    field("description", Kind::Text, "A description, for people."),
    field("image", Kind::Text, "A picture, by its URL."),
    field("businessName", Kind::Text, "The name of the business."),
    field("businessAddress", Kind::Text, "The address of the business."),
    field(
        PLAN,
        Kind::Text,
        "The plan of the account; it decides which features the account has if policies/apps.toml \
         names it.",
    ),
    field("offeredProductPlanId", Kind::Text, "The plan offered to the account."),
    field("externalBillingId", Kind::Text, "The id of the account in your billing."),
    field("smsBrandId", Kind::Text, "The brand for SMS."),
    field("smsCampaignId", Kind::Text, "The campaign for SMS."),
    field("smsEnabled", Kind::Flag, "Whether the account has SMS."),
    field("servicePremium", Kind::Flag, "Whether the account has the premium service."),
    field("hipaaEnabledDefault", Kind::Flag, "Whether new accounts below start with HIPAA on."),
    field("hipaaSetting", Kind::Word(&["on", "off", "inherit"]), "Whether HIPAA applies."),
    field(
        "orgAccountType",
        Kind::Word(&["internal", "customer"]),
        "Kind of organization: internal, or a customer's.",
    ),
    field("settings", Kind::Object, "Settings of your own; secrets in them are masked."),
    field(
        "numberingProviders",
        Kind::List(&[
            item_field("providerId", Part::Text, "The provider."),
            item_field("default", Part::Flag, "Whether this provider is the default."),
            item_field(
                "config",
                Part::Secret,
                "The credentials; answers show only whether there are any.",
            ),
        ]),
        "Providers of telephone numbers.",
    ),
    field(
        "integrations",
        Kind::List(&[
            item_field("appId", Part::Text, "The app."),
            item_field("appVersion", Part::Text, "The version of the app."),
            item_field(
                "appData",
                Part::Secret,
                "The settings of the app; answers show only whether there are any.",
            ),
        ]),
        "Apps of the account.",
    ),
];

const fn field(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, kind, about }
}

const fn item_field(name: &'static str, part: Part, about: &'static str) -> ItemField {
    ItemField { name, part, about }
}

/// Declares the sets of details that requests may send; null removes a field.
macro_rules! sent_details {
    ($($(#[$doc:meta])* $name:ident = [$($field:literal),+];)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Details);

        schema_of!([] $name, stringify!($name), {
            let properties = [$($field),+].map(|name| (name.to_owned(), sent_schema(name)));
            json!({ "type": "object", "properties": Details::from_iter(properties) })
        });
    )+};
}

sent_details! {
    /// Details of a new reseller.
    NewReseller = ["email", "offeredProductPlanId", "productPlanId", "hipaaEnabledDefault"];
    /// Details of a new organization.
    NewOrganization = [
        "email", "orgAccountType", "productPlanId", "offeredProductPlanId", "externalBillingId",
        "hipaaSetting", "numberingProviders", "servicePremium", "smsEnabled", "smsBrandId",
        "smsCampaignId", "integrations"
    ];
    /// Details of a new Agent.
    NewAgent = ["externalBillingId", "integrations"];
    /// Details that an account changes with its own key.
    Own = [
        "firstName", "lastName", "description", "image", "businessName", "businessAddress", "email",
        "settings"
    ];
    /// Details of an organization that accounts above change.
    OfOrganization = [
        "productPlanId", "offeredProductPlanId", "email", "smsEnabled", "smsBrandId",
        "smsCampaignId", "servicePremium", "externalBillingId", "hipaaSetting", "orgAccountType"
    ];
    /// Details of an Agent that accounts above change.
    OfAgent = ["externalBillingId"];
}

/// Returns the schema of a field in a request, where null removes the field.
fn sent_schema(name: &str) -> Value {
    let mut schema = known(name).map(Field::schema).unwrap_or_default();
    if let Value::Object(keywords) = &mut schema {
        let kind = keywords.get("type").cloned();
        keywords.insert("type".to_owned(), json!([kind, "null"]));
        keywords.insert(mark::NULL.to_owned(), true.into());
        if let Some(Value::Array(words)) = keywords.get_mut("enum") {
            words.push(Value::Null);
        }
    }
    schema
}

fn known(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.name == name)
}

impl Field {
    fn schema(&self) -> Value {
        let mut schema = match self.kind {
            Kind::Text => json!({ "type": "string", "maxLength": LONGEST_TEXT }),
            Kind::Email => json!({ "type": "string", "examples": ["boss@good.example"] }),
            Kind::Flag => json!({ "type": "boolean" }),
            Kind::Word(words) => json!({ "type": "string", "enum": words }),
            Kind::Object => json!({ "type": "object", "additionalProperties": true }),
            Kind::List(parts) => json!({ "type": "array", "items": item(parts) }),
        };
        if let Value::Object(keywords) = &mut schema {
            keywords.insert("description".to_owned(), self.about.into());
        }
        schema
    }
}

fn item(fields: &[ItemField]) -> Value {
    let property = |ItemField { name, part, about }: &ItemField| {
        let schema = match part {
            Part::Text => json!({ "type": "string", "description": about }),
            Part::Flag => json!({ "type": "boolean", "description": about }),
            Part::Secret => {
                json!({ "type": "object", "additionalProperties": true, "description": about })
            }
        };
        ((*name).to_owned(), schema)
    };
    let needed = fields.iter().filter(|field| field.part != Part::Flag);
    json!({
        "type": "object",
        "properties": fields.iter().map(property).collect::<Details>(),
        "required": needed.map(|field| field.name).collect::<Vec<_>>(),
        "additionalProperties": false,
    })
}

/// The stored details of an account, as records show them.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct StoredDetails(Details);

/// Fields that records always show.
const ALWAYS: [&str; 2] = ["servicePremium", "settings"];

impl StoredDetails {
    /// Takes the fields of the table; no other field of a record has one of their names.
    pub fn of(details: &Details) -> Self {
        let usual = ALWAYS.into_iter().map(str::to_owned).zip([json!(false), json!({})]);
        let stored = details.iter().filter(|(name, _)| known(name).is_some());
        Self(usual.chain(stored.map(|(name, value)| (name.clone(), value.clone()))).collect())
    }
}

schema_of!([] StoredDetails, "StoredDetails", {
    let fields = FIELDS.iter().map(|field| (field.name.to_owned(), field.schema()));
    json!({ "type": "object", "properties": fields.collect::<Details>(), "required": ALWAYS })
});

/// Returns the sent fields as they are stored, or all mistakes in them.
pub fn stored_details(sent: Details) -> Result<Details, Vec<DetailError>> {
    let (mut stored, mut wrong) = (Details::new(), Vec::new());
    for (name, value) in sent {
        match checked(&name, &value) {
            Ok(value) => drop(stored.insert(name, value)),
            Err(error) => wrong.push(error),
        }
    }
    if wrong.is_empty() { Ok(stored) } else { Err(wrong) }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("/{name} {fault}")]
pub struct DetailError {
    pub name: String,
    pub fault: DetailFault,
}

/// A mistake in a field. Its text follows the JSON Pointer of the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DetailFault {
    #[error("is not a field of an account")]
    Unknown,
    #[error("must be {0}")]
    Shape(String),
    #[error("is refused: {0}")]
    Email(AddressError),
    #[error("{0}")]
    Text(TextFault),
    /// In a part of an object or an array.
    #[error("is refused: {0} in it {1}")]
    Within(&'static str, TextFault),
    #[error("is refused: objects and arrays nest at most {DEEPEST} deep: flatten it")]
    TooDeep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextFault {
    #[error("must have at most {LONGEST_TEXT} bytes")]
    TooLong,
    #[error("has control characters: leave them out")]
    Control,
}

/// Returns a field as it is stored. Null, which removes the field, stays null.
pub fn checked(name: &str, value: &Value) -> Result<Value, DetailError> {
    fitting(name, value).map_err(|fault| DetailError { name: name.to_owned(), fault })
}

fn fitting(name: &str, value: &Value) -> Result<Value, DetailFault> {
    let Field { kind, .. } = known(name).ok_or(DetailFault::Unknown)?;
    let wrong = |shape: &str| Err(DetailFault::Shape(shape.to_owned()));
    if value.is_object() || value.is_array() {
        fit(value, 1)?;
    }
    match (kind, value) {
        (_, Value::Null) => Ok(Value::Null),
        (Kind::Text, Value::String(text)) => {
            unfit(text).map_or_else(|| Ok(value.clone()), |why| Err(DetailFault::Text(why)))
        }
        (Kind::Email, Value::String(text)) => match Address::parse(text) {
            Ok(address) => Ok(address.to_string().into()),
            Err(error) => Err(DetailFault::Email(error)),
        },
        (Kind::Flag, Value::Bool(_)) => Ok(value.clone()),
        (Kind::Word(words), Value::String(word)) if words.contains(&word.as_str()) => {
            Ok(value.clone())
        }
        (Kind::Object, Value::Object(fields)) => Ok(Value::Object(without_secrets(fields))),
        (Kind::List(parts), Value::Array(items)) => {
            let items =
                items.iter().map(|item| masked_item(item, parts)).collect::<Option<Vec<_>>>();
            items.map(Value::from).map_or_else(|| wrong(&list_shape(parts)), Ok)
        }
        (Kind::Text | Kind::Email, _) => wrong("a string"),
        (Kind::Flag, _) => wrong("true or false"),
        (Kind::Word(words), _) => wrong(&format!("one of {}", words.join(", "))),
        (Kind::Object, _) => wrong("an object"),
        (Kind::List(parts), _) => wrong(&list_shape(parts)),
    }
}

/// Line feeds are allowed, for addresses and descriptions.
fn unfit(text: &str) -> Option<TextFault> {
    let control = |c: char| c.is_control() && c != '\n';
    if text.len() > LONGEST_TEXT {
        return Some(TextFault::TooLong);
    }
    text.chars().any(control).then_some(TextFault::Control)
}

/// Fails on texts that PostgreSQL cannot store in JSON (NUL), and on nesting too deep to be read
/// back.
fn fit(value: &Value, depth: usize) -> Result<(), DetailFault> {
    if depth > DEEPEST && (value.is_object() || value.is_array()) {
        return Err(DetailFault::TooDeep);
    }
    let text = |what: &'static str, text: &str| match unfit(text) {
        None => Ok(()),
        Some(why) => Err(DetailFault::Within(what, why)),
    };
    match value {
        Value::String(string) => text("a string", string),
        Value::Array(items) => items.iter().try_for_each(|item| fit(item, depth + 1)),
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| {
            text("a field name", name)?;
            fit(value, depth + 1)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn list_shape(fields: &[ItemField]) -> String {
    let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
    format!("an array of objects with {}", names.join(", "))
}

/// Checks an item of a list and masks its credentials. Returns None if it does not fit.
fn masked_item(item: &Value, fields: &[ItemField]) -> Option<Value> {
    let mut masked_fields = item.as_object()?.clone();
    let is_known = |name: &String| fields.iter().any(|field| field.name == name);
    let mut whole = masked_fields.keys().all(is_known);
    for field in fields {
        whole &= match (field.part, masked_fields.get_mut(field.name)) {
            (Part::Text, Some(Value::String(text))) => unfit(text).is_none(),
            (Part::Flag, None | Some(Value::Bool(_))) => true,
            (Part::Secret, Some(secret @ Value::Object(_))) => {
                *secret = masked(secret);
                true
            }
            _ => false,
        };
    }
    whole.then_some(Value::Object(masked_fields))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::secret::MASK;

    /// `depth` objects, one within the other.
    fn nested(depth: usize) -> Value {
        (1..depth).fold(json!({}), |inner, _| json!({ "a": inner }))
    }

    #[test]
    fn each_field_is_of_its_type() {
        for (name, value) in [
            ("email", json!("Ada@Example.com")),
            ("description", json!("two\nlines")),
            ("smsEnabled", json!(true)),
            ("hipaaSetting", json!("inherit")),
            ("settings", json!({ "metrics": [{ "name": "a", "scale": 100 }], "key": "x" })),
            ("settings", json!({ "heartbeatConfig": { "every": 5 } })),
            ("settings", nested(32)),
            ("settings", json!({ "a": ["two\nlines"] })),
            ("integrations", json!([])),
            ("businessName", Value::Null),
        ] {
            let kept = checked(name, &value).unwrap();
            assert!(kept == value || name == "email", "{name}: {kept}");
        }
        for (name, value, expected) in [
            ("email", json!("nobody"), "/email"),
            ("email", json!(1), "/email must be a string"),
            ("description", json!("\u{0}"), "control characters"),
            ("description", json!("x".repeat(2001)), "at most 2000 bytes"),
            ("smsEnabled", json!("true"), "must be true or false"),
            ("hipaaSetting", json!("On"), "must be one of on, off, inherit"),
            ("settings", json!([]), "must be an object"),
            ("integrations", json!({}), "must be an array of objects with appId, appVersion"),
            ("integrations", json!([{ "appId": "a", "appVersion": "1" }]), "appData"),
            ("integrations", json!([{ "appId": 1, "appVersion": "1", "appData": {} }]), "appData"),
            (
                "numberingProviders",
                json!([{ "providerId": "x", "config": {}, "__proto__": {} }]),
                "providerId, default, config",
            ),
            ("superAdmin", json!(true), "not a field"),
            (
                "settings",
                json!({ "a": [{ "b": "\u{0}" }] }),
                "settings is refused: a string in it has control",
            ),
            (
                "settings",
                json!({ "a": { "\u{0}": 1 } }),
                "settings is refused: a field name in it has control",
            ),
            ("settings", json!({ "apiKey": "\u{0}" }), "control characters"),
            ("settings", json!({ "a": "x".repeat(2001) }), "at most 2000 bytes"),
            ("settings", nested(33), "at most 32 deep"),
            (
                "integrations",
                json!([{ "appId": "a", "appVersion": "1", "appData": { "a\u{0}": 1 } }]),
                "integrations is refused: a field name in it has control",
            ),
            (
                "numberingProviders",
                json!([{ "providerId": "x", "config": { "a": ["\u{0}"] } }]),
                "numberingProviders is refused: a string in it has control",
            ),
        ] {
            let error = checked(name, &value).unwrap_err().to_string();
            assert!(error.contains(expected), "{name}: {error}");
        }
    }

    #[test]
    fn of_a_secret_only_its_place_is_kept() {
        let canary = "hunter2";
        let deep = json!({ "a": { "sid": canary, "n": [1, canary], "none": null } });
        for (name, value) in [
            ("integrations", json!([{ "appId": "a", "appVersion": "v1", "appData": deep }])),
            (
                "numberingProviders",
                json!([{ "providerId": "x", "default": true, "config": { "authToken": canary } }]),
            ),
            (
                "settings",
                json!({ "crm": [{ "apiKey": canary, "Password": canary, "access_token": [canary],
                                  "clientSecret": { "x": canary } }] }),
            ),
        ] {
            let kept = checked(name, &value).unwrap();
            assert!(!kept.to_string().contains(canary), "{kept}");
            assert!(kept.to_string().contains(MASK), "{kept}");
            assert_eq!(checked(name, &kept), Ok(kept.clone()), "what was read may be written back");
        }
    }
}
