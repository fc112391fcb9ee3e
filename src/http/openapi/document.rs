//! The whole document: the table of operations, their descriptions, shapes, errors and events.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::super::body::BodyRule;
use super::super::description::{Answer, Content, Description};
use super::super::operation::{BASE, Operation, shape};
use super::super::query::{FILTERS, SIGNED, TOKEN};
use super::super::schema::{self, Fields, id_given, id_text, object, plain, put};
use super::super::table::OPERATIONS;
use super::super::tag::Tag;
use super::super::target::TARGET;
use super::super::verb::names;
use super::areas::{self, operations, shapes};
use super::{events, problems};
use crate::rules::AccessRules;

const ABOUT: &str = "Inbound mail for Agents: who may write to them, what came, and what became of \
    it. Every operation is protected by a key, sent once as the query parameter `token`. What an \
    operation acts on is said by `targetAccountId`; without it, that is the account which owns the key. \
    Unknown parameters and fields are refused by name. Errors are problem documents (RFC 9457) with a \
    `code` of a closed list.";

/// The description of the API with the bounds of these rules.
pub(in crate::http) fn document(rules: &AccessRules) -> Value {
    let named: Map<String, Value> = shapes(rules).into_iter().chain(target_shapes()).collect();
    let descriptions = operations(rules);
    // Two operations may call a segment of one path differently; a path is described once.
    let mut paths: BTreeMap<String, (&str, Map<String, Value>)> = BTreeMap::new();
    for operation in OPERATIONS {
        let Some(description) = areas::of(&descriptions, operation) else {
            continue;
        };
        let (path, methods) =
            paths.entry(shape(operation.path)).or_insert_with(|| (operation.path, Map::new()));
        let described = whole(operation, description, path, &named);
        methods.insert(operation.verb.as_str().to_ascii_lowercase(), described);
    }
    let paths: Map<String, Value> =
        paths.into_values().map(|(path, methods)| (path.to_owned(), methods.into())).collect();
    let tags = Tag::ALL.map(|tag| json!({ "name": tag.as_str(), "description": tag.about() }));
    json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://spec.openapis.org/oas/3.1/dialect/base",
        "info": {
            "title": "Gatepost",
            "version": "2.0.0",
            "x-server-version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": BASE, "description": "This gateway." }],
        "security": [{ TOKEN: [] }],
        "tags": tags,
        "paths": paths,
        "webhooks": events::webhooks(),
        "components": {
            "schemas": named,
            "responses": problems::components(),
            "headers": headers(),
            "parameters": shared_parameters(),
            "securitySchemes": security(),
        },
    })
}

fn security() -> Value {
    let [expires, signature] = SIGNED;
    let key = |name: &str, about: &str| json!({ "type": "apiKey", "in": "query", "name": name, "description": about });
    json!({
        TOKEN: key(TOKEN, "The key: gp_ and 43 characters, sent once, and nowhere else."),
        "linkExpires": key(expires, "Of a signed link: until when it opens, in Unix seconds."),
        "linkSignature": key(signature, "Of a signed link: what proves that it is ours."),
    })
}

fn headers() -> Value {
    let header = |about: &str, schema: Value| json!({ "description": about, "schema": schema });
    json!({
        "X-Request-Id": header("The id of the request, for the log.", json!({ "type": "string", "format": "uuid" })),
        "Retry-After": header("After how many seconds to try again.", json!({ "type": "integer", "minimum": 0 })),
        "Link": header("Where the list goes on (RFC 8288): next to older ones, prev to newer ones.", json!({ "type": "string" })),
    })
}

/// One operation.
fn whole(
    operation: &Operation,
    description: &Description,
    path: &str,
    named: &Map<String, Value>,
) -> Value {
    let mut described = json!({
        "operationId": operation.id,
        "tags": [operation.tag.as_str()],
        "summary": description.summary,
        "parameters": parameters(operation, description, path),
        "responses": answers(operation, description, named),
    });
    if !description.about.is_empty() {
        put(&mut described, "description", description.about.into());
    }
    if let Some(fields) = &description.body {
        let shown = body(operation, (fields, description.sent.as_ref()), named);
        put(&mut described, "requestBody", shown);
    }
    if operation.linked.is_some() {
        let ways = json!([{ TOKEN: [] }, { "linkExpires": [], "linkSignature": [] }]);
        put(&mut described, "security", ways);
    }
    described
}

fn parameter(place: &str, name: &str, is_required: bool, mut schema: Value) -> Value {
    let about = schema.as_object_mut().and_then(|schema| schema.remove("description"));
    let about = about.unwrap_or_default();
    json!({ "name": name, "in": place, "required": is_required, "description": about, "schema": schema })
}

fn parameters(operation: &Operation, description: &Description, path: &str) -> Vec<Value> {
    let own = names(operation.path);
    let in_path = names(path).zip(own).map(|(shown, own)| {
        let found = description.path_names.iter().find(|(name, _)| *name == own);
        let schema = found.map_or_else(|| id_text(about_target(own)), |(_, schema)| schema.clone());
        parameter("path", shown, true, schema)
    });
    let mut all: Vec<Value> = in_path.collect();
    for (name, schema) in &description.query {
        let mut one = parameter("query", plain(name), !name.ends_with('?'), schema.clone());
        if plain(name) == FILTERS {
            // Each of its properties is a parameter of its own.
            put(&mut one, "style", "form".into());
            put(&mut one, "explode", true.into());
        }
        all.push(one);
    }
    // In the path it says enough.
    let targets = operation.aim.names().iter().filter(|name| !operation.path.contains(**name));
    let shared = |name: &str| json!({ "$ref": format!("#/components/parameters/{name}") });
    all.extend(targets.map(|name| shared(name)));
    for (name, schema) in &description.headers {
        all.push(parameter("header", plain(name), !name.ends_with('?'), schema.clone()));
    }
    if operation.need.once {
        all.push(shared(ONCE));
    }
    all
}

const ONCE: &str = "Idempotency-Key";
/// The names under which a request says what it acts on.
const TARGETS: [&str; 4] = [TARGET, "targetOrganizationId", "targetResellerId", "targetPartnerId"];

/// The parameters that many operations have.
fn shared_parameters() -> Map<String, Value> {
    let target = |name: &str| parameter("query", name, false, id_text(about_target(name)));
    let targets = TARGETS.iter().map(|name| ((*name).to_owned(), target(name)));
    let once = (ONCE.to_owned(), parameter("header", ONCE, false, once_schema()));
    targets.chain([once]).chain(events::parameters()).collect()
}

/// The same names as fields of a body.
fn target_shapes() -> impl Iterator<Item = (String, Value)> {
    TARGETS.iter().map(|name| ((*name).to_owned(), id_given(about_target(name))))
}

fn once_schema() -> Value {
    json!({
        "type": "string", "pattern": "^[!-~]{1,255}$",
        "description": "A name of your own for this creation: sent again with the same body, it is \
                        carried out once, and its answer is the same; with another body it is 409.",
    })
}

fn about_target(name: &str) -> &'static str {
    match name {
        "targetOrganizationId" => "The organization that the request acts on.",
        "targetResellerId" => "The reseller that the request acts on.",
        "targetPartnerId" => "The partner that the request acts on.",
        _ => "The account that the request acts on; without it the one that owns the key.",
    }
}

fn body(
    operation: &Operation,
    (fields, sent): (&Fields, Option<&Value>),
    named: &Map<String, Value>,
) -> Value {
    let mut all = fields.clone();
    let declared = |name: &str| fields.iter().any(|(known, _)| plain(known) == name);
    let shown = object("", fields.clone());
    let mut schema = {
        let targets = operation.aim.names().iter().filter(|name| !declared(name));
        let targets = targets.map(optional);
        all.extend(targets);
        object("Of these fields, and no others.", all)
    };
    put(&mut schema, "additionalProperties", false.into());
    let is_required = !matches!(operation.body(), BodyRule::Optional(_));
    let example = sent.cloned().unwrap_or_else(|| schema::example(&shown, named));
    let content = json!({ "schema": schema, "example": example });
    json!({ "required": is_required, "content": { "application/json": content } })
}

/// The name of a target as a field of a body.
fn optional(name: &&'static str) -> (&'static str, Value) {
    let field = match *name {
        TARGET => "targetAccountId?",
        "targetOrganizationId" => "targetOrganizationId?",
        "targetResellerId" => "targetResellerId?",
        _ => "targetPartnerId?",
    };
    (field, schema::reference(name))
}

fn answers(
    operation: &Operation,
    description: &Description,
    named: &Map<String, Value>,
) -> BTreeMap<String, Value> {
    let mut all = problems::answers(&problems::codes(operation, description));
    for answer in &description.answers {
        all.insert(answer.status.to_string(), success(answer, named));
    }
    all
}

fn success(answer: &Answer, named: &Map<String, Value>) -> Value {
    let mut headers = json!({ "X-Request-Id": { "$ref": "#/components/headers/X-Request-Id" } });
    if answer.pages {
        put(&mut headers, "Link", json!({ "$ref": "#/components/headers/Link" }));
    }
    let mut shown = json!({ "description": answer.about, "headers": headers });
    if let Some(schema) = answer.schema() {
        let example = schema::example(&schema, named);
        let mut content = json!({ "application/json": { "schema": schema, "example": example } });
        if let Some(kind) = answer.also {
            put(&mut content, kind, json!({}));
        }
        put(&mut shown, "content", content);
    }
    if let Content::Octets(types) = answer.content {
        let content = types.iter().map(|kind| ((*kind).to_owned(), json!({})));
        put(&mut shown, "content", content.collect::<Map<_, _>>().into());
    }
    shown
}

impl Answer {
    /// Its JSON, if it is any.
    pub(in crate::http) fn schema(&self) -> Option<Value> {
        match &self.content {
            Content::Json(schema) => Some(schema.clone()),
            Content::Envelope(fields) => {
                let mut all: Fields = vec![
                    ("success", json!({ "const": true, "description": "Always true." })),
                    ("message", schema::like(schema::text("What was done."), self.about)),
                ];
                all.extend(fields.iter().cloned());
                Some(object("A success.", all))
            }
            Content::Empty | Content::Octets(_) => None,
        }
    }
}
