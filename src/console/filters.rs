//! Words and numbers in templates.

use std::fmt::Display;

use crate::domain::clock::Timestamp;

/// The class of an outcome, which gives it colour and sign.
#[askama::filter_fn]
pub(super) fn tone(outcome: impl Display, _: &dyn askama::Values) -> askama::Result<&'static str> {
    Ok(tone_of(&outcome.to_string()))
}

/// `good`, `bad`, `wait` or `none`.
pub(super) fn tone_of(word: &str) -> &'static str {
    match word {
        "accepted" | "pass" | "kept" | "delivered" | "active" | "person" | "verified" => "good",
        "refused" | "fail" | "failing" | "disabled" | "failed" | "permerror" | "malformed"
        | "cancelled" => "bad",
        "deferred" | "temperror" | "softfail" | "pending" | "resting" => "wait",
        _ => "none",
    }
}

/// A moment as RFC 3339 to the second, in UTC; the script turns it into the reader's zone.
#[askama::filter_fn]
pub(super) fn moment(date: impl Display, _: &dyn askama::Values) -> askama::Result<String> {
    Ok(plain(&date.to_string()))
}

/// `2026-11-22 14:02:11 UTC` of `2026-11-22T14:02:11.204Z`.
fn plain(date: &str) -> String {
    let (day, time) = date.split_once('T').unwrap_or((date, ""));
    let time = time.split(['.', 'Z']).next().unwrap_or_default();
    format!("{day} {time} UTC")
}

/// Microseconds as a person reads them.
#[askama::filter_fn]
pub(super) fn took(micros: &u64, _: &dyn askama::Values) -> askama::Result<String> {
    Ok(match *micros {
        0 => String::new(),
        micros @ ..1_000 => format!("{micros} µs"),
        micros @ ..10_000 => format!("{}.{} ms", micros / 1_000, micros / 100 % 10),
        micros @ ..10_000_000 => format!("{} ms", micros / 1_000),
        micros => format!("{} s", micros / 1_000_000),
    })
}

/// Bytes as a person reads them.
#[askama::filter_fn]
pub(super) fn bytes(size: &u64, _: &dyn askama::Values) -> askama::Result<String> {
    Ok(match *size {
        1 => "1 byte".to_owned(),
        size @ ..10_000 => format!("{} bytes", thousands(size)),
        size @ ..10_000_000 => format!("{} KB", size / 1_000),
        size @ ..10_000_000_000 => format!("{} MB", thousands(size / 1_000_000)),
        size => format!("{} GB", thousands(size / 1_000_000_000)),
    })
}

/// A number with commas.
#[askama::filter_fn]
pub(super) fn number(number: &u64, _: &dyn askama::Values) -> askama::Result<String> {
    Ok(thousands(*number))
}

pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// How long ago `date` was, in one unit; the date itself if it cannot be read.
pub(super) fn ago(date: &str, now: Timestamp) -> String {
    let Ok(then) = date.parse::<jiff::Timestamp>() else { return date.to_owned() };
    let seconds = (now.millis() - then.as_millisecond()) / 1_000;
    match seconds {
        ..1 => "now".to_owned(),
        1..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}
