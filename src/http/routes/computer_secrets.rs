//! `/computer/accounts/{targetAccountId}/secrets/release`: secrets in plain, for the provisioned
//! worker of the Agent alone. The answer is kept nowhere: the operation is no creation, so no
//! `Idempotency-Key` keeps it, and nothing prints it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::app::access::Denied;
use crate::app::computers::{Released as Opened, Wanted};
use crate::domain::app::AppRef;
use crate::http::typed::schema::pattern;
use crate::http::typed::{Call, Problem, successes};
use crate::wire::{Number, schema_of};

/// An app and its version, as `crm/v1`.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct AppName(String);

schema_of!([] AppName, "AppName", pattern("An app and its version.", NAME, "crm/v1"));

/// The rule of `domain::app::is_name`, twice.
const NAME: &str = "^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$";

/// Values in plain: they have no Debug.
#[derive(Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Plain(Map<String, Value>);

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plain(…)")
    }
}

/// Releases secrets of an Agent to its provisioned worker
///
/// Only for a key that `gatepost key create --worker` made since the computer was provisioned, where
/// the server runs with `--release-secrets` and the Agent has the feature `secretRelease`. Names
/// secrets of the computer's configuration, installed apps, or both: the answer has all of them, or
/// it is an error. Each release is in the audit log. An `Idempotency-Key` is ignored, and no answer
/// is kept.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
pub struct Release {
    /// Names of secrets in the configuration of the computer.
    #[schemars(example = &["smtpPassword"])]
    secrets: Option<Vec<String>>,
    /// Installed apps: all settings of each are released.
    #[schemars(example = &["crm/v1"])]
    apps: Option<Vec<AppName>>,
}

pub async fn release(call: Call, request: Release) -> Result<Released, Problem> {
    let job = call.caller.key.worker_job.ok_or(Denied::NotWorker)?;
    let asks = (call.caller.key.id, job);
    let apps = request.apps.unwrap_or_default();
    let apps = apps.iter().map(|AppName(name)| {
        let app = name.split_once('/').and_then(|(id, version)| AppRef::new(id, version));
        app.ok_or_else(|| Problem::invalid("apps: name an app and its version, as crm/v1"))
    });
    let wanted = Wanted {
        secrets: request.secrets.unwrap_or_default().into_iter().collect(),
        apps: apps.collect::<Result<_, _>>()?,
    };
    let agent = call.account().id;
    let Opened { secrets, apps } = call.computers().release(agent, asks, &wanted).await?;
    let apps = apps.into_iter().map(|(app, settings)| (app.to_string(), settings.into()));
    Ok(Released {
        target_account_id: agent.into(),
        secrets: Plain(secrets),
        apps: Plain(apps.collect()),
    })
}

successes! {
    Released {
        /// The Agent.
        target_account_id: Number,
        /// The secrets of the configuration, by name, in plain.
        #[schemars(example = json!({ "smtpPassword": "a secret" }))]
        secrets: Plain,
        /// The settings of each app, by app and version, in plain.
        #[schemars(example = json!({ "crm/v1": { "apiToken": "a secret" } }))]
        apps: Plain,
    } = OK "secrets released";
}
