//! One event for one destination, and the attempts to bring it there.

use serde_json::Value;

use super::clock::Timestamp;
use super::contact::Contact;
use super::destination::Destination;
use super::event::Event;
use super::id::{AttemptId, DeliveryId};
use super::message::Message;
use super::words::words;

words! {
    /// Where a delivery stands.
    State {
        /// Waiting for its next attempt, or being attempted.
        Pending = "pending",
        /// Answered 2xx.
        Delivered = "delivered",
        /// All attempts were used up; kept, and replayable.
        Exhausted = "exhausted",
        /// Its destination was removed.
        Cancelled = "cancelled",
    }
}

words! {
    /// What a replay sends again.
    Extent {
        /// What was given up.
        Failed = "failed",
        /// That, and what was delivered.
        All = "all",
    }
}

/// However many destinations wait, a claim looks at so many deliveries of each, or more: who gets
/// fewer of one has all of its that are due.
pub const TAKEN_OF_EACH: usize = 8;

/// What an event is about, as stored.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    Message(Box<Message>),
    Contact(Contact),
    /// As the event itself tells it.
    Told(Value),
    /// What the event named has been erased since.
    Erased,
}

words! {
    /// What the body of an event was made of: where that has changed, the body is out of date.
    Content {
        Message = "message",
        Contact = "contact",
        Told = "told",
        Erased = "erased",
    }
}

impl Subject {
    /// Of what kind it is.
    pub const fn content(&self) -> Content {
        match self {
            Self::Message(_) => Content::Message,
            Self::Contact(_) => Content::Contact,
            Self::Told(_) => Content::Told,
            Self::Erased => Content::Erased,
        }
    }
}

/// A delivery that a dispatcher has claimed: everything one attempt needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    pub delivery: DeliveryId,
    /// Attempts made before this one.
    pub attempts: u32,
    /// Names this claim: a result is taken only from the latest claimant.
    pub fence: i64,
    pub destination: Destination,
    pub event: Event,
    pub subject: Subject,
}

/// One POST and its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub id: AttemptId,
    pub at: Timestamp,
    pub latency_ms: u32,
    /// The HTTP status, if an answer came.
    pub status: Option<u16>,
    /// The first 2 KiB of the answer's body.
    pub response: Vec<u8>,
    /// Why there was no usable answer, in plain words.
    pub error: Option<String>,
}

/// What follows from an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// 2xx.
    Delivered,
    /// Try again at this steady time.
    RetryAt(Timestamp),
    /// The schedule is used up.
    Exhausted,
    /// 410: the destination is gone; it and everything pending for it goes with it.
    Gone,
}
