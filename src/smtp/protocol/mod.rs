//! SMTP without sockets: bytes in, steps out.
//!
//! A *line* is framed first (strictly CRLF) and parsed second into a *command*. A *path* is the
//! address of MAIL or RCPT as it was sent. The *decoder* finds the end of a message and removes
//! dot-stuffing; the *body* keeps the message within its limits. A *reply* is sent to the client;
//! its words stand only in `reply` and `notice`. The *machine* puts these together.
//!
//! The session calls this room, and so do the transcripts under `fixtures/smtp`.
//!
//! Never happens here: I/O, a clock, a wait, a decision about mail. How the bytes were cut into
//! reads never changes a result.

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
