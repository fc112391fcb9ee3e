//! The parts of templates and of migrations as they are sent and shown. A mistake in one is told by
//! where it stands in the body (RFC 6901).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::super::call::Call;
use super::super::error::Problem;
use super::super::target::account_of_json;
use crate::app::agents::schema::{self, Fault, join};
use crate::app::agents::{Forecast, TemplateUpdate, is_field};
use crate::domain::id::AccountId;
use crate::domain::template::{Approved, Content, Extent, Integration};
use crate::rules::AccessRules;

/// A migration as it is asked for.
pub(super) struct Wish {
    pub dry_run: bool,
    pub extent: Extent,
    pub targets: Option<BTreeSet<AccountId>>,
    pub after: Option<AccountId>,
    pub limit: u32,
}

/// What a migration may say.
const MIGRATE: [&str; 6] =
    ["dryRun", "sectionsToMigrate", "approveOverrides", "targetAccountIds", "after", "limit"];

/// What is to be changed, but for the name.
pub(super) fn update_of(call: &Call, rules: &AccessRules) -> Result<TemplateUpdate, Problem> {
    let body = call.body();
    let config = body.get("config").map(|value| object(value, "/config").cloned());
    let revision = body.number("revision")?;
    let revision = revision.map(|number| i64::try_from(number).unwrap_or(i64::MAX));
    Ok(TemplateUpdate {
        name: None,
        enabled: body.flag("enabled")?,
        config: config.transpose()?,
        fields: body.get("fields").map(fields).transpose()?,
        integrations: body.get("integrations").map(|all| integrations(all, rules)).transpose()?,
        revision,
    })
}

/// What the template is called.
pub(super) fn name<'c>(call: &'c Call, rules: &AccessRules) -> Result<Option<&'c str>, Problem> {
    let most = rules.agents.max_title_bytes;
    let name = call.body().text("name")?;
    match name.filter(|name| !schema::is_line(name, most)) {
        None => Ok(name),
        Some(_) => Err(fault("/name", format!("must be one line of 1 to {most} octets"))),
    }
}

/// Whether something is wanted that the query or the body may name.
pub(super) fn is_named(call: &Call, name: &str) -> Result<bool, Problem> {
    let asked = match call.query().get(name) {
        None => None,
        Some("true") => Some(true),
        Some("false") => Some(false),
        Some(_) => return Err(Problem::invalid(format!("{name} must be true or false"))),
    };
    match (asked, call.body().flag(name)?) {
        (Some(one), Some(other)) if one != other => {
            Err(Problem::invalid(format!("{name} differs between query and body: send it once")))
        }
        (one, other) => Ok(one.or(other).unwrap_or(false)),
    }
}

/// The migration that is asked for; it comes alone.
pub(super) fn wish(call: &Call, rules: &AccessRules) -> Result<Option<Wish>, Problem> {
    let Some(value) = call.body().get("migrate") else { return Ok(None) };
    let changes = ["name", "enabled", "config", "fields", "integrations", "revision"];
    if let Some(other) = changes.iter().find(|name| call.body().get(name).is_some()) {
        let detail = format!(
            "a migration brings the template as it is: change {other} first, then send migrate"
        );
        return Err(Problem::invalid(detail));
    }
    let asked = object(value, "/migrate")?;
    if let Some(unknown) = asked.keys().find(|name| !MIGRATE.contains(&name.as_str())) {
        let known = MIGRATE.join(", ");
        return Err(fault(&join("/migrate", unknown), format!("is not known: expected {known}")));
    }
    let sections = asked.get("sectionsToMigrate").filter(|value| !value.is_null());
    let sections = sections.map(|all| names(all, "/migrate/sectionsToMigrate")).transpose()?;
    let approved = approved(asked.get("approveOverrides"), "/migrate/approveOverrides")?;
    let after = asked.get("after").map(|id| account_of_json("/migrate/after", id)).transpose()?;
    Ok(Some(Wish {
        dry_run: flag(asked, "dryRun", "/migrate/dryRun")?,
        extent: Extent { sections, approved },
        targets: targets(asked, rules)?,
        after,
        limit: limit(asked, rules)?,
    }))
}

fn limit(asked: &Map<String, Value>, rules: &AccessRules) -> Result<u32, Problem> {
    let limits = &rules.limits;
    let Some(value) = asked.get("limit") else { return Ok(limits.default_page) };
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number.filter(|number| (1..=limits.max_page).contains(number)).ok_or_else(|| {
        fault("/migrate/limit", format!("must be a whole number from 1 to {}", limits.max_page))
    })
}

fn targets(
    asked: &Map<String, Value>,
    rules: &AccessRules,
) -> Result<Option<BTreeSet<AccountId>>, Problem> {
    const AT: &str = "/migrate/targetAccountIds";
    let most = rules.templates.max_targets;
    let Some(value) = asked.get("targetAccountIds").filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let all = value.as_array().filter(|all| (1..=most).contains(&all.len()));
    let all =
        all.ok_or_else(|| fault(AT, format!("must be an array of 1 to {most} ids of Agents")))?;
    let id = |(index, value): (usize, &Value)| account_of_json(&format!("{AT}/{index}"), value);
    all.iter().enumerate().map(id).collect::<Result<_, _>>().map(Some)
}

/// Which overrides are approved: all, none, or those of these fields.
pub(super) fn approved(value: Option<&Value>, at: &str) -> Result<Approved, Problem> {
    match value {
        None | Some(Value::Null | Value::Bool(false)) => Ok(Approved::Nothing),
        Some(Value::Bool(true)) => Ok(Approved::Everything),
        Some(list @ Value::Array(_)) => names(list, at).map(Approved::Fields),
        Some(_) => Err(fault(at, "must be true, false, or an array of names of fields")),
    }
}

/// Names of fields of a configuration.
fn names(value: &Value, at: &str) -> Result<BTreeSet<String>, Problem> {
    let most = schema::FIELDS.len();
    let all = value.as_array().filter(|all| all.len() <= most);
    let all = all.ok_or_else(|| fault(at, "must be an array of names of fields, each once"))?;
    let name = |(index, value): (usize, &Value)| match value.as_str() {
        Some(name) if is_field(name) => Ok(name.to_owned()),
        _ => Err(fault(&format!("{at}/{index}"), "must be the name of a field of a configuration")),
    };
    all.iter().enumerate().map(name).collect()
}

/// Which fields of a configuration an Agent must leave as they are.
fn fields(value: &Value) -> Result<BTreeMap<String, bool>, Problem> {
    let field = |(name, value): (&String, &Value)| {
        let at = join("/fields", name);
        if !is_field(name) {
            return Err(fault(&at, "is no field of a configuration: leave it out"));
        }
        let known = object(value, &at)?;
        if let Some(unknown) = known.keys().find(|name| *name != "locked") {
            return Err(fault(&join(&at, unknown), "is not known: expected locked"));
        }
        Ok((name.clone(), flag(known, "locked", &format!("{at}/locked"))?))
    };
    object(value, "/fields")?.iter().map(field).collect()
}

/// What must be set up on Agents, each named once.
fn integrations(value: &Value, rules: &AccessRules) -> Result<Vec<Integration>, Problem> {
    const AT: &str = "/integrations";
    let most = rules.templates.max_integrations;
    let all = value.as_array().filter(|all| all.len() <= most);
    let all =
        all.ok_or_else(|| fault(AT, format!("must be an array of at most {most} integrations")))?;
    let mut found = Vec::new();
    for (index, value) in all.iter().enumerate() {
        let at = format!("{AT}/{index}");
        let given = object(value, &at)?;
        if let Some(unknown) =
            given.keys().find(|name| !["slug", "version"].contains(&name.as_str()))
        {
            return Err(fault(&join(&at, unknown), "is not known: expected slug, version"));
        }
        let part = |name: &str| {
            let text = given.get(name).and_then(Value::as_str);
            let text = text.filter(|text| schema::is_line(text, rules.agents.max_title_bytes));
            text.map(str::to_owned).ok_or_else(|| {
                fault(&join(&at, name), "must be one line: what the integration is called")
            })
        };
        let one = Integration { slug: part("slug")?, version: part("version")? };
        if found.contains(&one) {
            return Err(fault(&at, "is there twice: name each integration once"));
        }
        found.push(one);
    }
    Ok(found)
}

/// What a template holds.
pub(super) fn content(content: &Content) -> Value {
    let field = |(name, locked): (&String, &bool)| (name.clone(), json!({ "locked": locked }));
    json!({
        "config": content.config,
        "fields": content.fields.iter().map(field).collect::<Map<_, _>>(),
        "integrations": integrations_shape(&content.integrations),
    })
}

/// Integrations by name.
pub(super) fn integrations_shape(all: &[Integration]) -> Value {
    all.iter().map(|one| json!({ "slug": one.slug, "version": one.version })).collect()
}

/// As it is sent.
pub(super) fn approved_shape(approved: &Approved) -> Value {
    match approved {
        Approved::Nothing => false.into(),
        Approved::Everything => true.into(),
        Approved::Fields(names) => json!(names),
    }
}

/// What a migration would change.
pub(super) fn foreseen(forecast: &Forecast) -> Value {
    let agents = forecast.agents.iter().map(|one| {
        json!({
            "accountId": one.agent.get(),
            "changed": one.changed,
            "overrides": one.overrides,
            "tooLarge": one.too_large,
        })
    });
    json!({
        "dryRun": true,
        "revision": forecast.revision,
        "agents": agents.collect::<Vec<_>>(),
        "next": forecast.next.map(AccountId::get),
    })
}

fn flag(given: &Map<String, Value>, name: &str, at: &str) -> Result<bool, Problem> {
    match given.get(name) {
        None => Ok(false),
        Some(value) => value.as_bool().ok_or_else(|| fault(at, "must be true or false")),
    }
}

fn object<'v>(value: &'v Value, at: &str) -> Result<&'v Map<String, Value>, Problem> {
    value.as_object().ok_or_else(|| fault(at, "must be an object"))
}

fn fault(at: &str, detail: impl Into<String>) -> Problem {
    let faults = vec![Fault { pointer: at.to_owned(), detail: detail.into() }];
    Problem { faults: faults.clone(), ..Problem::invalid(schema::sentence(&faults)) }
}
