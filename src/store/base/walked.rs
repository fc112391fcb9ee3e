//! Where a gateway goes on among the rooms of `ordered` destinations, kept in memory
//! (`events/delivery/ordered_queue.rs`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value as Json};
use uuid::Uuid;

/// Destinations with more rooms than a claim looks at, of which it is known where to go on. Beyond
/// that they begin anew: a matter of turns, never of what is delivered.
const REMEMBERED: usize = 10_000;

/// Where the next claim goes on: the last room seen of those destinations that have more.
#[derive(Clone, Debug, Default)]
pub struct Walked(Arc<Mutex<HashMap<Uuid, String>>>);

impl Walked {
    /// JSON: the last room seen by the id of the destination.
    pub(in crate::store) fn starts(&self) -> String {
        let walked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let starts =
            walked.iter().map(|(id, room)| (id.as_simple().to_string(), Json::from(room.as_str())));
        Json::from(starts.collect::<Map<_, _>>()).to_string()
    }

    /// What was passed over as busy stays where it was; what came to its end begins anew.
    pub(in crate::store) fn go_on(&self, busy: &str, ends: HashMap<Uuid, String>) {
        let mut walked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        walked.retain(|id, _| busy.contains(&id.as_simple().to_string()));
        if walked.len() + ends.len() > REMEMBERED {
            walked.clear();
        }
        walked.extend(ends.into_iter().take(REMEMBERED));
    }
}
