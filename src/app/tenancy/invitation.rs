//! `data` of `member.invited`: who was invited, and how.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::Value;

use crate::wire::Number;

/// The invited member, and the invitation.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvitationData {
    /// The member.
    #[schemars(schema_with = "member")]
    pub member: Value,
    /// The URL that the invitation should lead to.
    pub redirect_url: Option<String>,
    /// Whether a welcome mail was asked for.
    pub send_welcome_email: Option<bool>,
    /// The inviter; null if the operator invited.
    pub invited_by: Option<Inviter>,
}

/// The key that invited.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Inviter {
    /// The account of the key.
    pub account_id: Number,
    /// The member of the key, if it is a member of the same account; members of accounts above are
    /// not named.
    pub member_id: Option<Number>,
}

/// The member record.
fn member(_: &mut SchemaGenerator) -> Schema {
    let fields = [
        ("id", "integer", "The id of the member."),
        ("accountType", "string", "Always user."),
        ("username", "string", "The address."),
        ("email", "string", "The address."),
        ("role", "string", "admin or member."),
        ("permittedAccountIds", "array", "The Agents that the member is restricted to, if any."),
        ("accountId", "integer", "The account of the member."),
        ("organizationId", "integer?", "The same, as v2 has it."),
        ("resellerId", "integer?", "The reseller above."),
        ("partnerId", "integer?", "The partner above."),
        ("timestamp", "integer", "When the member was invited, in Unix milliseconds."),
        ("createdAt", "string", "When the member was invited."),
    ];
    table("The member.", &fields)
}

/// An object of these fields: name, type, `?` behind one that may be null, and description.
pub fn table(about: &str, fields: &[(&str, &str, &str)]) -> Schema {
    let property = |(name, kind, about): &(&str, &str, &str)| {
        let mut schema = match kind.strip_suffix('?') {
            Some(kind) => json_schema!({ "type": [kind, "null"], "description": about }),
            None => json_schema!({ "type": kind, "description": about }),
        };
        if *kind == "array" {
            schema.insert("items".to_owned(), json_schema!({ "type": "integer" }).to_value());
        }
        ((*name).to_owned(), schema.to_value())
    };
    let names: Vec<_> = fields.iter().map(|(name, ..)| *name).collect();
    let properties: serde_json::Map<String, Value> = fields.iter().map(property).collect();
    json_schema!({ "type": "object", "description": about, "properties": properties, "required": names })
}
