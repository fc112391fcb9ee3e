//! The whole document: operations, descriptions, shapes, errors and events.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::http::openapi::descriptions::{operations, shapes};
use crate::http::openapi::{events, problems, shared};
use crate::http::operation::{BASE, Operation};
use crate::http::request::body::BodyRule;
use crate::http::request::query::{FILTERS, SIGNED, TOKEN};
use crate::http::request::target::TARGET;
use crate::http::tag::Tag;
use crate::http::typed::description::{Content, DescribedSuccess, Description};
use crate::http::typed::schema::{self, Fields, id_given, id_text, object, plain, put};
use crate::http::verb::names;
use crate::rules::AccessRules;

/// The introduction: fixed parts of v2, our own choices, and first steps.
const ABOUT: &str = include_str!("introduction.md");

/// The description of the API, with the numbers of these rules.
pub(in crate::http) fn document(rules: &AccessRules) -> Value {
    // The targets, as fields of a body.
    let targets = TARGETS.iter().map(|(name, about)| ((*name).to_owned(), id_given(about)));
    let named: Map<String, Value> = shapes(rules).into_iter().chain(targets).collect();
    let mut paths: Map<String, Value> = Map::new();
    for (operation, description) in &operations(rules) {
        let described = operation_object(operation, description, &named);
        let path = paths.entry(operation.described).or_insert_with(|| json!({}));
        put(path, &operation.verb.as_str().to_ascii_lowercase(), described);
    }
    let mut webhooks = events::webhooks();
    let parameters = shared::parameters(&mut [&mut paths, &mut webhooks]);
    let tag = |tag: &Tag| json!({ "name": tag.as_str(), "description": tag.about() });
    let tags: Vec<Value> = Tag::ALL.iter().map(tag).collect();
    json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://spec.openapis.org/oas/3.1/dialect/base",
        "info": {
            "title": "Gatepost",
            "version": "2.0.0",
            "x-server-version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT.trim_end(),
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": BASE, "description": "This gateway." }],
        "security": [{ TOKEN: [] }],
        "tags": tags,
        "paths": paths,
        "webhooks": webhooks,
        "components": {
            "schemas": named,
            "responses": problems::components(),
            "headers": headers(),
            "parameters": parameters,
            "securitySchemes": security(),
        },
    })
}

fn security() -> Value {
    let [expires, signature] = SIGNED;
    let key = |name: &str, about: &str| json!({ "type": "apiKey", "in": "query", "name": name, "description": about });
    json!({
        TOKEN: key(TOKEN, "The API key: gp_ and 43 characters. Send it once, and only here."),
        "linkExpires": key(expires, "Signed link: expiry, in Unix seconds."),
        "linkSignature": key(signature, "Signed link: signature."),
    })
}

fn headers() -> Value {
    let header = |about: &str, schema: Value| json!({ "description": about, "schema": schema });
    json!({
        "X-Request-Id": header("The id of the request, for the log.", json!({ "type": "string", "format": "uuid" })),
        "Retry-After": header("Seconds to wait before a retry.", json!({ "type": "integer", "minimum": 0 })),
        "Link": header("Other pages of the list (RFC 8288): next continues; prev leads back to newer items.", json!({ "type": "string" })),
    })
}

fn operation_object(
    operation: &Operation,
    description: &Description,
    named: &Map<String, Value>,
) -> Value {
    let mut described = json!({
        "operationId": operation.id,
        "tags": [operation.tag.as_str()],
        "summary": description.summary,
        "parameters": parameters(operation, description),
        "responses": answers(operation, description, named),
    });
    if !description.about.is_empty() {
        put(&mut described, "description", description.about.into());
    }
    if let Some(body) = body(operation, description, named) {
        put(&mut described, "requestBody", body);
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

fn parameters(operation: &Operation, description: &Description) -> Vec<Value> {
    let in_path = names(operation.described).map(|name| {
        let found = description.path_names.iter().find(|(known, _)| *known == name);
        let schema = found.map_or_else(|| id_text(IN_PATH), |(_, schema)| schema.clone());
        parameter("path", name, true, schema)
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
    let target = |name: &&str| {
        parameter("query", name, false, id_text(about_target(component(operation, name))))
    };
    all.extend(operation.target_names.iter().map(target));
    for (name, schema) in &description.headers {
        all.push(parameter("header", plain(name), !name.ends_with('?'), schema.clone()));
    }
    if operation.need.once {
        all.push(parameter("header", ONCE, false, once_schema()));
    }
    all
}

const ONCE: &str = "Idempotency-Key";
/// Names of a target, with their descriptions.
const TARGETS: &[(&str, &str)] = &[
    (TARGET, "The account that the request acts on; by default the owner of the key."),
    ("targetOrganizationId", "The organization that the request acts on."),
    ("targetResellerId", "The reseller that the request acts on."),
    ("targetPartnerId", "The partner that the request acts on."),
    (TARGET_IN_PATH, "The account in the path, once more; another one is refused."),
];
const IN_PATH: &str = "The account that the request acts on.";
/// The shape of a target that the path names too.
const TARGET_IN_PATH: &str = "equalTargetAccountId";

/// The shape that describes a target under this name.
fn component<'n>(operation: &Operation, name: &'n str) -> &'n str {
    if names(operation.path).any(|segment| segment == name) { TARGET_IN_PATH } else { name }
}

fn once_schema() -> Value {
    json!({
        "type": "string", "pattern": "^[!-~]{1,255}$",
        "description": "A name of your own for this creation. A request sent again with the same \
                        name and body is carried out once and gets the same answer; with another \
                        body it gets 409.",
    })
}

fn about_target(name: &str) -> &'static str {
    TARGETS.iter().find(|(known, _)| *known == name).map_or("", |(_, about)| about)
}

fn body(
    operation: &Operation,
    description: &Description,
    named: &Map<String, Value>,
) -> Option<Value> {
    let shown = object("", description.body.clone()?);
    let mut schema = shown.clone();
    // additionalProperties says what the description of a body would say.
    if let Value::Object(keywords) = &mut schema {
        keywords.remove("description");
        keywords.insert("additionalProperties".to_owned(), false.into());
    }
    for name in operation.target_names {
        if let Some(Value::Object(all)) = schema.get_mut("properties")
            && !all.contains_key(*name)
        {
            all.insert((*name).to_owned(), schema::reference(component(operation, name)));
        }
    }
    let is_required = !matches!(operation.form.body, BodyRule::Optional(_));
    let example = description.sent.clone().unwrap_or_else(|| schema::example(&shown, named));
    let content = json!({ "schema": schema, "example": example });
    Some(json!({ "required": is_required, "content": { "application/json": content } }))
}

fn answers(
    operation: &Operation,
    description: &Description,
    named: &Map<String, Value>,
) -> BTreeMap<String, Value> {
    let mut all = problems::answers(&problems::codes(operation));
    for answer in &description.answers {
        all.insert(answer.status.to_string(), success(answer, named));
    }
    all
}

/// A success. Its example follows from the schema, so it is not repeated.
fn success(answer: &DescribedSuccess, named: &Map<String, Value>) -> Value {
    let mut shown = json!({ "description": answer.about });
    if answer.pages {
        put(&mut shown, "headers", json!({ "Link": { "$ref": "#/components/headers/Link" } }));
    }
    if let Some(schema) = answer.schema() {
        let mut content =
            json!({ "application/json": { "schema": shared::composed(schema, named) } });
        if let Some(kind) = answer.also {
            put(&mut content, kind, json!({ "schema": { "type": "string" } }));
        }
        put(&mut shown, "content", content);
    }
    if let Content::Octets(types) = answer.content {
        // JSON is not given as a string.
        let octets = |kind: &str| match kind {
            "application/json" => json!({}),
            _ => json!({ "schema": { "type": "string", "format": "binary" } }),
        };
        let content = types.iter().map(|kind| ((*kind).to_owned(), octets(kind)));
        put(&mut shown, "content", content.collect::<Map<_, _>>().into());
    }
    shown
}

impl DescribedSuccess {
    /// The schema of its JSON; None if it is not JSON.
    pub(in crate::http) fn schema(&self) -> Option<Value> {
        let enveloped = |fields: &Fields| {
            let mut all: Fields = vec![
                ("success", json!({ "const": true, "description": "Always true." })),
                ("message", schema::like(schema::text("The result, in words."), self.about)),
            ];
            all.extend(fields.iter().cloned());
            object("A success.", all)
        };
        match &self.content {
            Content::Json(schema) => Some(schema.clone()),
            Content::Envelope(fields) => Some(enveloped(fields)),
            Content::OneOf(shapes) => {
                Some(json!({ "anyOf": shapes.iter().map(enveloped).collect::<Vec<_>>() }))
            }
            Content::Empty | Content::Octets(_) => None,
        }
    }
}
