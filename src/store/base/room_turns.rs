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
pub struct RoomTurns(Arc<Mutex<HashMap<Uuid, String>>>);

impl RoomTurns {
    /// Returns the last room seen by the id of the destination, as JSON.
    pub fn last_rooms(&self) -> String {
        let rooms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let starts =
            rooms.iter().map(|(id, room)| (id.as_simple().to_string(), Json::from(room.as_str())));
        Json::from(starts.collect::<Map<_, _>>()).to_string()
    }

    /// Adds `ends`. Destinations whose ids are in `busy` were passed over and keep their place; the
    /// others begin anew.
    pub fn remember(&self, busy: &str, ends: HashMap<Uuid, String>) {
        let mut rooms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rooms.retain(|id, _| busy.contains(&id.as_simple().to_string()));
        if rooms.len() + ends.len() > REMEMBERED {
            rooms.clear();
        }
        rooms.extend(ends.into_iter().take(REMEMBERED));
    }
}
