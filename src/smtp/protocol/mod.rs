//! SMTP without sockets: octets in, steps out.
//!
//! Nouns: a *line* is framed first (strictly CRLF) and parsed second into a *command*; a *path* is
//! the address of MAIL or RCPT as it was sent; the *decoder* finds the end of a message and undoes
//! dot-stuffing; the *body* keeps the message within its limits; a *reply* is what the client is
//! told, and its words stand in `reply` and `notice` alone; the *machine* puts them together.
//!
//! Called by the session, and by the transcripts under `fixtures/smtp`.
//!
//! What never happens here: I/O, a clock, a wait, a decision about mail. How the octets were cut
//! into reads changes nothing.

pub mod body;
pub mod command;
pub mod data;
pub mod line;
pub mod machine;
pub mod notice;
pub mod parameters;
pub mod reply;

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(in crate::smtp) mod transcripts;
