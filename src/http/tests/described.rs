//! Each operation of the table is described, with exactly its names, and the published document is
//! current.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};

use serde_json::{Map, Value, json};

use crate::app::delivery::catalog;
use crate::domain::destination::Payload;
use crate::http::error::Code;
use crate::http::openapi;
use crate::http::operation::Operation;
use crate::http::request::body::BodyRule;
use crate::http::table::OPERATIONS;
use crate::http::tests::table::filled;
use crate::http::tests::{House, Reply};
use crate::http::typed::description::{Content, Description};
use crate::http::typed::schema;
use crate::rules::Rules;
use crate::schema::{Schema, Shapes};
use crate::testkit::golden;
use crate::wire;

fn descriptions() -> Vec<(&'static Operation, Description)> {
    openapi::operations(&Rules::defaults().unwrap().access)
}

fn plain<'n>(names: impl Iterator<Item = &'n str>) -> BTreeSet<&'n str> {
    names.map(|name| name.strip_suffix('?').unwrap_or(name)).collect()
}

fn described<'d>(
    descriptions: &'d [(&'static Operation, Description)],
    operation: &Operation,
) -> Option<&'d Description> {
    let is_of = |(row, _): &&(&'static Operation, Description)| {
        (row.verb, row.path) == (operation.verb, operation.path)
    };
    assert!(
        descriptions.iter().filter(is_of).count() < 2,
        "{} is described twice",
        operation.name()
    );
    descriptions.iter().find(is_of).map(|(_, description)| description)
}

#[test]
fn every_operation_is_described_with_all_its_names_and_nothing_else() {
    let all = descriptions();
    for operation in OPERATIONS {
        let name = operation.name();
        let described = described(&all, operation);
        let described = described.unwrap_or_else(|| panic!("{name} is not described"));
        let wanted: BTreeSet<&str> = operation.form.query.iter().copied().collect();
        assert_eq!(plain(described.query.iter().map(|(name, _)| *name)), wanted, "{name}: query");
        let (body, fields) = (operation.form.body, &described.body);
        assert_eq!(fields.is_some(), body != BodyRule::None, "{name}: body");
        let fields = plain(fields.iter().flatten().map(|(name, _)| *name));
        assert_eq!(fields, body.names().iter().copied().collect(), "{name}: body");
        let own =
            operation.path.split('/').filter_map(|one| one.strip_prefix('{')?.strip_suffix('}'));
        let own: BTreeSet<&str> = own.filter(|name| *name != "targetAccountId").collect();
        assert_eq!(plain(described.path_names.iter().map(|(name, _)| *name)), own, "{name}: path");
        assert!(!described.answers.is_empty(), "{name}: no answer");
        assert!(!described.summary.ends_with('.') && !described.summary.is_empty(), "{name}");
    }
    for (one, _) in &all {
        assert!(
            OPERATIONS.iter().any(|row| (row.verb, row.path) == (one.verb, one.path)),
            "{} is nowhere",
            one.path
        );
    }
}

/// No path of the document gives a segment the name that another operation has for it: erasing a
/// message takes a `messageUuid`, not a `roomId`.
#[test]
fn each_path_is_described_by_the_names_of_its_operations() {
    let document = openapi::document(&Rules::defaults().unwrap().access);
    for operation in OPERATIONS {
        let verb = operation.verb.as_str().to_ascii_lowercase();
        let described = &document["paths"][operation.described][verb];
        assert_eq!(described["operationId"], operation.id, "{}", operation.name());
        assert!(operation.paths().any(|path| path == operation.described), "{}", operation.name());
    }
    // Names alone do not tell paths apart (OpenAPI 3.1, Paths Object).
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    let shapes: BTreeSet<String> = paths.iter().map(|path| filled(path)).collect();
    assert_eq!(shapes.len(), paths.len(), "{paths:?}");
    let erase = &document["paths"]["/message/{messageUuid}"]["delete"]["parameters"][0];
    let shared = erase["$ref"].as_str().map_or(erase, |to| document.pointer(&to[1..]).unwrap());
    assert_eq!(shared["name"], "messageUuid", "{erase}");
}

/// Proves that every operation documents 403 for a missing feature: each needs `api`, some another.
#[test]
fn whatever_needs_a_feature_tells_so() {
    for operation in OPERATIONS {
        let codes = openapi::codes(operation);
        assert!(codes.contains(&Code::FeatureRequired), "{}", operation.name());
    }
}

/// Every property, parameter and shape has a description.
#[test]
fn everything_is_explained() {
    let document = openapi::document(&Rules::defaults().unwrap().access);
    let mut silent = Vec::new();
    walk(&document, "", &mut silent);
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}

fn walk(value: &Value, path: &str, silent: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(properties) = fields.get("properties").and_then(Value::as_object) {
                for (name, schema) in properties {
                    if schema.get("$ref").is_none() && !is_explained(schema) {
                        silent.push(format!("{path}/properties/{name}"));
                    }
                }
            }
            if fields.contains_key("in") && !is_explained(value) {
                silent.push(path.to_owned());
            }
            for (name, inner) in fields.iter().filter(|(name, _)| !is_example(name)) {
                walk(inner, &format!("{path}/{name}"), silent);
            }
        }
        Value::Array(items) => {
            for (number, inner) in items.iter().enumerate() {
                walk(inner, &format!("{path}/{number}"), silent);
            }
        }
        _ => {}
    }
}

fn is_example(name: &str) -> bool {
    ["example", "examples", "enum", "const"].contains(&name)
}

fn is_explained(value: &Value) -> bool {
    value["description"].as_str().is_some_and(|text| text.trim_end().ends_with('.'))
}

/// Each reference leads to a shape, and each shape is referred to.
#[test]
fn references_lead_somewhere() {
    let document = openapi::document(&Rules::defaults().unwrap().access);
    let mut led_to = BTreeSet::new();
    references(&document, &mut led_to);
    for reference in &led_to {
        let pointer = reference.strip_prefix('#').expect("within the document");
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    for place in ["schemas", "headers", "responses"] {
        let components: &Map<String, Value> = document["components"][place].as_object().unwrap();
        // Answers outside operations: another method's path, and a provider's refused mail.
        let elsewhere = |name: &&String| matches!(name.as_str(), "405" | "406");
        for name in
            components.keys().filter(|name| !elsewhere(name) && !name.starts_with("Message"))
        {
            let reference = format!("#/components/{place}/{name}");
            assert!(led_to.contains(&reference), "{reference} is never shown");
        }
    }
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref") {
                found.insert(reference.clone());
            }
            fields.values().for_each(|inner| references(inner, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| references(inner, found)),
        _ => {}
    }
}

/// `fixtures/openapi` has a file per tag, one for the shapes and one for the rest. Together they
/// are the document.
#[test]
fn the_published_openapi_is_what_is_made() {
    let mut frame = openapi::document(&Rules::defaults().unwrap().access);
    let mut files = BTreeMap::new();
    let fields = frame.as_object_mut().unwrap();
    let (paths, shapes) =
        (fields.remove("paths").unwrap(), json!({ "components": fields.remove("components") }));
    for (path, methods) in paths.as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let tag = operation["tags"][0].as_str().unwrap();
            let file = format!("{}.json", tag.to_lowercase().replace(' ', "-"));
            files.entry(file).or_insert_with(|| json!({ "paths": {} }))["paths"][path][method] =
                operation.clone();
        }
    }
    files.extend([("shapes.json".to_owned(), shapes), ("frame.json".to_owned(), frame)]);
    let text = |part| format!("{}\n", serde_json::to_string_pretty(&part).unwrap());
    let files = files.into_iter().map(|(name, part)| (name, text(part))).collect();
    golden::hold_folder("fixtures/openapi", &files).unwrap();
}

/// Generators of clients name methods by them.
#[test]
fn operation_ids_are_distinct_names() {
    let document = openapi::document(&Rules::defaults().unwrap().access);
    let mut ids = BTreeSet::new();
    for places in ["paths", "webhooks"] {
        let methods = document[places].as_object().unwrap().values();
        for operation in methods.flat_map(|methods| methods.as_object().unwrap().values()) {
            let id = operation["operationId"].as_str().unwrap();
            assert!(id.starts_with(char::is_lowercase), "{id}");
            assert!(id.chars().all(|c| c.is_ascii_alphabetic()), "{id}");
            assert!(ids.insert(id), "{id} is there twice");
        }
    }
}

/// A name means one shape, in requests and in answers.
#[test]
fn shapes_of_one_name_are_the_same() {
    let mut known = BTreeMap::new();
    for (name, shape) in openapi::shapes(&Rules::defaults().unwrap().access) {
        let before = known.insert(name.clone(), shape.clone());
        assert!(before.is_none_or(|before| before == shape), "{name} is two shapes");
    }
    assert!(known.len() > 20);
}

/// A schema with its references resolved, without the keywords that only shapes have.
fn whole(document: &Value, value: &Value) -> Value {
    match value {
        Value::Object(fields) => match fields.get("$ref").and_then(Value::as_str) {
            Some(reference) => {
                let shape = document.pointer(reference.strip_prefix('#').unwrap()).unwrap();
                whole(document, shape)
            }
            None => {
                let fields = fields.iter().filter(|(name, _)| *name != "examples");
                fields.map(|(name, one)| (name.clone(), whole(document, one))).collect()
            }
        },
        Value::Array(items) => items.iter().map(|one| whole(document, one)).collect(),
        scalar => scalar.clone(),
    }
}

/// The description of an event is that of the mode `full`; bodies of the other modes fit it, too.
#[test]
fn events_are_as_the_catalogue_says_in_all_modes() {
    let document = openapi::document(&Rules::defaults().unwrap().access);
    let shapes = Shapes::of(&document);
    for entry in catalog::catalog() {
        let shape = &document["components"]["schemas"][entry.name.as_str()];
        let full = entry.schema.pointer("/$defs/full").unwrap();
        let (shown, own) = (whole(&document, shape), whole(&entry.schema, full));
        assert_eq!(shown["required"], own["required"]);
        let data = |schema: &Value| schema["properties"]["data"]["anyOf"].clone();
        let about_apart = |mut any: Value| {
            any.as_array_mut().unwrap().iter_mut().for_each(|one| one["description"] = Value::Null);
            any
        };
        assert_eq!(about_apart(data(&shown)), about_apart(data(&own)), "{}", entry.name);
        let schema = shapes.schema(shape);
        for mode in Payload::ALL {
            let file = format!("fixtures/webhook/{}.{mode}.json", entry.name);
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
            let sent: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
            assert_eq!(schema.faults(&sent), Vec::<String>::new(), "{} {mode}", entry.name);
        }
    }
}

/// Each bound is a number: a name that is no rule would remain as a text, and bound nothing.
#[test]
fn bounds_are_numbers() {
    fn look(value: &Value, seen: &mut usize) {
        const BOUNDS: &[&str] =
            &["minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"];
        let Value::Object(fields) = value else {
            return value.as_array().into_iter().flatten().for_each(|one| look(one, seen));
        };
        for (name, inside) in fields {
            if BOUNDS.contains(&name.as_str()) {
                *seen += 1;
                assert!(inside.is_number(), "{name}: {inside}");
            }
            look(inside, seen);
        }
    }
    let mut seen = 0;
    look(&openapi::document(&Rules::defaults().unwrap().access), &mut seen);
    assert!(seen > 200, "{seen} bounds");
}

/// Every example fits what it is an example of; those of answers are what their schemas make.
#[test]
fn every_example_is_of_its_schema() {
    let document = openapi::document(&Rules::defaults().unwrap().access);
    let components = document["components"]["schemas"].as_object().unwrap();
    let shapes = Shapes::of(&document);
    let mut seen = 0;
    for methods in document["paths"].as_object().unwrap().values() {
        for operation in methods.as_object().unwrap().values() {
            let id = &operation["operationId"];
            let body = &operation["requestBody"]["content"]["application/json"];
            let answers = operation["responses"].as_object().unwrap().values();
            let answers = answers.map(|one| &one["content"]["application/json"]["schema"]);
            let answers = answers.map(|schema| (schema, schema::example(schema, components)));
            let sent = (&body["schema"], body["example"].clone());
            for (schema, example) in answers.chain([sent]).filter(|(schema, _)| schema.is_object())
            {
                assert_eq!(shapes.schema(schema).faults(&example), Vec::<String>::new(), "{id}");
                seen += 1;
            }
        }
    }
    assert!(seen > 10);
}

/// Bounds the size, so that reading it and generating clients stay fast.
#[test]
fn the_document_is_of_a_size() {
    let document = openapi::document(&Rules::defaults().unwrap().access).to_string();
    assert!(document.len() < 420_000, "{} octets", document.len());
}

/// Proves that the public document is the whole document.
#[tokio::test]
async fn the_document_is_served_without_a_key() {
    let house = House::new().await;
    let reply = house.send("GET", "/api/v2/openapi.json", None).await;
    assert_eq!((reply.status, reply.headers["content-type"].as_str()), (200, "application/json"));
    reply.carries_what_every_answer_carries();
    assert_eq!(reply.json(), openapi::document(&house.http.rules));
}

/// The descriptions and schemas that answers must match, made once.
struct Held {
    descriptions: Vec<(&'static Operation, Description)>,
    shapes: Shapes,
    problem: Schema,
    /// By operation and status, from the first answer on.
    answers: Mutex<BTreeMap<(String, u16), Arc<Schema>>>,
}

static HELD: LazyLock<Held> = LazyLock::new(|| {
    let rules = Rules::defaults().unwrap().access;
    let document = openapi::document(&rules);
    let shapes = Shapes::of(&document);
    let problem = shapes.schema(&document["components"]["schemas"]["Problem"]);
    let answers = Mutex::default();
    Held { descriptions: openapi::operations(&rules), shapes, problem, answers }
});

/// Checks an answer against the description of its operation: the status is declared, the body has
/// the declared type, and JSON has the described fields and no others. Skips requests that reach no
/// operation.
pub(super) fn hold(request: &[u8], reply: &Reply) {
    let Some(operation) = asked_for(request) else { return };
    let held = &*HELD;
    let described = described(&held.descriptions, operation).unwrap();
    // hyper itself refused the request.
    if !reply.headers.contains_key("x-request-id") {
        return;
    }
    let name = operation.name();
    let content_type = reply.headers.get("content-type").map_or("", String::as_str);
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if essence == "application/problem+json" {
        let problem = reply.json();
        let known = openapi::codes(operation);
        let code = problem["code"].as_str().unwrap();
        let is_known = known.iter().any(|one| one.as_str() == code);
        assert!(is_known, "{name} answers {code}, which its description does not name: {problem}");
        assert_eq!(held.problem.faults(&problem), Vec::<String>::new(), "{name}");
        return;
    }
    let answer = described.answers.iter().find(|answer| answer.status == reply.status);
    let answer = answer.unwrap_or_else(|| panic!("{name} answers {}: not described", reply.status));
    match (answer.schema(), &answer.content) {
        (_, Content::Octets(types)) => {
            let is_known = types.iter().any(|kind| *kind == "*/*" || *kind == essence);
            assert!(is_known, "{name}: {essence} is none of {types:?}");
        }
        (Some(_), _) if answer.also == Some(essence) => {}
        (Some(schema), _) if essence == "application/json" => {
            let mut known = held.answers.lock().unwrap();
            let made = || Arc::new(held.shapes.schema(&schema));
            let key = (name.to_string(), reply.status);
            let schema = Arc::clone(known.entry(key).or_insert_with(made));
            drop(known);
            let wrong = schema.faults(&reply.json());
            assert!(wrong.is_empty(), "{name} {}: {wrong:#?}", reply.status);
        }
        (Some(_), _) => panic!("{name} answers {essence}"),
        (None, _) => assert!(reply.body.is_empty(), "{name}: a body"),
    }
}

/// The operation that a request names, if its first line is well-formed.
fn asked_for(request: &[u8]) -> Option<&'static Operation> {
    let line = request.split(|octet| *octet == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (verb, target) = (words.next()?, words.next()?);
    let path = target.split('?').next()?.strip_prefix("/api/v2")?;
    let segments: Vec<&str> = path.split('/').collect();
    let leads_to = |path: &str| {
        let own: Vec<&str> = path.split('/').collect();
        let same = |(own, given): (&&str, &&str)| own.starts_with('{') || own == given;
        own.len() == segments.len() && own.iter().zip(&segments).all(same)
    };
    // A path without names comes before one with names, for every method.
    let names = |path: &str| path.matches('{').count();
    let paths =
        |operation: &'static Operation| operation.paths().map(move |path| (path, operation));
    let all = OPERATIONS.iter().flat_map(paths).filter(|(path, _)| leads_to(path));
    let all: Vec<(&str, &Operation)> = all.collect();
    let fewest = all.iter().map(|(path, _)| names(path)).min()?;
    let of_verb =
        |(path, one): &&(&str, &Operation)| names(path) == fewest && one.verb.as_str() == verb;
    // A UUID is the id of a message where one is taken, and never that of a room.
    let is_uuid = segments.get(2).is_some_and(|given| wire::uuid(given).is_some());
    let fits = |(path, _): &&(&str, &Operation)| path.contains("{messageUuid}") == is_uuid;
    let mut found = all.iter().filter(of_verb);
    found.clone().find(fits).or_else(|| found.next()).map(|(_, operation)| *operation)
}
