//! Descriptions and named shapes of all operations, collected from their types.

use serde_json::Value;

use crate::http::error::Shown;
use crate::http::openapi::events;
use crate::http::table::OPERATIONS;
use crate::http::typed::description::Description;
use crate::http::typed::{Bounds, Form, shapes_of};
use crate::rules::AccessRules;

/// All operations in the order of their table, with the bounds of these rules.
pub(in crate::http) fn operations(rules: &AccessRules) -> Vec<Description> {
    let bounds = Bounds::of(rules);
    forms().map(|form| form.description(&bounds)).collect()
}

fn forms() -> impl Iterator<Item = &'static Form> {
    OPERATIONS.iter().map(|operation| &**operation.form)
}

/// Shapes that have a name (`#/components/schemas/…`).
pub(in crate::http) fn shapes(rules: &AccessRules) -> Vec<(String, Value)> {
    let bounds = Bounds::of(rules);
    let all = events::shapes().into_iter().chain(shapes_of::<Shown>());
    all.chain(forms().flat_map(|form| form.shapes(&bounds))).collect()
}
