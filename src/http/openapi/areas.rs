//! The descriptions of all areas, put together: operations, and shapes that have a name.

use serde_json::Value;

use super::super::description::Description;
use super::super::operation::{Asks, Operation};
use super::super::table::OPERATIONS;
use super::super::typed::{Bounds, Form};
use super::{
    accounts, agents, apps, computers, conversation_logs, events, inbound_email, people, problems,
    templates,
};
use crate::rules::AccessRules;

/// All operations, as each area describes its own.
pub(in crate::http) fn operations(rules: &AccessRules) -> Vec<Description> {
    let areas = [
        accounts::operations(rules),
        people::operations(rules),
        inbound_email::operations(rules),
        conversation_logs::operations(rules),
        agents::operations(rules),
        templates::operations(rules),
        apps::operations(),
        computers::operations(rules),
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
        accounts::shapes(),
        people::shapes(),
        inbound_email::shapes(),
        conversation_logs::shapes(),
        agents::shapes(),
        templates::shapes(),
        apps::shapes(),
        computers::shapes(),
    ];
    let named = named.into_iter().flatten().map(|(name, schema)| (name.to_owned(), schema));
    let named = named.chain(problems::shapes()).chain(events::shapes());
    named.chain(forms().flat_map(|form| form.shapes(&bounds))).collect()
}
