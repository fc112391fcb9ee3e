//! Pages of lists, as clients ask for them and as links lead on.

use super::call::Call;
use super::error::Problem;
use super::router::BASE;
use super::target::TARGET;
use crate::rules::AccessRules;
use crate::store::Cursor;

/// The `limit` of a request: a whole number from 1 to the largest page.
pub(super) fn limit(call: &Call, rules: &AccessRules) -> Result<u32, Problem> {
    let limits = &rules.limits;
    let Some(text) = call.query().get("limit") else { return Ok(limits.default_page) };
    let number = text.parse().ok().filter(|number: &u32| number.to_string() == text);
    number.filter(|number| (1..=limits.max_page).contains(number)).ok_or_else(|| {
        Problem::invalid(format!("limit must be a whole number from 1 to {}", limits.max_page))
    })
}

/// A cursor of an earlier answer, in the query parameter `name`.
pub(super) fn cursor(call: &Call, name: &str) -> Result<Option<Cursor>, Problem> {
    let read = |text: &str| {
        // A cursor has one spelling, too.
        text.parse().ok().filter(|cursor: &Cursor| cursor.to_string() == text).ok_or_else(|| {
            Problem::invalid(format!("{name} is not a cursor: take it from an earlier answer"))
        })
    };
    call.query().get(name).map(read).transpose()
}

/// One link of a `Link` header (RFC 8288): relative, so that it works behind any name, and without
/// the token. It names the target if the request did.
pub(super) fn link(
    call: &Call,
    path: &str,
    limit: u32,
    (name, cursor): (&str, Cursor),
    relation: &str,
) -> String {
    let target = call.query().get(TARGET);
    let target = target.map(|id| format!("{TARGET}={id}&")).unwrap_or_default();
    format!("<{BASE}{path}?{target}limit={limit}&{name}={cursor}>; rel=\"{relation}\"")
}
