//! `/apps`: what Agents have of the catalogue. `/integration`: what an account keeps for one app.
//! Of a secret both show that it is there, `{"present": true}`, and never what it is.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::super::answer::success;
use super::super::call::Call;
use super::super::error::Problem;
use super::super::state::Http;
use crate::app::apps::{Dependency, State, present};
use crate::domain::app::{AppRecord, AppRef};
use crate::domain::feature::Held;
use crate::rules::{App, Setting};

/// The catalogue, with what of it the target has installed.
pub(in super::super) async fn list(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let apps = call.apps(&http).list(call.account(), &held(&http, &call).await?).await?;
    let shown: Vec<Value> = apps.iter().map(listed).collect();
    let fields = json!({ "apps": shown, "count": shown.len() });
    Ok(success(StatusCode::OK, "apps found", fields))
}

/// One that the target has installed.
pub(in super::super) async fn show(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let app = named(&call, "appId", "appVersion", "app")?;
    let state =
        call.apps(&http).installed(call.account(), &app, &held(&http, &call).await?).await?;
    Ok(answer(StatusCode::OK, "app found", &state))
}

/// Installs one, with some of its settings or all.
pub(in super::super) async fn install(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let app = named(&call, "appId", "appVersion", "app")?;
    let none = Map::new();
    let settings = object(&call, "settings")?.unwrap_or(&none);
    let held = held(&http, &call).await?;
    let state = call.apps(&http).install(call.account(), &app, settings, &held).await?;
    Ok(answer(StatusCode::CREATED, "app installed", &state))
}

/// Changes what is given of its settings.
pub(in super::super) async fn update(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let app = named(&call, "appId", "appVersion", "app")?;
    let settings = object(&call, "settings")?.ok_or_else(|| {
        Problem::invalid("field settings is missing: send an object of those that change")
    })?;
    let held = held(&http, &call).await?;
    let state = call.apps(&http).update(call.account(), &app, settings, &held).await?;
    Ok(answer(StatusCode::OK, "app updated", &state))
}

/// Removes one, with its settings.
pub(in super::super) async fn remove(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let app = named(&call, "appId", "appVersion", "app")?;
    call.apps(&http).remove(call.account(), &app).await?;
    let fields = json!({ "removed": { "appId": app.id(), "version": app.version() } });
    Ok(success(StatusCode::OK, "app removed", fields))
}

/// What the account keeps for one app.
pub(in super::super) async fn integration(
    http: Arc<Http>,
    call: Call,
) -> Result<Response, Problem> {
    let app = named(&call, "slug", "version", "integration")?;
    let apps = call.apps(&http);
    let record = apps.integration(call.account().id, &app).await?;
    let fields = data(&record, apps.rules().app(&app));
    Ok(success(StatusCode::OK, "integration found", fields))
}

/// Keeps what is given of it.
pub(in super::super) async fn keep_integration(
    http: Arc<Http>,
    call: Call,
) -> Result<Response, Problem> {
    let app = named(&call, "slug", "version", "integration")?;
    let given = object(&call, "appData")?.ok_or_else(|| {
        Problem::invalid("field appData is missing: send an object of what is to be kept")
    })?;
    let apps = call.apps(&http);
    let record = apps.keep_integration(call.account().id, &app, given).await?;
    let fields = data(&record, apps.rules().app(&app));
    Ok(success(StatusCode::OK, "integration kept", fields))
}

/// What the path names; what cannot be a name is not there.
fn named(call: &Call, id: &str, version: &str, what: &str) -> Result<AppRef, Problem> {
    AppRef::new(call.path(id), call.path(version)).ok_or_else(|| Problem::not_found(what))
}

fn object<'c>(call: &'c Call, name: &str) -> Result<Option<&'c Map<String, Value>>, Problem> {
    let Some(value) = call.body().get(name) else { return Ok(None) };
    let object = value.as_object();
    object.map(Some).ok_or_else(|| Problem::invalid(format!("field {name} must be an object")))
}

async fn held(http: &Http, call: &Call) -> Result<Vec<Held>, Problem> {
    Ok(http.use_cases.access.features(call.account()).await?)
}

fn answer(status: StatusCode, message: &str, state: &State) -> Response {
    success(status, message, json!({ "app": listed(state) }))
}

/// An app with its state; settings are those of the record, and what each of them is the catalogue's
/// word.
fn listed(state: &State) -> Value {
    let State { app, known, record, missing, dependencies } = state;
    let title = known.as_ref().map(|known| &known.title);
    let description = known.as_ref().map(|known| &known.description);
    let described = known.iter().flat_map(|known| &known.settings);
    let described: Vec<Value> = described.map(|(name, one)| setting(name, one)).collect();
    json!({
        "appId": app.id(),
        "version": app.version(),
        "title": title,
        "description": description,
        "offered": known.as_ref().is_some_and(|known| known.offered),
        "installed": record.is_some(),
        "setupComplete": state.is_complete(),
        "missing": missing,
        "dependencies": dependencies.iter().map(dependency).collect::<Vec<_>>(),
        "settingsSchema": described,
        "settings": record.as_ref().map(|record| values(record, known.as_ref())),
        "installedAt": record.as_ref().map(|record| record.created_at.to_string()),
        "updatedAt": record.as_ref().map(|record| record.updated_at.to_string()),
    })
}

fn setting(name: &str, one: &Setting) -> Value {
    json!({
        "name": name,
        "title": one.title,
        "type": one.of.as_str(),
        "required": one.required,
        "secret": one.secret,
        "choices": one.choices,
    })
}

fn dependency(one: &Dependency) -> Value {
    match one {
        Dependency::App { id, met } => json!({ "type": "app", "name": id, "satisfied": met }),
        Dependency::Feature { feature, met } => {
            json!({ "type": "feature", "name": feature.as_str(), "satisfied": met })
        }
    }
}

/// What is kept, and of the catalogue's secrets, too, which of them are not.
fn values(record: &AppRecord, known: Option<&App>) -> Map<String, Value> {
    let secret = |name: &String| {
        known.and_then(|known| known.settings.get(name)).is_some_and(|setting| setting.secret)
    };
    let shown = record.shown.iter().map(|(name, value)| {
        // It was none when it was kept.
        let value = if secret(name) { present(true) } else { value.clone() };
        (name.clone(), value)
    });
    let sealed = record.secrets.iter().map(|name| (name.clone(), present(true)));
    let settings = known.into_iter().flat_map(|known| known.settings.keys());
    let absent = settings.filter(|name| secret(name) && !record.has(name));
    let absent = absent.map(|name| (name.clone(), present(false)));
    shown.chain(sealed).chain(absent).collect()
}

/// As v2 has it.
fn data(record: &AppRecord, known: Option<&App>) -> Value {
    json!({
        "appId": record.app.id(),
        "appVersion": record.app.version(),
        "appData": values(record, known),
    })
}
