//! API keys of an account, and its members.

use askama::Template;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::filters;
use super::frame::{Frame, Section};
use super::visit::{Answer, Visit};
use crate::domain::member::Role;
use crate::domain::words::Words;
use crate::http::error::Problem;

#[derive(Deserialize)]
struct Tokens {
    tokens: Vec<Token>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Token {
    token: String,
    id: String,
    description: String,
    #[serde(rename = "type")]
    kind: String,
    created_at: String,
    last_used_at: Option<String>,
    expires_at: Option<String>,
    mcp_changes: bool,
}

#[derive(Deserialize)]
struct Created {
    token: Token,
}

#[derive(Deserialize)]
struct Members {
    members: Vec<Member>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Member {
    id: i64,
    email: String,
    role: String,
    #[serde(default)]
    permitted_account_ids: Vec<i64>,
}

impl Member {
    /// The Agents that it is restricted to, as a person types them.
    fn agents(&self) -> String {
        let ids: Vec<_> = self.permitted_account_ids.iter().map(i64::to_string).collect();
        ids.join(", ")
    }

    fn has_role(&self, word: &str) -> bool {
        self.role == word
    }
}

#[derive(Template)]
#[template(path = "keys.html", config = "src/console/templates/askama.toml")]
struct KeysPage {
    frame: Frame,
    keys: Vec<Token>,
    /// None where the caller may not read them.
    members: Option<Vec<Member>>,
    /// A key that was made by this request: only this page shows it.
    made: String,
}

impl KeysPage {
    fn roles(&self) -> Vec<&'static str> {
        Role::all().iter().map(|role| role.word()).collect()
    }
}

/// Lists keys and members.
pub(super) async fn show(visit: Visit) -> Result<Answer, Problem> {
    page(&visit, String::new()).await
}

async fn page(visit: &Visit, made: String) -> Result<Answer, Problem> {
    let Tokens { tokens: keys } = visit.ask(visit.on("listTokens")).await?;
    let members = visit.ask::<Members>(visit.on("listMembers")).await.ok();
    let members = members.map(|found| found.members);
    let frame = visit.frame(Section::Keys).await?;
    Answer::page(&KeysPage { frame, keys, members, made })
}

/// Carries out one of the buttons.
pub(super) async fn change(visit: Visit) -> Result<Answer, Problem> {
    let sent = |name| visit.form.get(name);
    match sent("do") {
        "key" => {
            let mcp = sent("mcp") == "yes";
            let mut body = Map::from_iter([
                ("description".to_owned(), sent("description").into()),
                ("mcpChanges".to_owned(), mcp.into()),
            ]);
            if !sent("days").is_empty() {
                let days = sent("days").parse::<u64>().map_err(|_| {
                    Problem::invalid("days must be a whole number, or empty for a key without end")
                })?;
                let lasts = std::time::Duration::from_secs(days.saturating_mul(86_400));
                let end = visit.console.http.mint.clock().now().plus(lasts);
                body.insert("expiresAt".into(), end.to_string().into());
            }
            let answer = visit.carry_out(visit.on("createToken").sends(body.into())).await?;
            let made: Created = serde_json::from_value(answer).map_err(Problem::internal)?;
            page(&visit, made.token.token).await
        }
        "revoke" => {
            visit.ask::<Value>(visit.on("revokeToken").with("id", sent("key"))).await?;
            Ok(visit.see("/keys", "revoked"))
        }
        "invite" => {
            let body = json!({ "email": sent("email"), "role": sent("role"),
                               "permittedAccountIds": agents(&visit)? });
            visit.carry_out(visit.on("inviteMember").sends(body)).await?;
            Ok(visit.see("/keys", "invited"))
        }
        "member" => {
            let body = json!({ "targetMemberId": member(&visit)?, "role": sent("role"),
                               "permittedAccountIds": agents(&visit)? });
            visit.ask::<Value>(visit.on("updateMember").sends(body)).await?;
            Ok(visit.see("/keys", "member"))
        }
        "dismiss" => {
            let asked = visit.on("removeMember").with("targetMemberId", member(&visit)?);
            visit.ask::<Value>(asked).await?;
            Ok(visit.see("/keys", "dismissed"))
        }
        _ => Err(Problem::invalid("this button is not known here: open the page again")),
    }
}

fn member(visit: &Visit) -> Result<i64, Problem> {
    visit.form.get("member").parse().map_err(|_| Problem::not_found("member"))
}

/// The ids of Agents in a field; none for all Agents.
fn agents(visit: &Visit) -> Result<Vec<i64>, Problem> {
    let named = visit.form.get("agents").split([',', ' ']).filter(|id| !id.is_empty());
    named
        .map(str::parse)
        .collect::<Result<_, _>>()
        .map_err(|_| Problem::invalid("Agents are named by their ids, with commas between them"))
}
