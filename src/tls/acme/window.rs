//! When an authority wants a certificate to be renewed (RFC 9773): a window of time, in which each
//! server picks its own moment, so that they do not come together. An authority that must revoke
//! certificates moves the window into the past.

use instant_acme::{Account, CertificateIdentifier, Error};
use rustls::pki_types::CertificateDer;

use super::failure::AcmeError;
use super::keeper::Keeper;
use super::transport::LONGEST_WAIT;
use crate::domain::clock::Timestamp;
use crate::tls::pair::Pair;

/// The last suggestion of an authority, for one certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Suggestion {
    /// When to ask it again.
    pub(super) ask: Timestamp,
    /// None where the authority suggests nothing.
    pub(super) window: Option<Window>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    from: Timestamp,
    until: Timestamp,
    /// The moment in it for this server.
    pub(super) moment: Timestamp,
}

impl Window {
    /// Picks a moment between the two, by luck, each as likely as another (RFC 9773 §4.2). None for
    /// what is no window, or would let the certificate end, at `end`.
    pub(super) fn pick(
        from: Timestamp,
        until: Timestamp,
        end: Timestamp,
        luck: u16,
    ) -> Option<Self> {
        let last = until.min(end).millis();
        let length = last.checked_sub(from.millis()).filter(|length| *length > 0)?;
        let part = i128::from(length) * i128::from(luck) / i128::from(u16::MAX);
        let moment = Timestamp::from_millis(from.millis() + i64::try_from(part).ok()?);
        (from < until).then_some(Self { from, until, moment })
    }
}

impl Suggestion {
    /// Returns the text that is kept of it, for the certificate with this identifier.
    fn text(&self, of: &str) -> String {
        let numbers = self.window.iter().flat_map(|one| [one.from, one.until, one.moment]);
        let numbers = [self.ask].into_iter().chain(numbers).map(|at| at.millis().to_string());
        [of.to_owned()].into_iter().chain(numbers).collect::<Vec<_>>().join(" ")
    }

    /// Reads back such a text; None if it is for another certificate, or damaged.
    fn read(text: &str, of: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        words.next().filter(|id| *id == of)?;
        let numbers: Result<Vec<i64>, _> = words.map(str::parse).collect();
        let numbers = numbers.ok()?;
        let mut times = numbers.into_iter().map(Timestamp::from_millis);
        let ask = times.next()?;
        let window = match (times.next(), times.next(), times.next()) {
            (Some(from), Some(until), Some(moment)) => Some(Window { from, until, moment }),
            _ => None,
        };
        Some(Self { ask, window })
    }
}

/// How an authority names this certificate (RFC 9773 §4.1); None if nobody but itself issued it.
pub(super) fn identifier(pair: &Pair) -> Option<CertificateIdentifier<'static>> {
    let own: &CertificateDer<'_> = pair.chain().first()?;
    CertificateIdentifier::try_from(own).ok().map(CertificateIdentifier::into_owned)
}

impl Keeper {
    /// Returns the suggestion that was kept for this certificate. Without one, the authority is
    /// asked soon, but not at once.
    pub(super) async fn kept_suggestion(&self, pair: &Pair) -> Suggestion {
        let now = self.authority.clock().now();
        let kept = self.folder.on_disk(|folder| folder.window()).await.ok().flatten();
        let of = identifier(pair).map(|id| id.to_string()).unwrap_or_default();
        let kept = kept.and_then(|text| Suggestion::read(&text, &of));
        let soon = Suggestion { ask: now.plus(self.wait(0)), window: None };
        // A file cannot make the wait longer than an authority can.
        let latest = now.plus(LONGEST_WAIT);
        kept.map_or(soon, |kept| Suggestion { ask: kept.ask.min(latest), ..kept })
    }

    /// Asks the authority when it wants this certificate to be renewed, and keeps its answer. An
    /// authority that does not say leaves what it said `before`.
    pub(super) async fn suggestion(
        &self,
        account: Result<Account, AcmeError>,
        pair: &Pair,
        before: Option<Window>,
    ) -> Suggestion {
        let (rules, id) = (&self.authority.rules.renewal, identifier(pair));
        let asked = match (account, &id) {
            (Ok(account), Some(id)) => account.renewal_info(id).await.map_err(Into::into),
            (Err(error), _) => Err(error),
            (_, None) => Err(Error::Unsupported("a certificate without an authority").into()),
        };
        let (window, wait) = match asked {
            Ok((info, wait)) => {
                let (from, until) = (info.suggested_window.start, info.suggested_window.end);
                let (from, until) = (at(from.unix_timestamp()), at(until.unix_timestamp()));
                let known = before.filter(|one| (one.from, one.until) == (from, until));
                let luck = self.authority.mint.luck();
                (known.or_else(|| Window::pick(from, until, pair.until(), luck)), wait)
            }
            Err(AcmeError::Exchange(Error::Unsupported(_))) => (None, rules.ask()),
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    acme.name = %self.name,
                    "cannot ask the authority when to renew a certificate: it is renewed by what \
                     was known before"
                );
                (before, rules.ask())
            }
        };
        let ask = self.authority.clock().now().plus(wait.max(rules.ask_least()));
        let found = Suggestion { ask, window };
        let text = found.text(&id.map(|id| id.to_string()).unwrap_or_default());
        if let Err(error) = self.folder.on_disk(move |folder| folder.keep_window(&text)).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "cannot save when the authority wants a renewal");
        }
        found
    }
}

const fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds.saturating_mul(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn on(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn a_moment_is_anywhere_in_the_window_and_before_the_end_of_the_certificate() {
        let moment = |until, end, luck| {
            Window::pick(on(1000), on(until), on(end), luck).map(|one| one.moment.millis())
        };
        for (luck, wanted) in [(0, 1000), (u16::MAX, 2000), (u16::MAX / 3, 1333)] {
            assert_eq!(moment(2000, 9000, luck), Some(wanted));
        }
        assert_eq!(moment(9000, 2000, u16::MAX), Some(2000));
        for (until, end) in [(1000, 9000), (999, 9000), (2000, 1000), (2000, 500)] {
            assert_eq!(moment(until, end, 0), None, "{until} {end}");
        }
    }

    #[test]
    fn what_is_kept_is_of_one_certificate() {
        let window = Window::pick(on(1000), on(2000), on(9000), 7);
        for window in [window, None] {
            let one = Suggestion { ask: on(5), window };
            assert_eq!(Suggestion::read(&one.text("a.b"), "a.b"), Some(one));
            assert_eq!(Suggestion::read(&one.text("a.b"), "a.c"), None);
        }
        for damaged in ["", "a.b", "a.b x", "a.b 1 2 3 x"] {
            assert_eq!(Suggestion::read(damaged, "a.b"), None, "{damaged}");
        }
    }
}
