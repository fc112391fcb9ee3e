//! Inbound SMTP (RFC 5321), with our own framing.
//!
//! A *listener* accepts connections. The *door* (`door.rs`, the life of a connection) admits them
//! within the caps and starts a *session* for each. A session feeds bytes to the *machine* of
//! `protocol` and carries out its next step: write a reply, ask [`crate::domain::ports::Intake`]
//! about a recipient or a message, or reserve memory from the shared *budget*.
//!
//! `run` calls this room and passes in the Intake, the operator's rules and the shutdown. The locks
//! are those of counts (`rates`, `places`), held for a moment and never over a wait. A session that
//! panics ends alone, and returns its place and its memory.
//!
//! Never happens here: altering or logging a byte of a message (except with `bare_line_ends =
//! "normalize"`), ending a line in anything but CRLF, sending mail, deciding a verdict, or writing
//! a 250 before the Intake has answered. Verdicts come from the Intake; the session itself refuses
//! only unreadable or unaffordable input: size, bare line ends, memory, rates, disk space.

mod budget;
mod connection;
mod descriptors;
mod door;
mod listener;
mod log;
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

/// The software that speaks SMTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrontEnd {
    #[default]
    Ours,
    #[cfg(feature = "mailin")]
    Mailin,
}
