//! `/computer/accounts/{targetAccountId}/config`: the configuration of a computer.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::app::computers::Computers;
use crate::domain::computer::Computer;
use crate::http::typed::{Call, Problem, successes};
use crate::wire::Number;

/// The configuration as written, without defaults.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Config(pub Map<String, Value>);

/// Uses the schema of `GET …/config/schema`, so the two cannot differ.
impl JsonSchema for Config {
    fn schema_name() -> Cow<'static, str> {
        "ComputerConfig".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = Schema::try_from(Computers::schema()).unwrap_or_default();
        // The document sets the dialect.
        schema.remove("$schema");
        let about = "The configuration of a computer, as it was written. A setting that is left \
                     out has its default. Answers show ******** in the place of a secret; send \
                     ******** back to keep the secret.";
        let example =
            json!({ "instructions": "Answer what the manual answers.", "pollSeconds": 10 });
        schema.insert("description".to_owned(), about.into());
        schema.insert("examples".to_owned(), json!([example]));
        schema
    }
}

/// Shows the configuration of an Agent's computer
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Show {}

pub async fn show(call: Call, _: Show) -> Result<ConfigAnswer, Problem> {
    Ok(shape(call.computers().show(call.account().id).await?))
}

/// Shows the JSON Schema of configurations
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ShowSchema {}

pub async fn schema(call: Call, _: ShowSchema) -> Result<ConfigSchema, Problem> {
    Ok(ConfigSchema { target_account_id: call.account().id.into(), schema: Computers::schema() })
}

/// Merges a patch into the configuration
///
/// The whole patch takes effect, or nothing if the result is not a valid configuration.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Patch {
    /// The revision that the patch is for.
    revision: u64,
    /// The change: objects are merged, and null removes a setting (RFC 7386).
    #[schemars(example = json!({ "labels": { "desk": "mail" } }))]
    patch: Map<String, Value>,
    /// Places where the patch replaces an object instead of merging (RFC 6901).
    #[schemars(example = json!(["/labels"]))]
    replace_paths: Option<Vec<String>>,
}

successes! {
    ConfigAnswer {
        /// The Agent.
        target_account_id: Number,
        /// The Agents that use the configuration: this one.
        agent_ids: Vec<Number>,
        /// Grows with each change; a patch must name it.
        #[schemars(range(min = 0))]
        revision: i64,
        authored_config: Config,
        /// The configuration in effect: settings that were not written have their defaults.
        #[schemars(example = json!({ "pollSeconds": 10, "maxConcurrency": 1 }))]
        effective_config: Map<String, Value>,
    } = OK "configuration found";
    ConfigSchema {
        /// The Agent.
        target_account_id: Number,
        /// The schema, in JSON Schema 2020-12.
        #[schemars(with = "Map<String, Value>", example = json!({ "type": "object" }))]
        schema: Value,
    } = OK "schema of configurations";
    Patched: ConfigAnswer = OK "configuration patched";
}

pub async fn patch(call: Call, request: Patch) -> Result<Patched, Problem> {
    let (computers, revision) = (call.computers(), revision(request.revision));
    let replaced = request.replace_paths.unwrap_or_default();
    let replaced: Vec<_> = replaced.iter().map(String::as_str).collect();
    let agent = call.account().id;
    Ok(Patched(shape(computers.patch(agent, revision, &request.patch, &replaced).await?)))
}

/// A revision as the store counts; larger numbers become the largest.
pub(super) fn revision(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn shape(computer: Computer) -> ConfigAnswer {
    let effective_config = Computers::effective(&computer);
    ConfigAnswer {
        target_account_id: computer.agent.into(),
        agent_ids: vec![computer.agent.into()],
        revision: computer.revision,
        authored_config: Config(computer.config.authored),
        effective_config,
    }
}
