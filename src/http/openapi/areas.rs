//! The descriptions of all areas, put together: operations, and shapes that have a name.

use serde_json::Value;

use super::super::description::Description;
use super::super::operation::{Asks, Operation};
use super::super::table::OPERATIONS;
use super::super::typed::{Bounds, Form};
use super::{
    events, messaging, problems, webhooks,
};
use crate::rules::AccessRules;

/// All operations, as each area describes its own.
pub(in crate::http) fn operations(rules: &AccessRules) -> Vec<Description> {
    let areas = [
        messaging::operations(rules),
        webhooks::operations(rules),
    ];
    let bounds = Bounds::of(rules);
    let typed = forms().map(|form| form.description(&bounds));
    areas.into_iter().flatten().chain(typed).collect()
}

/// The description of this operation.
pub(in crate::http) fn of<'d>(
    descriptions: &'d [Description],
    operation: &Operation,
) -> Option<&'d Description> {
    descriptions.iter().find(|one| (one.verb, one.path) == (operation.verb, operation.path))
}

fn forms() -> impl Iterator<Item = &'static Form> {
    OPERATIONS.iter().filter_map(|operation| match operation.asks {
        Asks::Type(form) => Some(&**form),
        Asks::Names(..) => None,
    })
}

/// Shapes that have a name (`#/components/schemas/…`).
pub(in crate::http) fn shapes(rules: &AccessRules) -> Vec<(String, Value)> {
    let bounds = Bounds::of(rules);
    let named = [
        messaging::shapes(),
        webhooks::shapes(),
    ];
    let named = named.into_iter().flatten().map(|(name, schema)| (name.to_owned(), schema));
    let named = named.chain(problems::shapes()).chain(events::shapes());
    named.chain(forms().flat_map(|form| form.shapes(&bounds))).collect()
}
