//! What a gateway keeps in memory about those that serve the same store: itself among the others,
//! and which of them are dead (`events/delivery/gateways.rs`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value as Json;

use crate::domain::clock::Timestamp;

/// On the embedded store, where a beat is for nobody but the next start, every so many is written.
const WRITTEN_ALONE: u64 = 10;

/// This gateway among the others.
#[derive(Clone, Debug, Default)]
pub struct Company(pub Arc<Seen>);

#[derive(Debug, Default)]
pub struct Seen {
    /// This gateway; 0 for who only opened the store.
    pub own: AtomicI64,
    /// Since the start.
    beats: AtomicU64,
    /// Steps of the clock when the beat was last written.
    steps: AtomicU64,
    /// Something has begun to wait since then.
    stirred: AtomicBool,
    others: Mutex<Others>,
}

#[derive(Debug, Default)]
struct Others {
    /// The beats, and for how many looks they stood still.
    seen: HashMap<i64, (i64, u32)>,
    dead: Vec<i64>,
}

/// A row of `gateways`.
pub struct Gateway {
    pub id: i64,
    pub beat: i64,
    pub steady: Timestamp,
    pub wall: Timestamp,
}

impl Company {
    /// Whom a claim is for; 0 before the gateway joined.
    pub(in crate::store) fn own(&self) -> i64 {
        self.0.own.load(Ordering::SeqCst)
    }

    /// Those whose claims are free, as a JSON array.
    pub(in crate::store) fn dead(&self) -> String {
        let others = self.0.others.lock().unwrap_or_else(PoisonError::into_inner);
        Json::from(others.dead.as_slice()).to_string()
    }

    /// Something begins to wait for steady time: the next beat is to be kept.
    pub(in crate::store) fn stir(&self) {
        self.0.stirred.store(true, Ordering::SeqCst);
    }

    pub(in crate::store) fn bury(&self, dead: Vec<i64>) {
        self.0.others.lock().unwrap_or_else(PoisonError::into_inner).dead = dead;
    }

    /// Notes the beats of the others as they are now; answers those that died with this look.
    pub(in crate::store) fn look(&self, rows: &[Gateway], silent: u32) -> Vec<i64> {
        let mut others = self.0.others.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen = HashMap::with_capacity(rows.len());
        for row in rows.iter().filter(|row| row.id != self.own()) {
            let still = match others.seen.get(&row.id) {
                Some((beat, still)) if *beat == row.beat => still.saturating_add(1),
                _ => 0,
            };
            seen.insert(row.id, (row.beat, still));
        }
        let dead = seen.iter().filter(|(_, (_, still))| *still >= silent).map(|(id, _)| *id);
        let dead: Vec<i64> = dead.collect();
        let died = dead.iter().copied().filter(|id| !others.dead.contains(id)).collect();
        *others = Others { seen, dead };
        died
    }

    /// Whether the embedded store is to keep this beat.
    pub(in crate::store) fn is_written(&self, steps: u64) -> bool {
        let seen = &self.0;
        let due = seen.beats.fetch_add(1, Ordering::SeqCst).is_multiple_of(WRITTEN_ALONE);
        let stepped = seen.steps.swap(steps, Ordering::SeqCst) != steps;
        seen.stirred.swap(false, Ordering::SeqCst) || due || stepped
    }
}
