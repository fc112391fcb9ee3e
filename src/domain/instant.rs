//! Points in time as clients and records write them.

use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::fmt::temporal::{Pieces, PiecesOffset};

use super::clock::{EPOCH, Timestamp};

/// Length of a date without a time, in bytes.
const DATE: usize = 10;

/// Parses Unix seconds, a date (its first instant in UTC), or a date and time with zone (RFC 3339
/// §5.6; seconds optional), up to the year 9999. Returns None for anything else, impossible dates
/// included.
pub fn parse(text: &str) -> Option<Timestamp> {
    if (1..=12).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit()) {
        let since = SignedDuration::from_secs(text.parse().ok()?);
        return EPOCH.checked_add(since).ok().map(Timestamp::from_utc);
    }
    let begun = (text.len() == DATE).then(|| format!("{text}T00:00Z"));
    let text = begun.as_deref().unwrap_or(text);
    let pieces = has_shape(text).then(|| Pieces::parse(text).ok())??;
    let local = DateTime::from_parts(pieces.date(), pieces.time()?);
    let offset = match pieces.offset()? {
        PiecesOffset::Numeric(numeric) => i64::from(numeric.offset().seconds()),
        _ => 0,
    };
    let is_of_a_day = offset.abs() < 86_400;
    let utc = is_of_a_day.then(|| local.checked_sub(SignedDuration::from_secs(offset)))?;
    utc.ok().map(Timestamp::from_utc)
}

/// Tells whether the text is written as in RFC 3339. jiff also accepts zone names, offsets in hours
/// alone, and leap seconds.
fn has_shape(text: &str) -> bool {
    let digit = |c: char| if c.is_ascii_digit() { '0' } else { c.to_ascii_uppercase() };
    let shape: String = text.chars().map(digit).collect();
    let clock = ["Z", "+00:00", "-00:00"].iter().find_map(|zone| shape.strip_suffix(zone));
    let seconds = match clock.and_then(|clock| clock.strip_prefix("0000-00-00T00:00")) {
        Some("") => return true,
        Some(rest) => rest.strip_prefix(":00"),
        None => None,
    };
    let is_fraction =
        |digits: &str| (1..=9).contains(&digits.len()) && digits.bytes().all(|digit| digit == b'0');
    let fits = |rest: &str| rest.is_empty() || rest.strip_prefix('.').is_some_and(is_fraction);
    seconds.is_some_and(fits) && text.get(16..19) != Some(":60")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_forms_of_one_instant() {
        for text in [
            "1718463395",
            "2024-06-15T14:56:35Z",
            "2024-06-15T14:56:35.000Z",
            "2024-06-15t16:56:35.0009+02:00",
            "2024-06-15T09:26:35-05:30",
        ] {
            assert_eq!(parse(text).map(Timestamp::millis), Some(1_718_463_395_000), "{text}");
        }
        assert_eq!(parse("2024-06-15"), parse("2024-06-15T00:00Z"));
        assert_eq!(
            parse("2024-06-15T14:56:35.12Z").map(Timestamp::millis),
            Some(1_718_463_395_120)
        );
    }

    #[test]
    fn what_is_no_instant_is_refused() {
        for text in [
            "",
            "now",
            "-1",
            "1.5",
            "9999999999999",
            "253402300800",
            "2024-02-30",
            "2024-13-01",
            "2024-00-10",
            "2024-6-15",
            "2024-06-15T24:00:00Z",
            "2024-06-15T10:60:00Z",
            "2024-06-15T10:00:60Z",
            "2024-06-15 10:00:00Z",
            "20240615T100000Z",
            "2024-06-15T10:00:00+02",
            "2024-06-15T10:00:00Z[UTC]",
            "2024-06-15T10:00:00",
            "2024-06-15T10:00:00 02:00",
            "2024-06-15T10:00:00+99:00",
            "2024-06-15T10:00:00.Z",
            "２０２４-06-15",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn reads_what_answers_show(millis in 0_i64..253_402_300_799_999) {
            let shown = Timestamp::from_millis(millis);
            prop_assert_eq!(parse(&shown.to_string()), Some(shown));
        }

        #[test]
        fn never_panics(text in ".{0,40}") {
            parse(&text);
        }
    }
}
