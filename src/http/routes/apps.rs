//! `/apps`: the catalogue, and the apps installed on Agents. `/integration`: the data that an
//! account stores for an app. Both show whether a secret is stored, as `{"present": true}`, never
//! the secret itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::app::apps::{Dependency as Needed, State, present};
use crate::domain::app::{AppRecord, AppRef};
use crate::domain::feature::Held;
use crate::domain::words::words;
use crate::http::typed::schema::pattern;
use crate::http::typed::{Call, Problem, successes};
use crate::rules::{App as Known, Setting as Taken, SettingType};
use crate::wire::{Date, Word, schema_of};

/// The id of an app.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AppId(String);

/// A version of an app.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(String);

schema_of!([] AppId, "AppId", pattern("The app.", NAME, "crm"));
schema_of!([] Version, "Version", pattern("Its version.", NAME, "v1"));

/// The rule of `domain::app::is_name`.
const NAME: &str = "^[A-Za-z0-9][A-Za-z0-9._-]*$";

words! { DependencyType { App = "app", Feature = "feature", } }

/// An app, and its state on an account.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct App {
    app_id: AppId,
    version: Version,
    /// Its title; null if the catalogue no longer has it.
    title: Option<String>,
    /// Its purpose.
    description: Option<String>,
    /// Whether it can be installed.
    offered: bool,
    /// Whether it is installed.
    installed: bool,
    /// Whether it is installed and has all that it needs.
    setup_complete: bool,
    /// Required settings without a value.
    #[schemars(example = json!([]))]
    missing: Vec<String>,
    /// Other apps and features that it needs.
    dependencies: Vec<Dependency>,
    /// The settings that it takes.
    settings_schema: Vec<Setting>,
    /// The settings; for a secret, only whether it is stored.
    #[schemars(example = json!({ "apiToken": { "present": true } }))]
    settings: Option<Map<String, Value>>,
    /// When it was installed.
    installed_at: Option<Date>,
    /// When it last changed.
    updated_at: Option<Date>,
}

/// A setting.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Setting {
    /// Its name.
    #[schemars(regex(pattern = NAME), example = &"apiToken")]
    name: String,
    /// Its title.
    title: String,
    /// The values that it takes.
    r#type: Word<SettingType>,
    /// Whether the app works only with it.
    required: bool,
    /// Whether it is sealed and never shown.
    secret: bool,
    /// The values of a choice.
    choices: Vec<String>,
}

/// Something else that an app needs.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Dependency {
    /// Its kind.
    r#type: Word<DependencyType>,
    /// The id of the app, or the name of the feature.
    #[schemars(regex(pattern = NAME), example = &"crm")]
    name: String,
    /// Whether the account has it.
    satisfied: bool,
}

/// Lists the catalogue, and the apps that an Agent has installed
///
/// Accounts that are not Agents have nothing installed.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct List {}

pub async fn list(call: Call, _: List) -> Result<Listed, Problem> {
    let apps = call.apps().list(call.account(), &features_held(&call).await?).await?;
    Ok(Listed { count: apps.len(), apps: apps.into_iter().map(shape).collect() })
}

/// Shows an app that an Agent has installed
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Show {
    app_id: AppId,
    app_version: Version,
}

pub async fn show(call: Call, request: Show) -> Result<AppAnswer, Problem> {
    let app = app_ref(&request.app_id, &request.app_version, "app")?;
    let held = features_held(&call).await?;
    let app = shape(call.apps().installed(call.account(), &app, &held).await?);
    Ok(AppAnswer { app })
}

/// Installs an app on an Agent
///
/// With all of its settings or some: the answer names the missing ones.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Install {
    app_id: AppId,
    app_version: Version,
    /// Settings of the app, by name.
    #[schemars(example = json!({ "baseUrl": "https://crm.example/", "apiToken": "secret" }))]
    settings: Option<Map<String, Value>>,
}

pub async fn install(call: Call, request: Install) -> Result<Installed, Problem> {
    let app = app_ref(&request.app_id, &request.app_version, "app")?;
    let (settings, held) = (request.settings.unwrap_or_default(), features_held(&call).await?);
    let app = shape(call.apps().install(call.account(), &app, &settings, &held).await?);
    Ok(Installed(AppAnswer { app }))
}

/// Changes settings of an app that an Agent has installed
///
/// Settings that are left out stay, and null removes one. {"present": true}, which answers show in
/// place of a secret, keeps the secret.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Update {
    app_id: AppId,
    app_version: Version,
    /// The settings that change, by name.
    #[schemars(example = json!({ "baseUrl": "https://crm.example/", "apiToken": "secret" }))]
    settings: Map<String, Value>,
}

pub async fn update(call: Call, request: Update) -> Result<Updated, Problem> {
    let app = app_ref(&request.app_id, &request.app_version, "app")?;
    let held = features_held(&call).await?;
    let app = shape(call.apps().update(call.account(), &app, &request.settings, &held).await?);
    Ok(Updated(AppAnswer { app }))
}

/// Removes an app from an Agent, with its settings
///
/// 409 while a configuration of the Agent, staged or live, uses the app.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Remove {
    app_id: AppId,
    app_version: Version,
}

/// The app that was removed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct RemovedApp {
    app_id: AppId,
    version: Version,
}

pub async fn remove(call: Call, request: Remove) -> Result<Removed, Problem> {
    let app = app_ref(&request.app_id, &request.app_version, "app")?;
    call.apps().remove(call.account(), &app).await?;
    Ok(Removed { removed: RemovedApp { app_id: request.app_id, version: request.app_version } })
}

/// Shows the data that an account keeps for an app
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ShowIntegration {
    slug: AppId,
    version: Version,
}

pub async fn integration(call: Call, request: ShowIntegration) -> Result<Integration, Problem> {
    let app = app_ref(&request.slug, &request.version, "integration")?;
    let apps = call.apps();
    let record = apps.integration(call.account().id, &app).await?;
    Ok(data(&record, apps.rules().app(&app)))
}

/// Stores data of an account for an app
///
/// Data that is left out stays, and null removes it. {"present": true}, which answers show in place
/// of a secret, keeps the secret.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeepIntegration {
    slug: AppId,
    version: Version,
    /// The data to store, by name.
    #[schemars(example = json!({ "key": "value" }))]
    app_data: Map<String, Value>,
}

successes! {
    Listed {
        /// Ordered by id and version.
        apps: Vec<App>,
        /// How many apps the list has.
        count: usize,
    } = OK "apps found";
    AppAnswer { app: App } = OK "app found";
    Installed: AppAnswer = CREATED "app installed";
    Updated: AppAnswer = OK "app updated";
    Removed { removed: RemovedApp } = OK "app removed";
    Integration {
        app_id: AppId,
        app_version: Version,
        /// The data; for a secret, only whether it is stored.
        #[schemars(example = json!({ "key": { "present": true } }))]
        app_data: Map<String, Value>,
    } = OK "integration found";
    Kept: Integration = OK "integration kept";
}

pub async fn keep_integration(call: Call, request: KeepIntegration) -> Result<Kept, Problem> {
    let app = app_ref(&request.slug, &request.version, "integration")?;
    let apps = call.apps();
    let record = apps.set_integration(call.account().id, &app, &request.app_data).await?;
    Ok(Kept(data(&record, apps.rules().app(&app))))
}

/// Returns the app in the path; 404 for a text that cannot be a name.
fn app_ref(AppId(id): &AppId, Version(version): &Version, noun: &str) -> Result<AppRef, Problem> {
    AppRef::new(id, version).ok_or_else(|| Problem::not_found(noun))
}

async fn features_held(call: &Call) -> Result<Vec<Held>, Problem> {
    Ok(call.http.use_cases.access.features(call.account()).await?)
}

/// Combines the settings of the record with their descriptions in the catalogue.
fn shape(state: State) -> App {
    let setup_complete = state.is_complete();
    let State { app, known, record, missing, dependencies } = state;
    let described = known.iter().flat_map(|known| &known.settings);
    App {
        app_id: AppId(app.id().to_owned()),
        version: Version(app.version().to_owned()),
        offered: known.as_ref().is_some_and(|known| known.offered),
        installed: record.is_some(),
        setup_complete,
        missing,
        dependencies: dependencies.into_iter().map(dependency).collect(),
        settings_schema: described.map(|(name, one)| setting(name, one)).collect(),
        settings: record.as_ref().map(|record| values(record, known.as_ref())),
        installed_at: record.as_ref().map(|record| Date(record.created_at)),
        updated_at: record.as_ref().map(|record| Date(record.updated_at)),
        title: known.as_ref().map(|known| known.title.clone()),
        description: known.map(|known| known.description),
    }
}

fn setting(name: &str, one: &Taken) -> Setting {
    Setting {
        name: name.to_owned(),
        title: one.title.clone(),
        r#type: Word(one.of),
        required: one.required,
        secret: one.secret,
        choices: one.choices.clone(),
    }
}

fn dependency(one: Needed) -> Dependency {
    let satisfied = one.is_met();
    let (kind, name) = match one {
        Needed::App { id, .. } => (DependencyType::App, id),
        Needed::Feature { feature, .. } => (DependencyType::Feature, feature.to_string()),
    };
    Dependency { r#type: Word(kind), name, satisfied }
}

/// The stored values; for each secret in the catalogue, whether it is stored.
fn values(record: &AppRecord, known: Option<&Known>) -> Map<String, Value> {
    let secret = |name: &String| {
        known.and_then(|known| known.settings.get(name)).is_some_and(|setting| setting.secret)
    };
    let shown = record.shown.iter().map(|(name, value)| {
        // The catalogue did not mark it as a secret when it was stored.
        let value = if secret(name) { present(true) } else { value.clone() };
        (name.clone(), value)
    });
    let sealed = record.secrets.iter().map(|name| (name.clone(), present(true)));
    let settings = known.into_iter().flat_map(|known| known.settings.keys());
    let absent = settings.filter(|name| secret(name) && !record.has(name));
    let absent = absent.map(|name| (name.clone(), present(false)));
    shown.chain(sealed).chain(absent).collect()
}

/// With the field names of v2.
fn data(record: &AppRecord, known: Option<&Known>) -> Integration {
    Integration {
        app_id: AppId(record.app.id().to_owned()),
        app_version: Version(record.app.version().to_owned()),
        app_data: values(record, known),
    }
}
