//! A moment on the command line: a date, or an age.

use std::str::FromStr;
use std::time::Duration;

use jiff::{SignedDuration, Span, SpanRelativeTo};

use crate::domain::clock::Timestamp;
use crate::domain::instant;

/// A moment, absolute or relative to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    At(Timestamp),
    Ago(Duration),
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected how long ago, like 10m, 3h or 2d, or a date like 2026-11-20T10:00Z")]
pub(super) struct NoMoment;

impl FromStr for When {
    type Err = NoMoment;

    fn from_str(text: &str) -> Result<Self, NoMoment> {
        if let Some(at) = instant::parse(text) {
            return Ok(Self::At(at));
        }
        // jiff also accepts ISO 8601 durations and signs.
        let is_plain = text.starts_with(|first: char| first.is_ascii_digit());
        let span: Span = is_plain.then(|| text.parse().ok()).flatten().ok_or(NoMoment)?;
        let age = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| NoMoment)?;
        Ok(Self::Ago(SignedDuration::abs(age).try_into().map_err(|_| NoMoment)?))
    }
}

impl When {
    pub fn before(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(age) => now.minus(age),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_date_or_an_age() {
        let ago = |seconds| Ok(When::Ago(Duration::from_secs(seconds)));
        for (text, expected) in [
            ("90s", ago(90)),
            ("10m", ago(600)),
            ("10m ago", ago(600)),
            ("1h30m", ago(5_400)),
            ("2d", ago(172_800)),
            ("1700000000", Ok(When::At(Timestamp::from_millis(1_700_000_000_000)))),
            ("2023-11-14T22:13:20Z", Ok(When::At(Timestamp::from_millis(1_700_000_000_000)))),
            ("1mo", Err(NoMoment)),
            ("-10m", Err(NoMoment)),
            ("P1D", Err(NoMoment)),
            ("yesterday", Err(NoMoment)),
            ("", Err(NoMoment)),
        ] {
            assert_eq!(text.parse::<When>(), expected, "{text}");
        }
        let now = Timestamp::from_millis(100_000);
        assert_eq!(When::Ago(Duration::from_secs(90)).before(now), Timestamp::from_millis(10_000));
    }
}
