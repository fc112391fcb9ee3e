//! Decimal numbers, kept exactly: the database gets two integers and divides them.

/// Largest absolute value of the digits, 2^53: up to here integers are exact in floating point, so
/// the quotient by a power of ten is the nearest float to the number as written.
const MOST: i64 = 1 << 53;
/// Most digits after the point.
const DIGITS: usize = 15;

/// A number with at most 15 digits after the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    /// The number without its point.
    pub digits: i64,
    /// 10 to the number of digits behind the point.
    pub divisor: i64,
}

impl Decimal {
    pub const fn whole(digits: i64) -> Self {
        Self { digits, divisor: 1 }
    }

    /// Reads `-12`, `0.5`, `.5`. Returns None for exponents, a plus sign, or too many digits.
    pub fn parse(text: &str) -> Option<Self> {
        let (sign, unsigned) = match text.strip_prefix('-') {
            Some(unsigned) => (-1, unsigned),
            None => (1, text),
        };
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let is_plain = unsigned.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let ends = unsigned.ends_with('.') || whole.is_empty() && fraction.is_empty();
        if !is_plain || ends || fraction.len() > DIGITS {
            return None;
        }
        // One form of each number.
        let fraction = fraction.trim_end_matches('0');
        let digits = format!("0{whole}{fraction}").parse::<i64>().ok()?;
        let divisor = 10_i64.pow(u32::try_from(fraction.len()).ok()?);
        (digits <= MOST).then_some(Self { digits: sign * digits, divisor })
    }

    #[expect(clippy::cast_precision_loss, reason = "both are at most 2^53: they are exact")]
    pub fn value(self) -> f64 {
        self.digits as f64 / self.divisor as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_numbers_are_equal_however_they_are_written() {
        for (one, other) in [(".0", "0"), ("-0.0", "0"), ("1.50", "1.5"), ("007.0", "7")] {
            assert_eq!(Decimal::parse(one), Decimal::parse(other), "{one}");
        }
    }

    #[test]
    fn what_is_written_is_what_is_meant() {
        for text in ["0", "1", "-1", "0.1", ".25", "-12.125", "9007199254740992", "0.000001"] {
            assert_eq!(Decimal::parse(text).unwrap().value(), text.parse::<f64>().unwrap());
        }
        for text in [
            "",
            "-",
            ".",
            "1.",
            "+1",
            "1e3",
            "0x1",
            " 1",
            "1 ",
            "--1",
            "1.2.3",
            "NaN",
            "inf",
            "١",
            "9007199254740993",
            "0.0000000000000001",
            "99999999999999999999",
        ] {
            assert_eq!(Decimal::parse(text), None, "{text:?}");
        }
    }
}
