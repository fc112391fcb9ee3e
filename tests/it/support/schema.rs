//! Holds values against JSON Schemas, and one thing more strictly than the standard: a property that
//! is not described is wrong, unless `additionalProperties` says that there may be others. A keyword
//! that is not known here is wrong, too: nothing would be held against it.

use jsonschema::{Draft, Keyword, Registry, ValidationError, ValidationOptions, Validator};
use serde_json::{Map, Value, json};

/// By this name schemas refer to the shapes of a document.
const DOCUMENT: &str = "urn:document";
/// By this one to such of them as other fields may stand beside.
const OPEN: &str = "urn:open";

/// Beside `type: integer`: a whole number is written as one. To the standard, 1.0 is an integer, too.
const WHOLE: &str = "x-whole";

struct Whole;

impl<'i> Keyword<'i> for Whole {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        let told = || ValidationError::custom("a whole number is written without a fraction");
        if self.is_valid(value) { Ok(()) } else { Err(told()) }
    }

    fn is_valid(&self, value: &'i Value) -> bool {
        !value.is_f64()
    }
}

/// Keywords that hold nothing against a value.
const TOLD: &str = "$defs $id $schema default deprecated description example examples readOnly title \
                    writeOnly";

/// Keywords without schemas in them that do; the schemas in `not` and `propertyNames` are of nothing that
/// has properties to be described.
const PLAIN: &str = "const enum maxItems maxLength maxProperties maximum minItems minLength \
                     minProperties minimum not pattern propertyNames required type uniqueItems";

/// Texts that `format` may ask for; octets are described, and held against nothing.
const FORMATS: &str = "date-time uuid";
const OCTETS: &str = "binary";

/// Keywords with schemas in them.
const NESTED: &str = "$ref additionalProperties allOf anyOf items oneOf properties";

/// Shapes that schemas refer to as `#/components/schemas/…` or `#/$defs/…`.
pub struct Shapes(Registry<'static>);

/// A schema that values are held against.
pub struct Schema(Validator);

impl Shapes {
    /// Those of a description of the API, or of a schema.
    pub fn of(document: &Value) -> Self {
        let all = |act: fn(&mut Value)| {
            let closed = |shapes: &Value| {
                let mut shapes = shapes.clone();
                shapes.as_object_mut().into_iter().flat_map(Map::values_mut).for_each(act);
                shapes
            };
            json!({
                "components": { "schemas": closed(&document["components"]["schemas"]) },
                "$defs": closed(&document["$defs"]),
            })
        };
        let registry = Registry::new().add(DOCUMENT, all(close)).unwrap();
        Self(registry.add(OPEN, all(close_inside)).unwrap().prepare().unwrap())
    }

    /// A schema that may refer to them.
    pub fn schema(&self, schema: &Value) -> Schema {
        let mut schema = schema.clone();
        close(&mut schema);
        let made = options().with_registry(&self.0).build(&schema);
        Schema(made.unwrap_or_else(|error| panic!("{error}: {schema}")))
    }
}

impl Schema {
    /// A schema that refers to no shapes but its own.
    pub fn new(schema: &Value) -> Self {
        Shapes::of(schema).schema(schema)
    }

    /// Returns the faults of a value in words; none if it is valid.
    pub fn faults(&self, value: &Value) -> Vec<String> {
        let fault = |error: ValidationError<'_>| format!("{}: {error}", error.instance_path());
        self.0.iter_errors(value).map(fault).collect()
    }
}

fn options<'r>() -> ValidationOptions<'r> {
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .with_keyword(WHOLE, |_, _, _| Ok(Box::new(Whole)))
        .should_validate_formats(true)
}

/// Lets no properties be that are not described. Of one that is put together from others, and
/// describes none itself, they do; parts of one that has all of them leave that to the whole.
fn close(schema: &mut Value) {
    close_inside(schema);
    let Value::Object(keywords) = schema else { return };
    let mut parts = ["$ref", "anyOf", "oneOf"].iter();
    if keywords.contains_key("allOf") {
        keywords.insert("unevaluatedProperties".to_owned(), false.into());
    } else if keywords.contains_key("properties") || !parts.any(|name| keywords.contains_key(*name))
    {
        keywords.entry("additionalProperties").or_insert(false.into());
    }
}

fn is_in(lists: &[&str], name: &str) -> bool {
    lists.iter().any(|all| all.split(' ').any(|one| one == name))
}

fn close_inside(schema: &mut Value) {
    let Value::Object(keywords) = schema else { return };
    if keywords.get("type").is_some_and(|kind| kind.to_string().contains("integer")) {
        keywords.insert(WHOLE.to_owned(), true.into());
    }
    for (name, inside) in keywords.iter_mut() {
        match (name.as_str(), inside) {
            ("properties" | "$defs", Value::Object(schemas)) => {
                schemas.values_mut().for_each(close);
            }
            ("anyOf" | "oneOf", Value::Array(schemas)) => schemas.iter_mut().for_each(close),
            ("allOf", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(close_inside);
                let references = schemas.iter_mut().filter_map(|one| one.get_mut("$ref"));
                references
                    .for_each(|one| *one = one.as_str().unwrap().replace(DOCUMENT, OPEN).into());
            }
            ("items" | "additionalProperties", schema) => close(schema),
            ("$ref", Value::String(place)) if place.starts_with('#') => {
                place.insert_str(0, DOCUMENT);
            }
            ("format", Value::String(text)) => {
                assert!(is_in(&[FORMATS, OCTETS], text), "the format {text} is not known");
            }
            (WHOLE, _) => {}
            (name, _) => {
                assert!(is_in(&[TOLD, PLAIN, NESTED], name), "the keyword {name} is not known");
            }
        }
    }
}

#[test]
fn what_is_not_described_is_wrong() {
    let shape = json!({ "type": "object", "properties": { "a": { "type": "integer" } } });
    let document = json!({ "components": { "schemas": { "Shape": shape } } });
    let shapes = Shapes::of(&document);
    let reference = json!({ "$ref": "#/components/schemas/Shape" });
    let open = json!({ "properties": { "a": {} }, "additionalProperties": true });
    let both = json!({ "allOf": [reference, { "properties": { "b": {} } }] });
    for (schema, good, bad) in [
        (shape.clone(), json!({ "a": 1 }), json!({ "a": 1, "b": 1 })),
        (reference.clone(), json!({ "a": 1 }), json!({ "b": 1 })),
        (json!({ "anyOf": [reference, { "type": "null" }] }), json!({}), json!({ "b": 1 })),
        (both, json!({ "a": 1, "b": 1 }), json!({ "c": 1 })),
        (json!({ "items": shape }), json!([{}]), json!([{ "b": 1 }])),
        (json!({ "properties": { "a": {} } }), json!({ "a": 1 }), json!({ "a": { "b": 1 } })),
        (json!({ "additionalProperties": shape }), json!({ "x": {} }), json!({ "x": { "b": 1 } })),
        (open, json!({ "a": 1, "b": 1 }), json!({ "a": { "b": 1 } })),
        (json!({ "not": { "type": "null" } }), json!(1), json!(null)),
        (json!({ "type": ["integer", "null"] }), json!(1), json!(1.0)),
        (json!({ "pattern": "^[0-9]+$" }), json!("12"), json!("1x")),
        (json!({ "format": "uuid" }), json!("0198c0de-0000-7000-8000-000000000000"), json!("1")),
    ] {
        let schema_of = shapes.schema(&schema);
        assert_eq!(schema_of.faults(&good), Vec::<String>::new(), "{schema}");
        assert_eq!(schema_of.faults(&bad).len(), 1, "{schema} {bad}");
    }
}

#[test]
fn the_published_suite_comes_out_as_it_says() {
    let suite = include_str!("../../../fixtures/json-schema.json");
    let suite: Value = serde_json::from_str(suite).unwrap();
    for keyword in [PLAIN, NESTED, FORMATS].iter().flat_map(|all| all.split(' ')) {
        for group in suite[keyword].as_array().unwrap_or_else(|| panic!("nothing of {keyword}")) {
            let schema = options().build(&group["schema"]).unwrap();
            for test in group["tests"].as_array().unwrap() {
                let told = schema.is_valid(&test["data"]);
                assert_eq!(test["valid"], told, "{keyword}: {}: {test}", group["description"]);
            }
        }
    }
}

#[test]
#[should_panic = "the keyword requird is not known"]
fn a_keyword_that_is_not_known_is_wrong() {
    Schema::new(&json!({ "requird": ["a"] }));
}
