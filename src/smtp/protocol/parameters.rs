//! Parameters of MAIL (RFC 5321 §4.1.1.11): SIZE (RFC 1870), BODY (RFC 6152) and SMTPUTF8 (RFC
//! 6531). Every other one is refused by name.

use super::command::Rejected;
use super::notice::Notice;

/// Longest parameter name, in characters, that a reply repeats.
const MAX_SHOWN: usize = 40;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MailParameters {
    /// Declared size in bytes; 0 if none is declared (RFC 1870 §5).
    pub size: u64,
    /// Addresses and header fields may be outside ASCII.
    pub smtputf8: bool,
}

impl MailParameters {
    /// Parses the text after the path; each parameter may stand there once.
    pub(super) fn parse(text: &[u8]) -> Result<Self, Rejected> {
        let mut found = Self::default();
        let mut seen: Vec<Vec<u8>> = Vec::new();
        for (name, value) in parameters(text) {
            let upper = name.to_ascii_uppercase();
            let known = match upper.as_slice() {
                b"SIZE" => value.and_then(octets).map(|size| found.size = size),
                b"BODY" => value.filter(|value| is_body(value)).map(|_| ()),
                b"SMTPUTF8" => value.is_none().then(|| found.smtputf8 = true),
                _ => return Err(about(Notice::UnknownParameter, name)),
            };
            known.ok_or_else(|| about(Notice::ParameterValue, name))?;
            if seen.contains(&upper) {
                return Err(about(Notice::ParameterTwice, name));
            }
            seen.push(upper);
        }
        Ok(found)
    }

    /// Fails if there is any parameter.
    pub(super) fn none(text: &[u8]) -> Result<(), Rejected> {
        parameters(text)
            .next()
            .map_or(Ok(()), |(name, _)| Err(about(Notice::UnknownParameter, name)))
    }
}

fn about(notice: Notice, name: &[u8]) -> Rejected {
    let shown = String::from_utf8_lossy(name).chars().take(MAX_SHOWN).collect();
    Rejected { notice, about: Some(shown) }
}

fn parameters(text: &[u8]) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    text.split(|b| *b == b' ').filter(|parameter| !parameter.is_empty()).map(|parameter| {
        let mut halves = parameter.splitn(2, |b| *b == b'=');
        (halves.next().unwrap_or_default(), halves.next())
    })
}

/// Parses digits only. A number beyond 64 bits becomes the largest instead of wrapping to a small
/// one.
fn octets(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let step = |sum: u64, digit: &u8| {
        sum.saturating_mul(10).saturating_add(u64::from(digit.saturating_sub(b'0')))
    };
    Some(digits.iter().fold(0, step))
}

/// Both body types are stored unchanged (RFC 6152); BINARYMIME is not offered.
fn is_body(value: &[u8]) -> bool {
    value.eq_ignore_ascii_case(b"7BIT") || value.eq_ignore_ascii_case(b"8BITMIME")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of(text: &str) -> Result<u64, Notice> {
        let found = MailParameters::parse(text.as_bytes()).map_err(|rejected| rejected.notice)?;
        Ok(found.size)
    }

    #[test]
    fn sizes_do_not_wrap() {
        assert_eq!(size_of(" SIZE=1000"), Ok(1000));
        assert_eq!(size_of(" size=0 "), Ok(0));
        assert_eq!(size_of(" SIZE=18446744073709551615"), Ok(u64::MAX));
        for digits in 20..40 {
            assert_eq!(size_of(&format!(" SIZE={}", "9".repeat(digits))), Ok(u64::MAX));
        }
        for value in ["", "-1", "+1", "1e3", "0x10", "1=1", "١"] {
            let answer = size_of(&format!(" SIZE={value}"));
            assert_eq!(answer, Err(Notice::ParameterValue), "{value}");
        }
        assert_eq!(size_of(" SIZE"), Err(Notice::ParameterValue));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let rejected = |text: &str| {
            let Rejected { notice, about } = MailParameters::parse(text.as_bytes()).unwrap_err();
            (notice, about.unwrap())
        };
        assert_eq!(rejected(" Ret=HDRS SIZE=x"), (Notice::UnknownParameter, "Ret".into()));
        assert_eq!(rejected(" size=1 SIZE=1"), (Notice::ParameterTwice, "SIZE".into()));
        assert_eq!(rejected(" SMTPUTF8 SMTPUTF8"), (Notice::ParameterTwice, "SMTPUTF8".into()));
        assert_eq!(rejected(" SMTPUTF8=1"), (Notice::ParameterValue, "SMTPUTF8".into()));
        assert_eq!(rejected(" BODY=BINARYMIME"), (Notice::ParameterValue, "BODY".into()));
        assert_eq!(rejected(" =1"), (Notice::UnknownParameter, String::new()));
        assert_eq!(rejected(&format!(" {}", "X".repeat(900))).1, "X".repeat(MAX_SHOWN));
        assert!(MailParameters::none(b"  ").is_ok());
        assert_eq!(MailParameters::none(b" NOTIFY=NEVER").unwrap_err().about.unwrap(), "NOTIFY");
    }
}
