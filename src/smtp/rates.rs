//! How much a network may bring in a minute: connections, messages, recipients. Counted by this
//! gateway for itself.
//!
//! The generic cell rate algorithm (ITU-T I.371): of each count one instant is kept, at which the
//! network would have been served if it had kept to the rate from the beginning. It may be a minute
//! ahead: so a minute's worth may come at once, and after that as much as the rate gives.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::rules::SmtpPace as Pace;

use super::network::Network;

/// How far ahead a network may be.
const MINUTE: Duration = Duration::from_secs(60);

/// A full map is searched for networks that may be forgotten this often at most.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Connection,
    Message,
    Recipient,
}

/// The counts of all networks that have brought something lately.
#[derive(Debug)]
pub(super) struct Rates {
    pace: Pace,
    counted: Mutex<Counted>,
}

/// The counts of one client; of one that is exempt, none.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    rates: Option<Arc<Rates>>,
    client: IpAddr,
}

#[derive(Debug)]
struct Counted {
    networks: HashMap<Network, Counts>,
    swept: Option<Instant>,
}

/// Where the network is in each count; in the past is as good as nowhere.
#[derive(Clone, Copy, Debug)]
struct Counts([Instant; 3]);

impl Rates {
    pub(super) fn new(pace: Pace) -> Self {
        let counted = Counted { networks: HashMap::new(), swept: None };
        Self { pace, counted: Mutex::new(counted) }
    }

    fn may(&self, client: IpAddr, what: What, now: Instant) -> bool {
        self.count(client, what, now, |ahead, each| (ahead + each <= MINUTE, false))
    }

    fn take(&self, client: IpAddr, what: What, now: Instant) -> bool {
        self.count(client, what, now, |ahead, each| {
            let fits = ahead + each <= MINUTE;
            (fits, fits)
        })
    }

    fn add(&self, client: IpAddr, what: What, now: Instant) {
        self.count(client, what, now, |_, _| (true, true));
    }

    /// `settle` is told how far ahead the network is and what one more costs, and answers whether
    /// it may, and whether it is counted.
    fn count(
        &self,
        client: IpAddr,
        what: What,
        now: Instant,
        settle: impl Fn(Duration, Duration) -> (bool, bool),
    ) -> bool {
        let Some(each) = self.each(what) else { return true };
        let network = Network::of(client);
        // Nothing panics while it holds the lock; if something did, the counts would be whole.
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let known = counted.networks.get(&network).copied();
        let mut counts = known.unwrap_or(Counts([now; 3]));
        let count = counts.of(what);
        let (may, is_counted) = settle(count.saturating_duration_since(now), each);
        if is_counted && (known.is_some() || counted.has_room(self.pace.max_networks, now)) {
            *count = (*count).max(now) + each;
            counted.networks.insert(network, counts);
        }
        may
    }

    /// What one costs of the minute; `None` where nothing is counted.
    fn each(&self, what: What) -> Option<Duration> {
        let per_minute = match what {
            What::Connection => self.pace.connections_per_minute,
            What::Message => self.pace.messages_per_minute,
            What::Recipient => self.pace.recipients_per_minute,
        };
        MINUTE.checked_div(per_minute)
    }
}

impl Meter {
    pub(super) const fn new(rates: Option<Arc<Rates>>, client: IpAddr) -> Self {
        Self { rates, client }
    }

    /// Whether the client may bring one more now; counts nothing.
    pub(super) fn may(&self, what: What) -> bool {
        self.rates.as_ref().is_none_or(|rates| rates.may(self.client, what, Instant::now()))
    }

    /// The same, and counts it if so.
    pub(super) fn take(&self, what: What) -> bool {
        self.rates.as_ref().is_none_or(|rates| rates.take(self.client, what, Instant::now()))
    }

    /// Counts one that was let in, whatever else has come since.
    pub(super) fn add(&self, what: What) {
        if let Some(rates) = &self.rates {
            rates.add(self.client, what, Instant::now());
        }
    }
}

impl Counted {
    /// Whether one more network can be counted. If not, it is not counted, and comes in: only a
    /// crowd of networks can fill the map, and to turn away everybody who is new would do to honest
    /// senders what the crowd cannot do itself. All other limits hold for it.
    fn has_room(&mut self, max: usize, now: Instant) -> bool {
        if self.networks.len() < max {
            return true;
        }
        if self.swept.is_none_or(|swept| now.duration_since(swept) >= SWEEP_PAUSE) {
            self.swept = Some(now);
            self.networks.retain(|_, Counts(counts)| counts.iter().any(|count| *count > now));
            if self.networks.len() >= max {
                tracing::warn!(
                    networks = max,
                    "more networks than can be counted: the rates do not hold for new ones"
                );
            }
        }
        self.networks.len() < max
    }
}

impl Counts {
    const fn of(&mut self, what: What) -> &mut Instant {
        let Self([connections, messages, recipients]) = self;
        match what {
            What::Connection => connections,
            What::Message => messages,
            What::Recipient => recipients,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        (0..99).filter(|_| rates.take(ip(address), What::Connection, now)).count()
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
        assert!(rates.take(client, What::Connection, now));
        assert!(!rates.take(client, What::Connection, now));
        assert!(rates.may(client, What::Message, now) && rates.may(client, What::Message, now));
        rates.add(client, What::Message, now);
        assert!(!rates.may(client, What::Message, now));
        rates.add(client, What::Message, now);
        assert!(!rates.may(client, What::Message, now + MINUTE), "what was let in is owed");
        assert!(rates.may(client, What::Message, now + 2 * MINUTE));
        assert!((0..999).all(|_| rates.take(client, What::Recipient, now)));
    }

    #[test]
    fn a_full_map_lets_new_networks_in_and_forgets_those_that_are_quiet() {
        let (rates, now) = (rates(2, 2), Instant::now());
        assert_eq!(taken(&rates, "192.0.2.1", now) + taken(&rates, "192.0.3.1", now), 4);
        assert_eq!(taken(&rates, "192.0.4.1", now), 99, "not counted");
        assert_eq!(taken(&rates, "192.0.2.1", now), 0, "those that are counted still are");
        let later = now + MINUTE;
        assert_eq!(taken(&rates, "192.0.4.1", later), 2, "the quiet ones made room");
        assert_eq!(rates.counted.lock().unwrap().networks.len(), 1);
    }
}
