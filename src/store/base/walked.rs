//! The place of a gateway among the rooms of `ordered` destinations
//! (`events/delivery/ordered_queue.rs`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value as Json};
use uuid::Uuid;

/// Most destinations whose place is kept. Beyond that all begin anew: turns change, not deliveries.
const REMEMBERED: usize = 10_000;

/// The last room seen of each destination that has more rooms than a claim looks at.
#[derive(Clone, Debug, Default)]
pub struct Walked(Arc<Mutex<HashMap<Uuid, String>>>);

impl Walked {
    /// Returns the last room seen by the id of the destination, as JSON.
    pub(in crate::store) fn starts(&self) -> String {
        let walked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let starts =
            walked.iter().map(|(id, room)| (id.as_simple().to_string(), Json::from(room.as_str())));
        Json::from(starts.collect::<Map<_, _>>()).to_string()
    }

    /// Adds `ends`. Destinations passed over as busy keep their place, and others begin anew.
    pub(in crate::store) fn go_on(&self, busy: &str, ends: HashMap<Uuid, String>) {
        let mut walked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        walked.retain(|id, _| busy.contains(&id.as_simple().to_string()));
        if walked.len() + ends.len() > REMEMBERED {
            walked.clear();
        }
        walked.extend(ends.into_iter().take(REMEMBERED));
    }
}
