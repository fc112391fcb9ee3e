//! RFC 7386 (JSON merge patch), with parts that are replaced whole.

use serde_json::{Map, Value};

use super::config::shown;
use crate::domain::fault::escaped;

/// Levels of objects.
const DEEPEST: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    #[error(
        "replacePaths: {0:?} is not a JSON Pointer to a part of the patch, such as \"/labels\""
    )]
    NoPart(String),
    #[error("{0} is nested too deep: nest at most {DEEPEST} objects")]
    TooDeep(String),
}

/// Applies a patch to a configuration. Objects of the patch at the JSON Pointers `whole` (RFC 6901)
/// replace the existing ones instead of being merged. Fails if the patch lacks one of them.
pub(super) fn merged(
    config: &Map<String, Value>,
    patch: &Map<String, Value>,
    whole: &[&str],
) -> Result<Map<String, Value>, PatchError> {
    let patched = Value::Object(patch.clone());
    for place in whole {
        if place.is_empty() || patched.pointer(place).is_none() {
            return Err(PatchError::NoPart(shown(place).to_owned()));
        }
    }
    let mut new = config.clone();
    merge(&mut new, patch, "", whole, DEEPEST)?;
    Ok(new)
}

fn merge(
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    at: &str,
    whole: &[&str],
    deep: usize,
) -> Result<(), PatchError> {
    for (name, value) in patch {
        // Uncut, however long: it decides whether a pointer matches.
        let place = format!("{at}/{}", escaped(name));
        match value {
            Value::Null => drop(target.remove(name)),
            Value::Object(inner) => {
                let left = deep.checked_sub(1);
                let left = left.ok_or_else(|| PatchError::TooDeep(shown(&place).to_owned()))?;
                let mut known = match target.remove(name) {
                    Some(Value::Object(known)) if !whole.contains(&place.as_str()) => known,
                    _ => Map::new(),
                };
                merge(&mut known, inner, &place, whole, left)?;
                target.insert(name.clone(), Value::Object(known));
            }
            other => drop(target.insert(name.clone(), other.clone())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn done(config: Value, patch: Value, whole: &[&str]) -> Result<Value, PatchError> {
        let object = |value: Value| value.as_object().unwrap().clone();
        merged(&object(config), &object(patch), whole).map(Value::Object)
    }

    /// RFC 7386, appendix A: the cases in which both are objects.
    #[test]
    fn the_cases_of_the_standard() {
        for (config, patch, expected) in [
            (json!({ "a": "b" }), json!({ "a": "c" }), json!({ "a": "c" })),
            (json!({ "a": "b" }), json!({ "b": "c" }), json!({ "a": "b", "b": "c" })),
            (json!({ "a": "b" }), json!({ "a": null }), json!({})),
            (json!({ "a": "b", "b": "c" }), json!({ "a": null }), json!({ "b": "c" })),
            (json!({ "a": ["b"] }), json!({ "a": "c" }), json!({ "a": "c" })),
            (json!({ "a": "c" }), json!({ "a": ["b"] }), json!({ "a": ["b"] })),
            (
                json!({ "a": { "b": "c" } }),
                json!({ "a": { "b": "d", "c": null } }),
                json!({ "a": { "b": "d" } }),
            ),
            (json!({ "a": [{ "b": "c" }] }), json!({ "a": [1] }), json!({ "a": [1] })),
            (json!({ "e": null }), json!({ "a": 1 }), json!({ "e": null, "a": 1 })),
            (json!({}), json!({ "a": { "bb": { "ccc": null } } }), json!({ "a": { "bb": {} } })),
        ] {
            assert_eq!(done(config.clone(), patch.clone(), &[]).unwrap(), expected, "{patch}");
        }
    }

    #[test]
    fn what_is_named_is_replaced_whole_and_must_be_there() {
        let (config, patch) = (
            json!({ "a": { "x": 1 }, "b": { "y": 1 } }),
            json!({ "a": { "z": 2 }, "b": { "z": 2 } }),
        );
        let one = json!({ "a": { "z": 2 }, "b": { "y": 1, "z": 2 } });
        assert_eq!(done(config.clone(), patch.clone(), &["/a"]).unwrap(), one);
        for odd in ["", "a", "/c", "/a/x", "#/a"] {
            let refused = done(config.clone(), patch.clone(), &[odd]).unwrap_err();
            assert_eq!(refused, PatchError::NoPart(odd.to_owned()));
        }
        let deep = (0..20).fold(json!(1), |inner, _| json!({ "a": inner }));
        assert!(matches!(done(json!({}), deep, &[]), Err(PatchError::TooDeep(_))));
    }
}
