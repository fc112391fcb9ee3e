//! Deliveries: one event for one destination, and the attempts to deliver it.

use serde_json::Value;

use super::clock::Timestamp;
use super::contact::Contact;
use super::destination::Destination;
use super::event::Event;
use super::id::{AttemptId, DeliveryId};
use super::message::Message;
use super::words::words;

words! {
    /// The state of a delivery.
    State {
        /// Waiting for its next attempt, or being attempted.
        Pending = "pending",
        /// The receiver answered 2xx.
        Delivered = "delivered",
        /// All attempts failed; the delivery is kept and can be replayed.
        Exhausted = "exhausted",
        /// The destination was removed.
        Cancelled = "cancelled",
    }
}

words! {
    /// The deliveries that a replay sends again.
    Extent {
        /// Exhausted deliveries.
        Failed = "failed",
        /// Exhausted and delivered ones.
        All = "all",
    }
}

/// A claim looks at this many deliveries of each destination at least, however many destinations
/// wait. If it got fewer of a destination, no more are due there.
pub const TAKEN_OF_EACH: usize = 8;

/// Subject of an event, as stored.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    Message(Box<Message>),
    Contact(Contact),
    /// The data in the event itself.
    Told(Value),
    /// The subject was erased after the event.
    Erased,
}

words! {
    /// Source of an event's body. When it has changed, the body is out of date.
    Content {
        Message = "message",
        Contact = "contact",
        Told = "told",
        Erased = "erased",
    }
}

impl Subject {
    pub const fn content(&self) -> Content {
        match self {
            Self::Message(_) => Content::Message,
            Self::Contact(_) => Content::Contact,
            Self::Told(_) => Content::Told,
            Self::Erased => Content::Erased,
        }
    }
}

/// A delivery that a dispatcher has claimed, with everything that one attempt needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    pub delivery: DeliveryId,
    /// Attempts made before this one.
    pub attempts: u32,
    /// Number of this claim. The store accepts a result only with the fence of the latest claim.
    pub fence: i64,
    pub destination: Destination,
    pub event: Event,
    pub subject: Subject,
}

/// One POST and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub id: AttemptId,
    pub at: Timestamp,
    pub latency_ms: u32,
    /// HTTP status; None if no answer came.
    pub status: Option<u16>,
    /// The beginning of the response body, masked, of at most `kept_response_bytes`.
    pub response: Vec<u8>,
    /// Why there was no usable response, in plain words.
    pub error: Option<String>,
}

/// Consequence of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver answered 2xx.
    Delivered,
    /// Retry at this steady time.
    RetryAt(Timestamp),
    /// No attempts are left.
    Exhausted,
    /// The receiver answered 410: the destination and its pending deliveries are given up.
    Gone,
}
