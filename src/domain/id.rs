//! Identifiers. Accounts, members and contacts share one sequence of integers (1 … 2^53−1, so
//! that every JSON reader keeps them exact); everything else is a UUIDv7 (contract §1).

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use uuid::Uuid;

use super::clock::Clock;

/// Largest integer that every JSON reader keeps exact (RFC 8259 §6).
pub const LARGEST_USER_ID: i64 = (1 << 53) - 1;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "an id is a whole number from 1 to 9007199254740991, without sign, spaces or leading zeros"
)]
pub struct IdError;

macro_rules! user_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(i64);

        impl $name {
            /// Returns None unless `value` is in 1 … 2^53−1.
            pub const fn new(value: i64) -> Option<Self> {
                if value >= 1 && value <= LARGEST_USER_ID { Some(Self(value)) } else { None }
            }

            pub const fn get(self) -> i64 {
                self.0
            }
        }

        /// Accepts only the canonical decimal, so that each account has one spelling.
        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let canonical = !text.is_empty()
                    && text.len() <= 16
                    && text.bytes().all(|b| b.is_ascii_digit())
                    && !text.starts_with('0');
                if !canonical {
                    return Err(IdError);
                }
                text.parse().ok().and_then(Self::new).ok_or(IdError)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

user_id!(
    /// A node of the account tree.
    AccountId
);
user_id!(
    /// A member of an account.
    MemberId
);
user_id!(
    /// A sender known to an organization.
    ContactId
);

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                Uuid::from_str(text).map(Self)
            }
        }
    };
}

uuid_id!(
    /// A message.
    MessageId
);
uuid_id!(
    /// A thread: the id of its first message.
    ThreadId
);
uuid_id!(
    /// A reply of an Agent: an outbound entry of a room.
    ReplyId
);
uuid_id!(
    /// A session of a room.
    SessionId
);
uuid_id!(
    /// An intake record.
    IntakeId
);
uuid_id!(
    /// An event; receivers use it as their idempotency key.
    EventId
);
uuid_id!(
    /// A webhook destination.
    DestinationId
);
uuid_id!(
    /// One event for one destination.
    DeliveryId
);
uuid_id!(
    /// One POST of a delivery.
    AttemptId
);
uuid_id!(
    /// A relay.
    RelayId
);
uuid_id!(
    /// One request to a relay's application.
    RelayAttemptId
);
uuid_id!(
    /// A URL to which a provider posts mail.
    WayId
);
uuid_id!(
    /// An API key.
    KeyId
);
uuid_id!(
    /// A session of the web console.
    ConsoleSessionId
);
uuid_id!(
    /// A row of the audit log.
    AuditId
);
uuid_id!(
    /// A template of Agent configurations.
    TemplateId
);

impl MessageId {
    /// Returns the id of the event with this number among those that announce the message.
    pub fn event(self, number: u8) -> EventId {
        EventId(self.0).nth(number)
    }
}

impl EventId {
    /// Most events that are announced together; their numbers start at 1.
    pub const TOGETHER: u8 = 15;

    /// Returns the id that all events announced together share: the id of their message, or one of
    /// their own. No event has this id itself, so that no receiver confuses them.
    pub const fn row(self) -> Uuid {
        Uuid::from_u128(self.0.as_u128() & !0xf)
    }

    /// Returns the event's number among those announced together: the last four bits, which the
    /// mint leaves zero. It is independent of the list of event names, which may change.
    pub const fn number(self) -> u8 {
        let [.., last] = *self.0.as_bytes();
        last & 0xf
    }

    /// Returns the id of the event with this number, announced together with this one.
    #[must_use]
    pub fn nth(self, number: u8) -> Self {
        Self(Uuid::from_u128(self.row().as_u128() | u128::from(number & 0xf)))
    }
}

/// Fills a buffer with unpredictable bytes.
pub type Random = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// Makes identifiers and secrets from a clock and a source of randomness.
#[derive(Clone)]
pub struct Mint {
    clock: Clock,
    random: Random,
    /// Latest UUID of this mint and its clones.
    latest: Arc<Mutex<Moment>>,
}

impl Mint {
    pub fn new(clock: Clock, random: Random) -> Self {
        Self { clock, random, latest: Arc::default() }
    }

    /// Returns a UUIDv7 (RFC 9562 §5.7) of the present millisecond, greater than all earlier ones
    /// of this mint and its clones: sorting by id gives the order of creation. While the clock
    /// stands still or goes back, the random part grows by a random step (§6.2, method 2), so that
    /// ids stay unpredictable.
    pub fn uuid(&self) -> Uuid {
        self.last_of(0)
    }

    /// Returns the id of a message. The ids of its events are reserved with it.
    pub fn message(&self) -> MessageId {
        MessageId(self.event().row())
    }

    /// Returns the id of the first event of something that is no message.
    pub fn event(&self) -> EventId {
        EventId(self.last_of(0xf)).nth(1)
    }

    /// Takes the next free block of UUIDs that differ only in the bits `lowest`; returns the last.
    fn last_of(&self, lowest: u128) -> Uuid {
        let mut random = [0; 16];
        (self.random)(&mut random);
        // A step with all these bits set moves past the whole block.
        let random = u128::from_be_bytes(random) | lowest;
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let now = u64::try_from(self.clock.now().millis()).unwrap_or(0);
        *latest = latest.next(now, random);
        latest.random |= lowest;
        latest.uuid()
    }

    pub fn secret(&self) -> [u8; 32] {
        let mut secret = [0; 32];
        (self.random)(&mut secret);
        secret
    }

    /// Returns a number that picks the jitter of a wait (`Schedule::wait`).
    pub fn luck(&self) -> u16 {
        let mut luck = [0; 2];
        (self.random)(&mut luck);
        u16::from_be_bytes(luck)
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}

impl fmt::Debug for Mint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mint")
    }
}

/// A UUIDv7 without its version and variant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Moment {
    millis: u64,
    /// 74 bits: the 12 of `rand_a`, then the 62 of `rand_b`.
    random: u128,
}

impl Moment {
    const RANDOM_BITS: u32 = 74;
    const LOW_BITS: u32 = 62;
    /// Each millisecond begins in the lower half, which leaves room to count up (RFC 9562 §6.2).
    const FIRST: u128 = (1 << (Self::RANDOM_BITS - 1)) - 1;
    const LAST: u128 = (1 << Self::RANDOM_BITS) - 1;
    /// Largest step within a millisecond.
    const STEP: u128 = (1 << 32) - 1;

    /// Returns the successor, at time `now` if that is later; always greater than this one.
    const fn next(self, now: u64, random: u128) -> Self {
        if now > self.millis {
            return Self { millis: now, random: random & Self::FIRST };
        }
        let random_part = self.random + 1 + (random & Self::STEP);
        if random_part <= Self::LAST {
            return Self { millis: self.millis, random: random_part };
        }
        // The millisecond is full: use the next one.
        Self { millis: self.millis + 1, random: random & Self::FIRST }
    }

    const fn uuid(self) -> Uuid {
        let high = (self.random >> Self::LOW_BITS).to_be_bytes();
        let low = (self.random & ((1 << Self::LOW_BITS) - 1)).to_be_bytes();
        let [.., h0, h1] = high;
        let [.., l0, l1, l2, l3, l4, l5, l6, l7] = low;
        let octets = [h0, h1, l0, l1, l2, l3, l4, l5, l6, l7];
        uuid::Builder::from_unix_timestamp_millis(self.millis, &octets).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

    use proptest::prelude::*;

    use super::super::clock::Timestamp;
    use super::*;

    /// A mint with this clock whose random bytes all equal `octet`.
    fn mint(now: impl Fn() -> i64 + Send + Sync + 'static, octet: u8) -> Mint {
        let clock = Clock::new(move || Timestamp::from_millis(now()));
        Mint::new(clock, Arc::new(move |octets: &mut [u8]| octets.fill(octet)))
    }

    proptest! {
        #[test]
        fn every_uuid_is_greater_than_the_one_before_whatever_the_clock_does(
            times in prop::collection::vec(-5_i64..5_000, 1..200),
            octet: u8,
        ) {
            let now = Arc::new(AtomicI64::new(0));
            let reading = Arc::clone(&now);
            let mint = mint(move || reading.load(Ordering::SeqCst), octet);
            let mut before = Uuid::nil();
            for time in times {
                now.store(time, Ordering::SeqCst);
                let made = mint.uuid();
                prop_assert!(made > before, "{made} after {before}");
                prop_assert_eq!(made.get_version_num(), 7);
                prop_assert_eq!(made.get_variant(), uuid::Variant::RFC4122);
                before = made;
            }
        }

        #[test]
        fn the_order_of_moments_is_the_order_of_their_uuids(
            one in (0_u64..1 << 48, 0..=Moment::LAST),
            two in (0_u64..1 << 48, 0..=Moment::LAST),
            now in 0_u64..1 << 48,
            random: u128,
        ) {
            let moment = |(millis, random)| Moment { millis, random };
            let (one, two) = (moment(one), moment(two));
            prop_assert_eq!(one.cmp(&two), one.uuid().cmp(&two.uuid()));
            prop_assert!(one.next(now, random) > one);
        }
    }

    proptest! {
        /// For any course of the clock, mixed with other ids.
        #[test]
        fn the_ids_of_a_message_and_its_events_are_nobody_elses(
            times in prop::collection::vec((-5_i64..50, any::<bool>()), 1..200),
            octet: u8,
        ) {
            let now = Arc::new(AtomicI64::new(0));
            let reading = Arc::clone(&now);
            let mint = mint(move || reading.load(Ordering::SeqCst), octet);
            let mut before = Uuid::nil();
            for (time, is_message) in times {
                now.store(time, Ordering::SeqCst);
                let id = if is_message { mint.message().0 } else { mint.uuid() };
                prop_assert!(id > before, "{id} after {before}");
                prop_assert_eq!(id.get_version_num(), 7);
                before = id;
                if is_message {
                    for number in 1..=EventId::TOGETHER {
                        let event = MessageId(id).event(number);
                        prop_assert_eq!((event.row(), event.number()), (id, number));
                        prop_assert_eq!(event.nth(3), MessageId(id).event(3));
                        prop_assert!(event.0 > before);
                        before = event.0;
                    }
                }
            }
        }
    }

    #[test]
    fn a_millisecond_that_is_full_borrows_from_the_next() {
        let full = Moment { millis: 7, random: Moment::LAST };
        let next = full.next(7, u128::MAX);
        assert_eq!(next, Moment { millis: 8, random: Moment::FIRST });
        assert!(next.uuid() > full.uuid());
    }

    #[test]
    fn clones_on_many_threads_make_each_uuid_once_and_in_order() {
        let ticks = AtomicU64::new(0);
        let now = move || i64::try_from(ticks.fetch_add(1, Ordering::SeqCst) / 100).unwrap();
        let mint = mint(now, 0);
        let made: Vec<Vec<Uuid>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    let mint = mint.clone();
                    scope.spawn(move || (0..1000).map(|_| mint.uuid()).collect())
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(made.iter().all(|one| one.is_sorted()));
        let distinct: BTreeSet<_> = made.into_iter().flatten().collect();
        assert_eq!(distinct.len(), 8000);
    }

    #[test]
    fn a_uuid_says_when_it_was_made() {
        let made = mint(|| 1_750_000_000_123, 0xff).uuid();
        assert_eq!(made.get_timestamp().unwrap().to_unix(), (1_750_000_000, 123_000_000));
    }

    #[test]
    fn only_the_canonical_decimal_is_an_id() {
        assert_eq!("1".parse::<AccountId>(), Ok(AccountId(1)));
        assert_eq!("9007199254740991".parse::<AccountId>(), Ok(AccountId(LARGEST_USER_ID)));
        for bad in ["", "0", "01", "+1", "-1", " 1", "1 ", "1.0", "1e0", "１", "9007199254740992"]
        {
            assert_eq!(bad.parse::<AccountId>(), Err(IdError), "{bad:?}");
        }
    }
}
