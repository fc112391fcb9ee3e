//! The gateways that serve one store, as this one remembers them: itself among the others, and
//! those that are dead (`events/delivery/gateways.rs`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value as Json;

use crate::domain::clock::Timestamp;

/// On the embedded store one beat in so many is written: only the next start reads it.
const WRITTEN_ALONE: u64 = 10;

/// The beat of a gateway that was silent for too long: its claims are free.
pub const BURIED: i64 = -1;
/// The beat of a gateway that has ended by itself.
pub const LEFT: i64 = -2;

/// Changes among the other gateways since the last check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Gateways that died, and gateways that ended by themselves: their claims are free.
    pub died: usize,
    pub left: usize,
    /// This gateway was taken for dead, and has another id now.
    pub buried: bool,
}

/// This gateway and the others. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Company(pub Arc<Seen>);

#[derive(Debug, Default)]
pub struct Seen {
    /// The id of this gateway; 0 for a process that only opened the store.
    pub own: AtomicI64,
    /// Start of the last beat that was written, in steady time.
    pub heard: AtomicI64,
    /// Beats since the start.
    beats: AtomicU64,
    /// Steps of the clock at the last beat.
    steps: AtomicU64,
    /// Something has begun to wait for steady time since the last beat.
    stirred: AtomicBool,
    others: Mutex<Others>,
}

#[derive(Debug, Default)]
struct Others {
    /// The beat of each gateway, and the number of checks in which it stood still.
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
    /// Returns the id under which this gateway claims; 0 before it joined.
    pub(in crate::store) fn own(&self) -> i64 {
        self.0.own.load(Ordering::SeqCst)
    }

    /// Returns the gateways whose claims are free, as a JSON array.
    pub(in crate::store) fn dead(&self) -> String {
        let others = self.0.others.lock().unwrap_or_else(PoisonError::into_inner);
        Json::from(others.dead.as_slice()).to_string()
    }

    /// Whether the claims of this holder are free.
    pub(in crate::store) fn frees(&self, holder: i64) -> bool {
        let others = self.0.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.dead.contains(&holder)
    }

    /// Notes that something begins to wait for steady time: the next beat must be written.
    pub(in crate::store) fn stir(&self) {
        self.0.stirred.store(true, Ordering::SeqCst);
    }

    /// Whether the gateway of this row is gone, and its claims free; if `is_alone`, all others are.
    pub(in crate::store) fn is_dead(&self, row: &Gateway, is_alone: bool) -> bool {
        row.id != self.own() && (is_alone || row.beat < 0)
    }

    /// Records the gateways that are gone; returns those that are newly so.
    pub(in crate::store) fn note(&self, rows: &[Gateway], is_alone: bool) -> Census {
        let mut others = self.0.others.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut others.dead);
        let mut census = Census::default();
        for row in rows.iter().filter(|row| self.is_dead(row, is_alone)) {
            others.dead.push(row.id);
            let is_new = usize::from(!before.contains(&row.id));
            *(if row.beat == LEFT { &mut census.left } else { &mut census.died }) += is_new;
        }
        census
    }

    /// Records the beats of the others; returns the ids and beats unchanged for `silent` checks.
    pub(in crate::store) fn look(&self, rows: &[Gateway], silent: u32) -> Vec<(i64, i64)> {
        let mut others = self.0.others.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen = HashMap::with_capacity(rows.len());
        for row in rows.iter().filter(|row| row.id != self.own() && row.beat >= 0) {
            let still = match others.seen.get(&row.id) {
                Some((beat, still)) if *beat == row.beat => still.saturating_add(1),
                _ => 0,
            };
            seen.insert(row.id, (row.beat, still));
        }
        let silent = seen.iter().filter(|(_, (_, still))| *still >= silent);
        let silent = silent.map(|(id, (beat, _))| (*id, *beat)).collect();
        others.seen = seen;
        silent
    }

    /// Whether the embedded store writes this beat.
    pub(in crate::store) fn is_written(&self, steps: u64) -> bool {
        let seen = &self.0;
        let due = seen.beats.fetch_add(1, Ordering::SeqCst).is_multiple_of(WRITTEN_ALONE);
        let stepped = seen.steps.swap(steps, Ordering::SeqCst) != steps;
        seen.stirred.swap(false, Ordering::SeqCst) || due || stepped
    }
}
