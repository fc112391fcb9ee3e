//! Mail from outside: the inbound SMTP listener (RFC 5321), on framing of our own.
//!
//! Nouns: a *listener* accepts connections; the *door* lets them in within the caps, as *sessions*
//! (`door.rs` is the life of a connection); a session feeds octets to the *machine* of `protocol`,
//! which says what to do next, and carries that out: write a reply, ask
//! [`crate::domain::ports::Intake`] about a recipient or a message, take memory from the one
//! *budget*.
//!
//! Called by `run`, which hands in the Intake, the operator's rules and the end of the program.
//!
//! What never happens here: an octet of a message is altered or logged, a line ends in anything
//! but CRLF, mail is sent, a verdict is thought up (it comes from the Intake; the session itself
//! turns away only what it cannot read: size, bare line ends, memory), a 250 is written before
//! the Intake has answered.

mod budget;
mod connection;
mod descriptors;
mod door;
mod listener;
#[cfg(feature = "mailin")]
mod mailin;
mod places;
pub mod protocol;
mod proxied;
mod rates;
mod session;
mod stream;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

pub use listener::Listener;
#[cfg(feature = "mailin")]
pub use mailin::Mailin;

/// Who speaks SMTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrontEnd {
    /// The listener of this room.
    #[default]
    Ours,
    /// mailin-embedded over the same Intake.
    #[cfg(feature = "mailin")]
    Mailin,
}
