//! Requests as types: mistakes are found all at once, each where it is, and nothing else is let in.

use serde::Deserialize;
use serde_json::{Value, json};

use super::check::Check;
use super::form::{generator, names_of};
use super::tidy::{fields_of, published, tidy};
use super::*;
use crate::domain::event::Category;
use crate::domain::id::AccountId;
use crate::rules::Rules;
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
    /// A place.
    place: Option<Place>,
    /// Some accounts.
    #[schemars(extend("minItems" = 1, "maxItems" = "members.max_permitted"))]
    of: Option<Vec<Named<AccountId>>>,
    /// True, false or null.
    #[serde(default, deserialize_with = "crate::wire::sent")]
    #[schemars(extend("x-null" = true))]
    maybe: Option<Option<bool>>,
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

fn mistakes(value: &Value) -> Vec<(String, String)> {
    let bounds = Bounds::of(&Rules::defaults().unwrap().access);
    let mut generator = generator(Contract::Deserialize);
    let mut schema = Much::json_schema(&mut generator).to_value();
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
        "word": "mail", "at": "soon", "limit": 0, "howMany": -1, "place": "1-2", "of": [7, "8", "07", 1.5],
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
    assert_eq!(told("/place"), "must be a cursor: take it from an earlier answer");
    let number = "must be a whole number from 1 to 9007199254740991, without sign or leading zeros";
    assert_eq!([told("/of/2"), told("/of/3")], [number, number]);
    assert_eq!(found.len(), 13);
    let none = mistakes(&json!({ "text": "", "parts": [], "of": [] }));
    assert_eq!(none, [("/of".to_owned(), "must be an array of 1 to 200 items".to_owned())]);
}

#[test]
fn nothing_is_wrong_with_what_is_asked_for() {
    let id = "019a9e5c-7c80-7000-8000-000000000001";
    for value in [
        json!({ "text": "", "parts": [] }),
        json!({ "text": "x", "parts": [{ "id": id }, { "id": id, "on": true }], "word": "incoming",
                "at": 1_795_168_800, "limit": 100, "howMany": 0, "of": ["7", 9] }),
        json!({ "text": "x", "parts": [], "at": "2026-11-20" }),
    ] {
        assert_eq!(mistakes(&value), []);
        let read: Much = serde_json::from_value(value).unwrap();
        assert!(read.parts.len() < 3 && read.limit.is_none_or(|Limit(limit)| limit == 100));
    }
}

/// Fields stand as they are declared, and what is said of them is said once.
#[test]
fn a_type_is_described_as_it_is_declared() {
    let mut schema = Much::json_schema(&mut generator(Contract::Deserialize)).to_value();
    tidy(&mut schema, true);
    let (fields, about) = fields_of(&published(schema), names_of::<Much>());
    let names: Vec<_> = fields.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        ["text", "parts", "word?", "at?", "limit?", "howMany?", "place?", "of?", "maybe?"]
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
