//! Points in time as clients and records write them.

use super::clock::Timestamp;

/// Reads Unix seconds, a date (its first instant in UTC), or a date and a time with its zone
/// (RFC 3339 §5.6; seconds may be left out). Anything else, impossible dates too, is `None`.
pub fn parse(text: &str) -> Option<Timestamp> {
    if (1..=12).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse::<i64>().ok().map(|seconds| Timestamp::from_millis(seconds * 1000));
    }
    let (date, time) = match text.split_once(['T', 't']) {
        Some((date, time)) => (date, time),
        None => (text, "00:00:00Z"),
    };
    let (clock, offset_minutes) = zone(time)?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let clock = if clock.len() == 5 { format!("{clock}:00") } else { clock.to_owned() };
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(&clock, ':', [2, 2, 2])?;
    let whole = Timestamp::from_utc([year, month, day, hour, minute, second]);
    let local = Timestamp::from_millis(whole.millis() + millis(fraction)?);
    // Out-of-range numbers come back as another date.
    let as_written = local.to_string().starts_with(&format!("{date}T{clock}."));
    as_written.then(|| Timestamp::from_millis(local.millis() - offset_minutes * 60_000))
}

/// Splits off the zone and answers its offset in minutes.
fn zone(time: &str) -> Option<(&str, i64)> {
    if let Some(clock) = time.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let (clock, offset) = time.split_at_checked(time.len().checked_sub(6)?)?;
    let (sign, offset) = match offset.split_at_checked(1)? {
        ("+", offset) => (1, offset),
        ("-", offset) => (-1, offset),
        _ => return None,
    };
    let [hours, minutes] = numbers(offset, ':', [2, 2])?;
    (hours < 24 && minutes < 60).then_some((clock, sign * (hours * 60 + minutes)))
}

/// The first three digits of a fraction of a second.
fn millis(fraction: &str) -> Option<i64> {
    if !(1..=9).contains(&fraction.len()) || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    format!("{fraction:0<3}").get(..3)?.parse().ok()
}

/// `N` numbers of these widths, digits only.
fn numbers<const N: usize>(text: &str, separator: char, widths: [usize; N]) -> Option<[i64; N]> {
    let mut found = [0; N];
    let mut pieces = text.split(separator);
    for (slot, width) in found.iter_mut().zip(widths) {
        let piece = pieces.next()?;
        if piece.len() != width || !piece.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *slot = piece.parse().ok()?;
    }
    pieces.next().is_none().then_some(found)
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
            "2024-02-30",
            "2024-13-01",
            "2024-00-10",
            "2024-6-15",
            "2024-06-15T24:00:00Z",
            "2024-06-15T10:60:00Z",
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
