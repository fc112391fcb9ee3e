//! Descriptions and named shapes of all operations, collected from their types.

use serde_json::Value;

use crate::http::error::ProblemBody;
use crate::http::openapi::events;
use crate::http::operation::Operation;
use crate::http::table::OPERATIONS;
use crate::http::typed::description::Description;
use crate::http::typed::{Bounds, shapes_of};
use crate::rules::AccessRules;

/// The rows of the table with their descriptions, with the numbers of these rules.
pub(in crate::http) fn operations(rules: &AccessRules) -> Vec<(&'static Operation, Description)> {
    let bounds = Bounds::of(rules);
    OPERATIONS.iter().map(|row| (row, row.form.description(&bounds))).collect()
}

/// Named shapes (`#/components/schemas/…`).
pub(in crate::http) fn shapes(rules: &AccessRules) -> Vec<(String, Value)> {
    let bounds = Bounds::of(rules);
    let all = events::shapes().into_iter().chain(shapes_of::<ProblemBody>());
    all.chain(OPERATIONS.iter().flat_map(|row| row.form.shapes(&bounds))).collect()
}
