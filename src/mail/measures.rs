//! CSS measures (CSS Values 4): numbers, lengths, font sizes, clipping, transforms, as far as
//! needed to tell whether they hide text. None means invalid or unknown; such a declaration changes
//! nothing, as in a browser.

/// Pixels after which a text is out of sight.
const FAR: f32 = 200.0;
/// Share of size or opacity below which a text is invisible.
const FAINT: f32 = 0.05;
/// Most arguments of a function that are read.
const MOST_ARGUMENTS: usize = 16;

/// Returns the number at the start of a CSS value, and its unit.
pub(super) fn number(value: &str) -> Option<(f32, &str)> {
    let inside = value.strip_prefix("calc(").map(|inside| inside.trim_end_matches(')').trim());
    let value = inside.unwrap_or(value);
    let mut end = value
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+')))
        .unwrap_or(value.len());
    if let Some(power) = value.get(end..).and_then(|rest| rest.strip_prefix('e')) {
        let digits = power.strip_prefix(['+', '-']).unwrap_or(power);
        let count = digits.bytes().take_while(u8::is_ascii_digit).count();
        if count > 0 {
            end += 1 + power.len() - digits.len() + count;
        }
    }
    let (digits, unit) = value.split_at_checked(end)?;
    Some((digits.parse().ok()?, unit.trim_end_matches(')').trim()))
}

/// Parses a share: `0.5`, `50%`.
fn share(value: &str) -> Option<f32> {
    match number(value)? {
        (number, "") => Some(number),
        (number, "%") => Some(number / 100.0),
        _ => None,
    }
}

/// Tells whether an opacity or scale factor makes text invisible.
pub(super) fn is_faint(value: &str) -> Option<bool> {
    share(value).map(|share| share <= FAINT)
}

/// Approximate pixels per unit.
fn pixels(unit: &str) -> Option<f32> {
    Some(match unit {
        "" | "px" | "pt" | "q" => 1.0,
        "em" | "rem" | "pc" | "lh" | "rlh" | "ic" => 16.0,
        // Shares of the screen, or of a letter.
        "%" | "vw" | "vh" | "vmin" | "vmax" | "vi" | "vb" | "ex" | "ch" | "cap" => 8.0,
        "in" => 96.0,
        "cm" => 38.0,
        "mm" => 3.8,
        _ => return None,
    })
}

/// Approximate length in pixels.
pub(super) fn length(value: &str) -> Option<f32> {
    let (number, unit) = number(value)?;
    Some(number * pixels(unit)?)
}

/// Judges a length by `hides`. A length without unit is valid only in some documents: it can hide
/// text, but cannot make it visible again.
fn judged(value: &str, hides: impl Fn(f32) -> bool) -> Option<bool> {
    let (number, unit) = number(value)?;
    let hidden = hides(number * pixels(unit)?);
    (hidden || !unit.is_empty() || number == 0.0).then_some(hidden)
}

/// Tells whether an offset moves text out of sight.
pub(super) fn is_far(value: &str) -> Option<bool> {
    judged(value, |pixels| pixels <= -FAR)
}

/// Tells whether a height or width leaves no room.
pub(super) fn is_nothing(value: &str) -> Option<bool> {
    length(value).filter(|pixels| *pixels >= 0.0)?;
    judged(value, |pixels| pixels <= 0.5)
}

/// Font size, as far as it hides text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Seen,
    Tiny,
    /// As visible as the surrounding text.
    Relative,
}

/// Parses a `font-size`.
pub(super) fn size(value: &str) -> Option<Size> {
    let of = |is_tiny| if is_tiny { Size::Tiny } else { Size::Seen };
    if let Some((number, unit)) = number(value) {
        if number < 0.0 {
            return None;
        }
        return match unit {
            "" => (number <= 1.0).then_some(Size::Tiny),
            "em" | "ex" | "ch" | "cap" | "ic" if number > FAINT => Some(Size::Relative),
            "%" if number > FAINT * 100.0 => Some(Size::Relative),
            "em" | "ex" | "ch" | "cap" | "ic" | "%" => Some(Size::Tiny),
            _ => pixels(unit).map(|pixels| of(number * pixels <= 1.0)),
        };
    }
    match value {
        "smaller" | "larger" | "inherit" | "unset" | "revert" | "revert-layer" => {
            Some(Size::Relative)
        }
        "xx-small" | "x-small" | "small" | "medium" | "large" | "x-large" | "xx-large"
        | "xxx-large" | "initial" => Some(Size::Seen),
        _ => None,
    }
}

/// Parses the size in a `font` shorthand, which comes before line height and family.
pub(super) fn size_of_font(value: &str) -> Option<Size> {
    if matches!(value, "inherit" | "unset" | "initial" | "revert" | "revert-layer") {
        return size(value);
    }
    let mut words = value.split_ascii_whitespace();
    // A number without unit is a weight.
    let word = words.by_ref().take(MOST_ARGUMENTS).find_map(|word| {
        let word = word.split('/').next().unwrap_or_default();
        let (number, unit) = number(word)?;
        (number == 0.0 || !unit.is_empty()).then_some(word)
    })?;
    // Invalid without a family.
    words.next()?;
    size(word)
}

/// Tells whether a `clip` or `clip-path` leaves nothing.
pub(super) fn is_clipped(value: &str) -> Option<bool> {
    let (name, inside) = value.strip_suffix(')')?.split_once('(')?;
    let numbers: Vec<_> = inside
        .split([' ', ',', ')'])
        .filter_map(number)
        .take(MOST_ARGUMENTS)
        .map(|(number, unit)| (number, unit == "%"))
        .collect();
    let first = numbers.first().copied();
    Some(match name {
        "rect" => first.is_some_and(|(first, _)| {
            first <= 1.0 && numbers.iter().all(|(other, _)| *other <= first.max(1.0))
        }),
        "inset" => {
            first.is_some_and(|(first, is_share)| is_share && first >= 50.0)
                || numbers.iter().any(|(n, is_share)| *n >= if *is_share { 100.0 } else { 2000.0 })
        }
        "circle" | "ellipse" => first.is_some_and(|(radius, _)| radius <= 0.5),
        "polygon" => !numbers.is_empty() && numbers.iter().all(|(number, _)| *number <= 0.5),
        "path" | "url" | "xywh" => false,
        _ => return None,
    })
}

/// Tells whether a `transform` makes text invisible.
pub(super) fn is_transformed_away(value: &str) -> Option<bool> {
    let functions = value.strip_suffix(')')?;
    let mut hides = false;
    for function in functions.split(')').take(MOST_ARGUMENTS) {
        let (name, arguments) = function.trim().split_once('(')?;
        let mut arguments = arguments.split(',').map(str::trim).take(MOST_ARGUMENTS);
        hides |= if name.starts_with("scale") || name == "matrix" {
            let flat = |value: &str| share(value).is_some_and(|factor| factor.abs() <= FAINT);
            arguments.take(if name == "matrix" { 1 } else { 2 }).any(flat)
        } else {
            name.starts_with("translate") && arguments.any(|value| is_far(value) == Some(true))
        };
    }
    Some(hides)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        for (value, expected) in [
            ("1px", Some((1.0, "px"))),
            ("-.5EM", Some((-0.5, "EM"))),
            ("1e-9px", Some((1e-9, "px"))),
            ("1em", Some((1.0, "em"))),
            ("1e2", Some((100.0, ""))),
            ("calc(0px)", Some((0.0, "px"))),
            ("calc( 0 )", Some((0.0, ""))),
            ("0)", Some((0.0, ""))),
            ("px", None),
            ("--1", None),
            ("", None),
        ] {
            assert_eq!(number(value), expected, "{value}");
        }
    }

    #[test]
    fn what_is_not_valid_is_not_judged() {
        assert_eq!((is_faint("0px"), is_faint("x"), is_faint("5%")), (None, None, Some(true)));
        assert_eq!((is_far("-999zz"), is_far("-9in")), (None, Some(true)));
        assert_eq!((is_far("-999"), is_far("-9"), is_far("0")), (Some(true), None, Some(false)));
        assert_eq!((is_nothing("-1px"), is_nothing("calc(0px)")), (None, Some(true)));
        assert_eq!((size("9"), size("9zz"), size("-1px")), (None, None, None));
        assert_eq!(
            (size("1%"), size("0"), size("2rem")),
            (Some(Size::Tiny), Some(Size::Tiny), Some(Size::Seen))
        );
        assert_eq!((size_of_font("14px"), size_of_font("400 0px a")), (None, Some(Size::Tiny)));
        assert_eq!((is_clipped("auto"), is_transformed_away("x")), (None, None));
        assert_eq!(is_transformed_away("rotate(3deg) scale(0)"), Some(true));
        assert_eq!(is_transformed_away("translate(0, -5000px)"), Some(true));
    }
}
