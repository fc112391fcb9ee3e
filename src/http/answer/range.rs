//! Range requests and conditional requests for a file (RFC 9110 §13 and §14).

use std::ops::Range;

use axum::http::header::{HeaderName, IF_NONE_MATCH, IF_RANGE, RANGE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};

/// Range and condition fields of a request.
#[derive(Clone, Debug, Default)]
pub(in crate::http) struct Conditions {
    range: Option<String>,
    if_range: Option<String>,
    if_none_match: Option<String>,
}

/// The result of these fields for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) enum WantedRange {
    Whole,
    /// 206 with these bytes; never empty.
    Part(Range<usize>),
    /// 416: the file has no bytes there.
    Nothing,
    /// 304: the client has the file.
    Had,
}

impl Conditions {
    pub(in crate::http) fn of(parts: &Parts) -> Self {
        let text = |name| text(&parts.headers, name);
        Self {
            // A range has a meaning for GET only (RFC 9110 §14.2).
            range: (parts.method == Method::GET).then(|| text(RANGE)).flatten(),
            if_range: text(IF_RANGE),
            if_none_match: text(IF_NONE_MATCH),
        }
    }

    /// Whether the client has the file with this strong entity tag. `*` does not count here,
    /// because it means any existing file, and the file may not exist.
    pub(in crate::http) fn have(&self, tag: &str) -> bool {
        let known = self.if_none_match.as_deref().unwrap_or_default().split(',').map(str::trim);
        known.map(|one| one.strip_prefix("W/").unwrap_or(one)).any(|one| one == tag)
    }

    /// Decides for a file of `length` bytes with this strong entity tag, in the order of RFC 9110
    /// §13.2.2.
    pub(in crate::http) fn wanted(&self, length: usize, tag: &str) -> WantedRange {
        if self.have(tag) || self.if_none_match.as_deref().is_some_and(|known| known.trim() == "*")
        {
            return WantedRange::Had;
        }
        // The whole file if If-Range names another version. A date never matches: files have no
        // dates.
        if self.if_range.as_deref().is_some_and(|known| known.trim() != tag) {
            return WantedRange::Whole;
        }
        self.range.as_deref().map_or(WantedRange::Whole, |range| single(range, length))
    }
}

/// The value of a field, if it is sent exactly once, in ASCII.
fn text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok().map(str::to_owned),
        _ => None,
    }
}

/// Decides on a Range field. An unreadable range gets the whole file, and so does a list of ranges,
/// whose cost the client could choose (RFC 9110 §14.2 lets a server ignore any range).
fn single(range: &str, length: usize) -> WantedRange {
    let Some((unit, set)) = range.split_once('=') else { return WantedRange::Whole };
    if !unit.eq_ignore_ascii_case("bytes") {
        return WantedRange::Whole;
    }
    let Some((first, last)) = set.trim().split_once('-') else { return WantedRange::Whole };
    let found = match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(length),
        (Some(first), None) if last.is_empty() => first..length,
        // An empty file has no last byte.
        (None, Some(_)) if first.is_empty() && length == 0 => return WantedRange::Whole,
        (None, Some(last)) if first.is_empty() => length.saturating_sub(last)..length,
        _ => return WantedRange::Whole,
    };
    match found.is_empty() {
        true => WantedRange::Nothing,
        false => WantedRange::Part(found),
    }
}

/// Parses digits only. A number too large for usize becomes the largest: no file is longer.
fn number(text: &str) -> Option<usize> {
    let digits = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(range: &str) -> Conditions {
        Conditions { range: Some(range.to_owned()), ..Conditions::default() }
    }

    #[test]
    fn one_range_is_a_part() {
        for (range, part) in [
            ("bytes=0-0", 0..1),
            ("bytes=0-9", 0..10),
            ("bytes=2-4", 2..5),
            ("BYTES=2-4", 2..5),
            ("bytes=9-9", 9..10),
            ("bytes=5-", 5..10),
            ("bytes=5-99999999999999999999999", 5..10),
            ("bytes=-3", 7..10),
            ("bytes=-99", 0..10),
            ("bytes= 2-4 ", 2..5),
        ] {
            assert_eq!(conditions(range).wanted(10, "\"t\""), WantedRange::Part(part), "{range}");
        }
    }

    #[test]
    fn what_is_behind_the_end_is_nothing_and_what_is_no_range_is_ignored() {
        for range in ["bytes=10-", "bytes=10-12", "bytes=99999999999999999999999-", "bytes=-0"] {
            assert_eq!(conditions(range).wanted(10, "\"t\""), WantedRange::Nothing, "{range}");
        }
        for range in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=4-2",
            "bytes=a-b",
            "bytes=1-2,4-5",
            "bytes=+1-2",
            "bytes=1 - 2",
            "bytes=--1",
            "items=0-1",
            "bytes=0x1-2",
            "bytes=1-2-3",
            "bytes:0-1",
        ] {
            assert_eq!(conditions(range).wanted(10, "\"t\""), WantedRange::Whole, "{range}");
        }
        assert_eq!(conditions("bytes=-5").wanted(0, "\"t\""), WantedRange::Whole);
        assert_eq!(conditions("bytes=0-").wanted(0, "\"t\""), WantedRange::Nothing);
    }

    #[test]
    fn conditions_come_before_the_range() {
        let with = |if_range: Option<&str>, if_none_match: Option<&str>| Conditions {
            if_range: if_range.map(str::to_owned),
            if_none_match: if_none_match.map(str::to_owned),
            ..conditions("bytes=0-1")
        };
        let wanted = |conditions: Conditions| conditions.wanted(10, "\"t\"");
        assert_eq!(wanted(with(Some("\"t\""), None)), WantedRange::Part(0..2));
        for other in ["\"u\"", "W/\"t\"", "t", "Sat, 15 Jun 2024 14:56:35 GMT"] {
            assert_eq!(wanted(with(Some(other), None)), WantedRange::Whole, "{other}");
        }
        for known in ["\"t\"", "*", "W/\"t\"", "\"a\", \"t\""] {
            assert_eq!(wanted(with(None, Some(known))), WantedRange::Had, "{known}");
        }
        assert_eq!(wanted(with(None, Some("\"u\", t"))), WantedRange::Part(0..2));
        for (known, expected) in [("\"a\", W/\"t\"", true), ("*", false), ("t", false), ("", false)]
        {
            assert_eq!(with(None, Some(known)).have("\"t\""), expected, "{known}");
        }
        assert!(!with(None, None).have("\"t\""));
    }
}
