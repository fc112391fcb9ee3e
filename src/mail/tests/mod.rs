//! Tests of the whole room: attacks on the header section, shapes of content, random bytes, and
//! messages of other people.

mod content;
mod corpus;
mod evasions;
mod fields;
mod hidden;
mod identity;
mod labels;
mod mailboxes;
mod pages;
mod parts;
mod random;
mod sanitised;
mod section;

use super::scan::{Fault, scan};
use super::summarise;
use crate::domain::message::Mail;
use crate::rules::{IntakeLimits, Rules};

fn limits() -> IntakeLimits {
    Rules::defaults().unwrap().intake.limits
}

/// Runs the whole room on one message.
fn read(raw: &[u8], limits: &IntakeLimits) -> Result<Mail, Fault> {
    let headers = scan(raw, limits)?;
    summarise(raw, &headers, &[], limits)
}

/// Turns line feeds into CRLF.
fn crlf(text: &str) -> Vec<u8> {
    text.replace('\n', "\r\n").into_bytes()
}

/// A message with this From line (or lines) among ordinary fields.
fn with_from(from: &[u8]) -> Vec<u8> {
    let before =
        b"Received: from a by b; Mon, 1 Jan 2024 00:00:00 +0000\r\nTo: agent@gw.example\r\n";
    let after = b"Subject: x\r\nDate: Mon, 1 Jan 2024 00:00:00 +0000\r\n\r\nHello.\r\n";
    [before.as_slice(), from, after.as_slice()].concat()
}
