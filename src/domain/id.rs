//! Identifiers. Accounts, members and contacts share one sequence of integers (1 … 2^53−1, so
//! that every JSON reader keeps them exact); everything else is a UUIDv7 (contract §1).

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use uuid::Uuid;

use super::clock::Clock;

/// The largest integer that every JSON reader keeps exact (RFC 8259 §6).
pub const LARGEST_USER_ID: i64 = (1 << 53) - 1;

/// Text that is not a canonical decimal of 1 … 2^53−1.
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
            /// The id, when `value` lies in 1 … 2^53−1.
            pub const fn new(value: i64) -> Option<Self> {
                if value >= 1 && value <= LARGEST_USER_ID { Some(Self(value)) } else { None }
            }

            /// The number itself.
            pub const fn get(self) -> i64 {
                self.0
            }
        }

        /// Accepts the canonical decimal only, so that one account has one spelling.
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
    /// An intake record.
    IntakeId
);
uuid_id!(
    /// An event; also the receiver's idempotency key.
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
    /// An API key.
    KeyId
);

/// Fills a buffer with bytes that nobody can predict.
pub type Random = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// Makes identifiers and secrets from the clock and the randomness that it was given.
#[derive(Clone)]
pub struct Mint {
    clock: Clock,
    random: Random,
}

impl Mint {
    /// A mint over this clock and this randomness.
    pub fn new(clock: Clock, random: Random) -> Self {
        Self { clock, random }
    }

    /// A UUIDv7 (RFC 9562 §5.7) of the present millisecond.
    pub fn uuid(&self) -> Uuid {
        let mut random = [0; 10];
        (self.random)(&mut random);
        let millis = u64::try_from(self.clock.now().millis()).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }

    /// 256 random bits.
    pub fn secret(&self) -> [u8; 32] {
        let mut secret = [0; 32];
        (self.random)(&mut secret);
        secret
    }

    /// The clock behind the identifiers.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}

impl fmt::Debug for Mint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mint")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
