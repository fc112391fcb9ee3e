//! The gateways that serve one store, as this one remembers them: itself among the others, and
//! those that are dead (`events/delivery/gateways.rs`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value as Json;

use crate::domain::clock::Timestamp;

/// On the embedded store one beat in so many is written: only the next start reads it.
const WRITTEN_ALONE: u64 = 10;

/// The beat of a gateway that was silent for too long: its claims are free.
pub const DEAD_BEAT: i64 = -1;
/// The beat of a gateway that has ended by itself.
pub const LEFT_BEAT: i64 = -2;

/// Changes among the other gateways since the last check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GatewayChanges {
    /// Gateways that died, and gateways that ended by themselves: their claims are free.
    pub died: usize,
    pub left: usize,
    /// This gateway was taken for dead, and has another id now.
    pub was_marked_dead: bool,
}

/// This gateway and the others. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct GatewayRegistry(pub Arc<GatewayState>);

#[derive(Debug, Default)]
pub struct GatewayState {
    /// The id of this gateway; 0 for a process that only opened the store.
    pub own: AtomicI64,
    /// Start of the last beat that was written, in steady time.
    pub heard: AtomicI64,
    beats: AtomicU64,
    /// Steps of the clock at the last beat.
    steps: AtomicU64,
    /// Something has begun to wait for steady time since the last beat.
    is_required: AtomicBool,
    others: Mutex<Others>,
}

#[derive(Debug, Default)]
struct Others {
    /// By the id of the gateway.
    beats: HashMap<i64, SeenBeat>,
    dead: Vec<i64>,
}

/// The beat of a gateway, and the number of checks in which it stood still.
#[derive(Clone, Copy, Debug)]
struct SeenBeat {
    beat: i64,
    stood_still: u32,
}

/// A row of `gateways`.
pub struct Gateway {
    pub id: i64,
    pub beat: i64,
    pub steady: Timestamp,
    pub wall: Timestamp,
}

impl GatewayRegistry {
    fn others(&self) -> MutexGuard<'_, Others> {
        self.0.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the id under which this gateway claims; 0 before it joined.
    pub fn own(&self) -> i64 {
        self.0.own.load(Ordering::SeqCst)
    }

    /// Returns the gateways whose claims are free, as a JSON array.
    pub fn dead(&self) -> String {
        Json::from(self.others().dead.as_slice()).to_string()
    }

    /// Whether the claims of this holder are free.
    pub fn is_dead_holder(&self, holder: i64) -> bool {
        self.others().dead.contains(&holder)
    }

    /// Notes that something begins to wait for steady time: the next beat must be written.
    pub fn require_beat(&self) {
        self.0.is_required.store(true, Ordering::SeqCst);
    }

    /// Whether the gateway of this row is gone, and its claims free; if `is_alone`, all others are.
    pub fn is_dead(&self, row: &Gateway, is_alone: bool) -> bool {
        row.id != self.own() && (is_alone || row.beat < 0)
    }

    /// Records the gateways that are gone; returns those that are newly so.
    pub fn record_dead(&self, rows: &[Gateway], is_alone: bool) -> GatewayChanges {
        let mut others = self.others();
        let before = std::mem::take(&mut others.dead);
        let mut changes = GatewayChanges::default();
        for row in rows.iter().filter(|row| self.is_dead(row, is_alone)) {
            others.dead.push(row.id);
            let is_new = usize::from(!before.contains(&row.id));
            *(if row.beat == LEFT_BEAT { &mut changes.left } else { &mut changes.died }) += is_new;
        }
        changes
    }

    /// Records the beats of the others; returns the ids and beats unchanged for `silent` checks.
    pub fn find_silent(&self, rows: &[Gateway], silent: u32) -> Vec<(i64, i64)> {
        let mut others = self.others();
        let mut beats = HashMap::with_capacity(rows.len());
        for row in rows.iter().filter(|row| row.id != self.own() && row.beat >= 0) {
            let stood_still = match others.beats.get(&row.id) {
                Some(seen) if seen.beat == row.beat => seen.stood_still.saturating_add(1),
                _ => 0,
            };
            beats.insert(row.id, SeenBeat { beat: row.beat, stood_still });
        }
        let silent = beats.iter().filter(|(_, seen)| seen.stood_still >= silent);
        let silent = silent.map(|(id, seen)| (*id, seen.beat)).collect();
        others.beats = beats;
        silent
    }

    /// Counts a beat; returns whether the embedded store writes it.
    pub fn must_write_beat(&self, steps: u64) -> bool {
        let state = &self.0;
        let due = state.beats.fetch_add(1, Ordering::SeqCst).is_multiple_of(WRITTEN_ALONE);
        let stepped = state.steps.swap(steps, Ordering::SeqCst) != steps;
        state.is_required.swap(false, Ordering::SeqCst) || due || stepped
    }
}
