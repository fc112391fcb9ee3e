//! Rates per network and minute: connections, messages, recipients. Each gateway counts for itself
//! (`domain::rate`).

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use crate::domain::network::Network;
use crate::domain::rate::{Rate, Tallies};
use crate::rules::SmtpPace as Pace;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Counted {
    Connection,
    Message,
    Recipient,
}

/// Counts of all networks seen lately.
#[derive(Debug)]
pub(super) struct Rates {
    pace: Pace,
    /// Origin of all instants.
    began: Instant,
    tallies: Mutex<Tallies<(Network, Counted)>>,
}

/// The counts for one client; an exempt client has none.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    rates: Option<Arc<Rates>>,
    client: IpAddr,
}

impl Rates {
    pub(super) fn new(pace: Pace) -> Self {
        // Each network has one count per variant of `Counted`.
        let tallies = Mutex::new(Tallies::new(pace.max_networks.saturating_mul(3)));
        Self { pace, began: Instant::now(), tallies }
    }

    fn may(&self, client: IpAddr, counted: Counted, now: Instant) -> bool {
        self.count(client, counted, now, |_| false)
    }

    fn take(&self, client: IpAddr, counted: Counted, now: Instant) -> bool {
        self.count(client, counted, now, |is_within| is_within)
    }

    fn add(&self, client: IpAddr, counted: Counted, now: Instant) {
        self.count(client, counted, now, |_| true);
    }

    /// Tells whether one more is within the rate. Counts it if `is_counted`, which gets this answer.
    fn count(
        &self,
        client: IpAddr,
        counted: Counted,
        now: Instant,
        is_counted: impl Fn(bool) -> bool,
    ) -> bool {
        let Some(rate) = self.rate(counted) else { return true };
        let (key, now) =
            ((Network::of(client), counted), now.saturating_duration_since(self.began));
        // Nothing panics while it holds the lock; even then the counts would be whole.
        let mut tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        let is_within = tallies.may(&key, rate, now);
        if is_counted(is_within) {
            tallies.add(&key, rate, now);
        }
        is_within
    }

    /// None if no limit is set.
    fn rate(&self, counted: Counted) -> Option<Rate> {
        Rate::per_minute(match counted {
            Counted::Connection => self.pace.connections_per_minute,
            Counted::Message => self.pace.messages_per_minute,
            Counted::Recipient => self.pace.recipients_per_minute,
        })
    }
}

impl Meter {
    pub(super) const fn new(rates: Option<Arc<Rates>>, client: IpAddr) -> Self {
        Self { rates, client }
    }

    /// Whether the client may bring one more now. Counts nothing.
    pub(super) fn may(&self, counted: Counted) -> bool {
        self.rates.as_ref().is_none_or(|rates| rates.may(self.client, counted, Instant::now()))
    }

    /// Whether the client may bring one more now; counts it if so.
    pub(super) fn take(&self, counted: Counted) -> bool {
        self.rates.as_ref().is_none_or(|rates| rates.take(self.client, counted, Instant::now()))
    }

    /// Counts one that was let in, even if the rate is exceeded by now.
    pub(super) fn add(&self, counted: Counted) {
        if let Some(rates) = &self.rates {
            rates.add(self.client, counted, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn rates(per_minute: u32, max_networks: usize) -> Rates {
        Rates::new(Pace {
            connections_per_minute: per_minute,
            messages_per_minute: per_minute,
            recipients_per_minute: 0,
            max_networks,
        })
    }

    fn taken(rates: &Rates, address: &str, now: Instant) -> usize {
        (0..99).filter(|_| rates.take(ip(address), Counted::Connection, now)).count()
    }

    #[test]
    fn a_minutes_worth_at_once_and_then_the_rate() {
        let (rates, now) = (rates(6, 9), Instant::now());
        assert_eq!(taken(&rates, "192.0.2.1", now), 6);
        assert_eq!(taken(&rates, "::ffff:192.0.2.99", now), 0, "the same network");
        assert_eq!(taken(&rates, "192.0.3.1", now), 6, "another one");
        assert_eq!(taken(&rates, "192.0.2.1", now + Duration::from_secs(25)), 2);
        let later = now + Duration::from_secs(600);
        assert_eq!(taken(&rates, "192.0.2.1", later), 6, "no more is saved up");
    }

    #[test]
    fn one_count_is_not_another_and_zero_counts_nothing() {
        let (rates, client, now) = (rates(1, 9), ip("2001:db8::1"), Instant::now());
        assert!(rates.take(client, Counted::Connection, now));
        assert!(!rates.take(client, Counted::Connection, now));
        assert!(
            rates.may(client, Counted::Message, now) && rates.may(client, Counted::Message, now)
        );
        rates.add(client, Counted::Message, now);
        assert!(!rates.may(client, Counted::Message, now));
        rates.add(client, Counted::Message, now);
        assert!(!rates.may(client, Counted::Message, now + MINUTE), "what was let in is owed");
        assert!(rates.may(client, Counted::Message, now + 2 * MINUTE));
        assert!((0..999).all(|_| rates.take(client, Counted::Recipient, now)));
    }

    #[test]
    fn a_full_map_lets_new_networks_in_and_forgets_those_that_are_quiet() {
        let (rates, now) = (rates(2, 2), Instant::now());
        assert_eq!(taken(&rates, "192.0.2.1", now), 2);
        for number in 0..=255 {
            let at = now + Duration::from_millis(number);
            assert_eq!(taken(&rates, &format!("192.{number}.4.1"), now), 2, "it is counted");
            assert!(!rates.take(ip("192.0.2.1"), Counted::Connection, at), "and so is a flood");
            rates.add(ip("192.0.2.1"), Counted::Connection, at);
        }
        assert_eq!(taken(&rates, "192.0.2.1", now + 2 * 256 * MINUTE), 2);
    }
}
