//! A message as mailin passes it on: line by line, each up to an LF, with dots unstuffed.

use bytes::Bytes;

use crate::rules::SmtpMemory;
use crate::smtp::budget::Share;
use crate::smtp::protocol::line::Fault;

/// How a message ended, as mailin sees the end. `size` counts all its bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Whole(Bytes),
    Faulty { fault: Fault, head: Bytes, size: u64 },
    TooLarge { head: Bytes, size: u64 },
    NoMemory,
}

/// A message kept within its limits. The rest is dropped, because mailin cannot be stopped in the
/// middle.
#[derive(Debug)]
pub(super) struct Message {
    kept: Vec<u8>,
    share: Share,
    reserved: usize,
    size: usize,
    fault: Option<Fault>,
    starved: bool,
    max_message: usize,
    kept_head: usize,
    step: usize,
}

impl Message {
    /// `share` pays for the memory of the message.
    pub(super) fn new(memory: &SmtpMemory, max_message: usize, share: Share) -> Self {
        Self {
            kept: Vec::new(),
            share,
            reserved: 0,
            size: 0,
            fault: None,
            starved: false,
            max_message,
            kept_head: memory.kept_head_bytes,
            step: memory.reserve_step_bytes,
        }
    }

    /// Adds one line with its line end.
    pub(super) fn line(&mut self, line: &[u8]) {
        self.size = self.size.saturating_add(line.len());
        self.fault = self.fault.or_else(|| first_fault(line));
        if self.starved {
            return;
        }
        let refused = self.fault.is_some() || self.size > self.max_message;
        let most = if refused { self.kept_head } else { self.max_message };
        self.kept.truncate(most);
        let room = most.saturating_sub(self.kept.len());
        let part = line.get(..room).unwrap_or(line);
        if self.reserve(part.len()) {
            self.kept.extend_from_slice(part);
        }
        if refused && self.reserved > self.kept_head {
            self.kept.shrink_to(self.kept_head);
            self.share.shrink(self.kept_head);
            self.reserved = self.kept_head;
        }
    }

    /// Ends the message. Hold the returned share as long as the message.
    pub(super) fn end(self) -> (Ending, Share) {
        let (kept, size) = (Bytes::from(self.kept), u64::try_from(self.size).unwrap_or(u64::MAX));
        let ending = match self.fault {
            Some(fault) => Ending::Faulty { fault, head: kept, size },
            None if self.size > self.max_message => Ending::TooLarge { head: kept, size },
            None if self.starved => Ending::NoMemory,
            None => Ending::Whole(kept),
        };
        (ending, self.share)
    }

    /// Reserves memory for `octets` more bytes, in steps that grow with the message, so a large one
    /// is copied only a few times. Returns false, and drops the kept bytes, if the budget has no
    /// more.
    fn reserve(&mut self, octets: usize) -> bool {
        let needed = self.kept.len().saturating_add(octets).saturating_sub(self.reserved);
        if needed > 0 {
            let most = self.max_message.max(self.kept_head).saturating_sub(self.reserved);
            let more = needed.max(self.step.max(self.reserved / 2).min(most));
            if !self.share.grow(more) {
                self.starved = true;
                self.kept = Vec::new();
                self.share.clear();
                self.reserved = 0;
                return false;
            }
            self.reserved = self.reserved.saturating_add(more);
            self.kept.reserve_exact(self.reserved.saturating_sub(self.kept.len()));
        }
        true
    }
}

/// Returns the first fault in one line up to its LF.
fn first_fault(line: &[u8]) -> Option<Fault> {
    let mut after_cr = false;
    for octet in line {
        match (octet, after_cr) {
            (b'\n', false) => return Some(Fault::BareLf),
            (b'\n', true) => return None,
            (_, true) => return Some(Fault::BareCr),
            (0, false) => return Some(Fault::Nul),
            (octet, false) => after_cr = *octet == b'\r',
        }
    }
    // mailin passes on a line without an end when the connection ended inside it.
    None
}
