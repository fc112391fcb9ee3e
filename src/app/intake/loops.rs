//! Has the message been here before, for the address that it comes to now? (contract §2, Replies:
//! `loop_detected`; threats C14)
//!
//! Its delivery markers tell. One of another Agent's address is no loop: a copy of one Agent may
//! reach another. Recipients that share a transaction share its one reply, so that one of them
//! whom the message has reached before ends it for all: to defer it would only repeat the question,
//! and to accept it would drop his copy without a word.

use std::time::Instant;

use serde_json::json;
use uuid::Uuid;

use super::Examination;
use super::step::step;
use crate::domain::address::Address;
use crate::domain::marker::{self, Marker};

impl Examination {
    /// Compares the markers with those of `addresses`, where Agents are reached by this
    /// transaction; `installation` is the identity of the store.
    pub fn find_loop<'a>(
        &mut self,
        installation: Uuid,
        addresses: impl Iterator<Item = &'a Address>,
    ) {
        if self.markers.is_empty() {
            return;
        }
        let began = Instant::now();
        let is_known =
            |address: &&Address| self.markers.contains(&Marker::of(installation, address));
        let known: Vec<String> = addresses.filter(is_known).map(Address::to_string).collect();
        let (result, detail) = if known.is_empty() {
            ("pass", "the message bears no delivery marker of this address")
        } else {
            (
                "fail",
                "the message bears the delivery marker of this address: it has been here before",
            )
        };
        let inputs = json!({ "field": marker::FIELD, "known": known });
        self.steps.push(step("loop", result, detail, inputs, began));
        if !known.is_empty() {
            self.looping = true;
            self.detail = Some(detail.to_owned());
        }
    }
}
