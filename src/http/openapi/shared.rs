//! Moves parameters and shapes used in several places into shared components.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::http::typed::schema::reference;

/// Shapes with fewer fields are not searched for in others.
const LEAST_FIELDS: usize = 8;

/// Moves parameters used more than once into components, by name. A second parameter of one name
/// gets its place (`query`, `path`) as a prefix; any further one stays where it is.
pub(super) fn parameters(paths: &mut [&mut Map<String, Value>]) -> Map<String, Value> {
    let mut counts: BTreeMap<String, (usize, Value)> = BTreeMap::new();
    each(paths, |one| {
        counts.entry(one.to_string()).or_insert_with(|| (0, one.clone())).0 += 1;
    });
    let mut often: Vec<_> = counts.into_iter().filter(|(_, (count, _))| *count > 1).collect();
    often.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    let (mut components, mut references) = (Map::new(), BTreeMap::new());
    for (text, (_, one)) in often {
        let word = |name: &str| one.get(name).and_then(Value::as_str).unwrap_or_default();
        let names = [word("name").to_owned(), format!("{}-{}", word("in"), word("name"))];
        let Some(name) = names.into_iter().find(|name| !components.contains_key(name)) else {
            continue;
        };
        references.insert(text, json!({ "$ref": format!("#/components/parameters/{name}") }));
        components.insert(name, one);
    }
    each(paths, |one| {
        if let Some(reference) = references.get(&one.to_string()) {
            *one = reference.clone();
        }
    });
    components
}

/// Calls `act` with each parameter of each operation.
fn each(paths: &mut [&mut Map<String, Value>], mut act: impl FnMut(&mut Value)) {
    let operations = paths.iter_mut().flat_map(|all| all.values_mut());
    for operation in operations.filter_map(Value::as_object_mut).flat_map(Map::values_mut) {
        if let Some(Value::Array(all)) = operation.get_mut("parameters") {
            all.iter_mut().for_each(&mut act);
        }
    }
}

/// Writes an object with all fields of a named shape as that shape plus the other fields.
pub(super) fn composed(schema: Value, named: &Map<String, Value>) -> Value {
    let fields = |schema: &Value| schema.get("properties").and_then(Value::as_object).cloned();
    let Some(own) = fields(&schema) else { return schema };
    let all = named.iter().filter_map(|(name, shape)| Some((name, fields(shape)?)));
    let within = all.filter(|(_, shape)| {
        shape.len() >= LEAST_FIELDS
            && shape.iter().all(|(name, field)| own.get(name) == Some(field))
    });
    let Some((name, shape)) = within.max_by_key(|(_, shape)| shape.len()) else { return schema };
    let others: Map<String, Value> =
        own.into_iter().filter(|(name, _)| !shape.contains_key(name)).collect();
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let is_other = |name: &&Value| name.as_str().is_some_and(|name| others.contains_key(name));
    let required: Vec<Value> = required.filter(is_other).cloned().collect();
    let others = json!({ "type": "object", "properties": others, "required": required });
    json!({ "description": schema.get("description"), "allOf": [reference(name), others] })
}
