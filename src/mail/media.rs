//! Conditions of style sheets (Media Queries 4, CSS Conditional Rules 3), as far as they hold on every
//! screen.

use cssparser::{ParseError, Parser};

use super::css_source::{self, Parsed};
use super::measures;

/// Pixels that every screen is wide and high, and that none is.
const EVERY_SCREEN: f32 = 320.0;
const NO_SCREEN: f32 = 5000.0;

/// Whether the rules under a condition are read: those that hold on every screen, and those that
/// only ask what the program can do. An error leaves them out.
pub(super) fn require(name: &str, condition: &mut Parser<'_>) -> Parsed<()> {
    let condition = css_source::plain(condition)?.to_ascii_lowercase();
    let holds = match name.to_ascii_lowercase().as_str() {
        "media" => is_for_screens(&condition),
        "supports" => !condition.starts_with("not"),
        "layer" => true,
        _ => false,
    };
    holds.then_some(()).ok_or_else(ParseError::unexpected_token)
}

/// Whether a list of media (Media Queries 4 §3) holds on every screen.
fn is_for_screens(media: &str) -> bool {
    let media = media.to_ascii_lowercase();
    let holds = |query: &str| {
        let query = query.trim();
        let query = query.strip_prefix("only ").unwrap_or(query);
        query.split(" and ").all(|part| match part.trim() {
            "all" | "screen" => true,
            part => is_no_condition(part),
        })
    };
    media.trim().is_empty() || media.split(',').any(holds)
}

/// `(min-width: 1px)`.
fn is_no_condition(part: &str) -> bool {
    let inside = part.strip_prefix('(').and_then(|inside| inside.strip_suffix(')'));
    let Some((feature, value)) = inside.and_then(|inside| inside.split_once(':')) else {
        return false;
    };
    let Some(pixels) = measures::length(value.trim()) else { return false };
    match feature.trim() {
        "min-width" | "min-height" | "min-device-width" | "min-device-height" => {
            pixels <= EVERY_SCREEN
        }
        "max-width" | "max-height" | "max-device-width" | "max-device-height" => {
            pixels >= NO_SCREEN
        }
        _ => false,
    }
}
