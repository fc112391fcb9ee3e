//! `/tokens`: the API keys of an account or a member.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::app::access::token;
use crate::app::tenancy::KeyTerms;
use crate::domain::id::KeyId;
use crate::domain::key::{Key, KeyType};
use crate::domain::words::words;
use crate::http::typed::{Call, Problem, successes};
use crate::store::NamedKey;
use crate::wire::{Date, Id, Moment, Number, Word};

/// An API key; its value is shown only once.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Token {
    /// The last characters of the key; the whole key in the answer that creates it.
    #[schemars(example = &"…aB3x")]
    token: String,
    /// The id of the key.
    id: Id,
    /// The purpose of the key, for people.
    description: String,
    /// `admin`; `worker` for the key of an Agent's provisioned worker, which only the operator makes.
    r#type: Word<KeyType>,
    /// When the key was created, in Unix seconds as a text, for v2 clients.
    #[schemars(regex(pattern = r"^[0-9]+$"), example = &"1795168800")]
    timestamp: String,
    /// The account or member that owns the key.
    user_id: Number,
    /// Its last four characters.
    #[schemars(example = &"aB3x")]
    last_four: String,
    /// When it was created.
    created_at: Date,
    /// When it was last used, approximately.
    last_used_at: Option<Date>,
    /// When it expires; null for never.
    expires_at: Option<Date>,
    /// Whether tools of MCP may make changes with it, though the operator does not let all keys.
    mcp_changes: bool,
}

words! { IssuedType { Admin = "admin", } }

/// Lists the keys of an account or a member
#[derive(Debug, Deserialize, JsonSchema)]
pub struct List {}

/// Lists the target's own keys in force; never the keys themselves.
pub async fn list(call: Call, _: List) -> Result<Listed, Problem> {
    let keys = call.tenancy().keys_in_force(call.target.owner()).await?;
    Ok(Listed { tokens: keys.iter().map(|key| shape(key, None)).collect() })
}

/// Creates a key for an account or a member
///
/// Only this answer shows the key itself.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Create {
    /// Always the only type that this operation makes.
    #[serde(rename = "type")]
    _type: Option<Word<IssuedType>>,
    /// The purpose of the key, for people.
    description: String,
    /// When it expires; never without this.
    #[schemars(extend("x-null" = true))]
    expires_at: Option<Moment>,
    /// Whether tools of MCP may make changes with it, though the operator does not let all keys.
    #[serde(default)]
    mcp_changes: bool,
}

pub async fn create(call: Call, request: Create) -> Result<Created, Problem> {
    let expires_at = request.expires_at.map(|Moment(at)| at);
    call.caller.may_issue(expires_at)?;
    let tenancy = call.tenancy();
    let Create { description, mcp_changes, .. } = request;
    let terms = KeyTerms { purpose: &description, expires_at, mcp_changes };
    let made = tenancy.issue_key(call.target.owner(), terms).await?;
    Ok(Created { token: shape(&made.key, Some(&made.token)) })
}

/// Revokes a key
///
/// Takes effect everywhere within a second. Send its id, or the key itself as token in the body.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({ "id": "019a9e5c-7c80-7000-8000-000000000001" }))]
pub struct Revoke {
    /// The key to revoke.
    id: Option<Id>,
    /// The key itself.
    // In the query, `token` is the caller's key.
    #[schemars(extend("x-place" = "body"), example = &"gp_…")]
    token: Option<String>,
}

/// Revokes a key in the scope of the target, by id or by value.
pub async fn revoke(call: Call, request: Revoke) -> Result<Revoked, Problem> {
    let missing = || Problem::not_found("token");
    let named = match (request.id, request.token) {
        (Some(Id(id)), None) => NamedKey::Id(KeyId(id)),
        // A text that cannot be a key belongs to nobody.
        (None, Some(value)) => NamedKey::Hash(token::hash(&value).ok_or_else(missing)?),
        _ => {
            return Err(Problem::invalid(
                "name the token to revoke in one way: by id, or by token",
            ));
        }
    };
    let tenancy = call.tenancy();
    let revoked = tenancy.revoke_key_among(call.target.keys(), named).await?;
    Ok(Revoked { revoked: shape(&revoked.ok_or_else(missing)?, None) })
}

successes! {
    Listed {
        /// Oldest first.
        tokens: Vec<Token>
    } = OK "tokens found";
    Created { token: Token } = OK "token created; it is shown only once";
    Revoked { revoked: Token } = OK "token revoked";
}

fn shape(key: &Key, token: Option<&str>) -> Token {
    Token {
        token: token.map_or_else(|| format!("…{}", key.last_four), str::to_owned),
        id: Id(key.id.0),
        description: key.purpose.clone(),
        r#type: Word(key.kind()),
        timestamp: key.created_at.seconds().to_string(),
        user_id: key.owner().into(),
        last_four: key.last_four.clone(),
        created_at: Date(key.created_at),
        last_used_at: key.last_used_at.map(Date),
        expires_at: key.expires_at.map(Date),
        mcp_changes: key.mcp_changes,
    }
}
