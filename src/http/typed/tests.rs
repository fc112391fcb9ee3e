//! Typed requests: all mistakes are found at once, each with its place, and no other request is
//! accepted.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::agents::schema::{Line, SomeFields};
use crate::domain::event::Category;
use crate::domain::id::AccountId;
use crate::http::typed::check::Check;
use crate::http::typed::form::{generator, names_of};
use crate::http::typed::schema::fields_of;
use crate::http::typed::*;
use crate::rules::Rules;
use crate::wire::tidy::{published, tidy};
use crate::wire::{Id, Moment, Named, Word};
use schemars::JsonSchema;
use schemars::generate::Contract;

/// Asks for much
///
/// More is said of it,
/// in two lines.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "its fields are looked at in its schema")]
struct Much {
    /// A text.
    text: String,
    /// A list of parts.
    parts: Vec<Part>,
    /// A word.
    word: Option<Word<Category>>,
    /// A moment.
    at: Option<Moment>,
    limit: Option<Limit>,
    /// How many.
    how_many: Option<u32>,
    /// A place or an id.
    spot: Option<ListPlace>,
    /// A part or its id.
    either: Option<PartOrId>,
    /// Some accounts.
    #[schemars(extend("minItems" = 1, "maxItems" = "members.max_permitted"))]
    of: Option<Vec<Named<AccountId>>>,
    /// True, false or null.
    #[serde(default, deserialize_with = "crate::wire::sent")]
    #[schemars(extend("x-null" = true))]
    maybe: Option<Option<bool>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
#[expect(dead_code, reason = "its fields are looked at in its schema")]
enum PartOrId {
    Id(Id),
    Part(Part),
}

/// A part.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "its fields are looked at in its schema")]
struct Part {
    /// Which.
    id: Id,
    /// Whether.
    on: Option<bool>,
}

/// A schema with keywords of our own.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "its fields are looked at in its schema")]
struct Special {
    /// One way or another.
    ways: Vec<Way>,
    /// Each once.
    #[schemars(extend("uniqueItems" = true))]
    once: Vec<Line>,
    /// Some fields of a configuration.
    config: SomeFields,
    /// By names of a list.
    #[schemars(extend("propertyNames" = json!({ "enum": ["a", "b"] })))]
    named: BTreeMap<String, u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "its fields are looked at in its schema")]
enum Way {
    Flag(bool),
    Parts(Vec<Part>),
}

fn mistakes(value: &Value) -> Vec<(String, String)> {
    mistakes_of::<Much>(value)
}

fn mistakes_of<R: JsonSchema>(value: &Value) -> Vec<(String, String)> {
    let bounds = Bounds::of(&Rules::defaults().unwrap().access);
    let mut generator = generator(Contract::Deserialize);
    let mut schema = R::json_schema(&mut generator).to_value();
    let mut shapes = generator.take_definitions(true);
    shapes.values_mut().chain([&mut schema]).for_each(|schema| tidy(schema, true));
    let mut check = Check::new(&shapes, &bounds);
    check.value(&schema, value, "");
    check.faults.into_iter().map(|fault| (fault.pointer, fault.detail)).collect()
}

#[test]
fn all_mistakes_are_told_each_where_it_is() {
    let found = mistakes(&json!({
        "parts": [{ "id": "7" }, { "id": "019a9e5c-7c80-7000-8000-000000000001", "on": null }, { "of": 1 }, 4],
        "word": "mail", "at": "soon", "limit": 0, "howMany": -1, "spot": "older.1-2", "either": { "on": 1 },
        "of": [7, "8", "07", 1.5],
    }));
    let told = |pointer: &str| {
        let of: Vec<_> =
            found.iter().filter(|(at, _)| at == pointer).map(|(_, d)| d.as_str()).collect();
        of.join("; ")
    };
    assert_eq!(told("/text"), "is missing: send a string");
    assert_eq!(told("/parts/0/id"), "must be a UUID, as answers show it");
    assert_eq!(told("/parts/1/on"), "must be true or false");
    assert_eq!(told("/parts/2/of"), "is not known here: expected id, on, not \"of\"");
    assert_eq!(told("/parts/2/id"), "is missing: send a UUID, as answers show it");
    assert_eq!(told("/parts/3"), "must be an object");
    assert!(told("/word").starts_with("must be one of: "));
    assert!(told("/at").starts_with("must be Unix seconds, or a date like "));
    assert_eq!(told("/limit"), "must be a whole number from 1 to 200");
    assert_eq!(told("/howMany"), "must be a whole number, not negative");
    assert_eq!(told("/spot"), "must be a cursor of an earlier answer, or an id of this list");
    assert_eq!(told("/either/on"), "must be true or false");
    assert_eq!(told("/either/id"), "is missing: send a UUID, as answers show it");
    let number = "must be a whole number from 1 to 9007199254740991, without sign or leading zeros";
    assert_eq!([told("/of/2"), told("/of/3")], [number, number]);
    assert_eq!(found.len(), 15);
    let none = mistakes(&json!({ "text": "", "parts": [], "of": [] }));
    assert_eq!(none, [("/of".to_owned(), "must be an array of 1 to 200 items".to_owned())]);
}

/// A configuration has its own table, from which the schema is generated.
#[test]
fn what_is_special_is_checked_where_it_stands() {
    let found = mistakes_of::<Special>(&json!({
        "ways": [true, 1, [{ "id": "7" }]], "once": ["a", "b", "a", "a\nb", "é".repeat(101)],
        "config": { "title": 1, "allowed": true, "no": 1, "timezone": null },
        "named": { "a": 1, "b": -1, "c": 1 },
    }));
    let found: Vec<_> = found.iter().map(|(at, detail)| format!("{at} {detail}")).collect();
    let expected = [
        "/config/allowed is calculated by the server and cannot be set: leave it out",
        "/config/no is not known here: leave it out",
        "/config/title must be a string",
        "/named/b must be a whole number, not negative",
        "/named/c is not known here: expected one of: a, b",
        "/once/2 is there twice: send it once",
        "/once/3 must be one line of 1 to 200 bytes",
        "/once/4 must be one line of 1 to 200 bytes",
        "/ways/1 must be true or false, or an array",
        "/ways/2/0/id must be a UUID, as answers show it",
    ];
    assert_eq!(found, expected);
}

/// Texts in a schema that name no rule stay.
#[test]
fn bounds_take_the_place_of_the_names_of_rules_alone() {
    let bounds = Bounds::of(&Rules::defaults().unwrap().access);
    let mut schema = json!({ "maxLength": "agents.max_title_bytes", "default": "en-US" });
    bounds.fill(&mut schema);
    assert_eq!(schema, json!({ "maxLength": 200, "default": "en-US" }));
}

#[test]
fn nothing_is_wrong_with_what_is_asked_for() {
    let id = "019a9e5c-7c80-7000-8000-000000000001";
    for value in [
        json!({ "text": "", "parts": [] }),
        json!({ "text": "x", "parts": [{ "id": id }, { "id": id, "on": true }], "word": "incoming",
                "at": 1_795_168_800, "limit": 100, "howMany": 0, "of": ["7", 9] }),
        json!({ "text": "x", "parts": [], "at": "2026-11-20", "spot": id, "either": id }),
        json!({ "text": "x", "parts": [], "spot": format!("older.1-{}", id.replace('-', "")),
                "either": { "id": id } }),
    ] {
        assert_eq!(mistakes(&value), []);
        let read: Much = serde_json::from_value(value).unwrap();
        assert!(read.parts.len() < 3 && read.limit.is_none_or(|Limit(limit)| limit == 100));
    }
}

#[test]
fn of_fields_that_exclude_each_other_one_is_sent() {
    let bounds = Bounds::of(&Rules::defaults().unwrap().access);
    for (given, expected) in [
        (json!({}), Some("/one is missing: send one or other")),
        (json!({ "one": 1, "more": 2 }), None),
        (json!({ "other": 1 }), None),
        (
            json!({ "one": 1, "other": 1 }),
            Some("/other is one field too many: send only one or other"),
        ),
    ] {
        let shapes = serde_json::Map::new();
        let mut check = Check::new(&shapes, &bounds);
        check.one_of(&["one", "other"], given.as_object().unwrap());
        let told: Vec<_> =
            check.faults.iter().map(|one| format!("{} {}", one.pointer, one.detail)).collect();
        assert_eq!(told, expected.into_iter().collect::<Vec<_>>(), "{given}");
    }
}

/// Fields keep the order of declaration, and each description appears once.
#[test]
fn a_type_is_described_as_it_is_declared() {
    let mut schema = Much::json_schema(&mut generator(Contract::Deserialize)).to_value();
    tidy(&mut schema, true);
    let (fields, about) = fields_of(&published(schema), names_of::<Much>());
    let names: Vec<_> = fields.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        [
            "text", "parts", "word?", "at?", "limit?", "howMany?", "spot?", "either?", "of?",
            "maybe?",
        ]
    );
    assert_eq!(about.split_once("\n\n").unwrap().0, "Asks for much");
    let of = |wanted: &str| fields.iter().find(|(name, _)| *name == wanted).unwrap().1.clone();
    assert_eq!(
        of("howMany?"),
        json!({ "type": "integer", "minimum": 0, "description": "How many." })
    );
    assert_eq!(
        of("maybe?"),
        json!({ "type": ["boolean", "null"], "description": "True, false or null." })
    );
    assert_eq!(of("at?"), json!({ "type": "string", "description": "A moment." }));
}
