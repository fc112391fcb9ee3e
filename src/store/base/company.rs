//! What a gateway keeps in memory about those that serve the same store: itself among the others,
//! and which of them are dead (`events/delivery/gateways.rs`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value as Json;

use crate::domain::clock::Timestamp;

/// On the embedded store, where a beat is for nobody but the next start, every so many is written.
const WRITTEN_ALONE: u64 = 10;

/// The beat of one that was silent for so long that what it had claimed is free.
pub const BURIED: i64 = -1;
/// The beat of one that has ended by itself.
pub const LEFT: i64 = -2;

/// What a look at the others found since the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// So many died, and so many ended by themselves: what they had claimed is free.
    pub died: usize,
    pub left: usize,
    /// This gateway was taken for dead, and has another name now.
    pub buried: bool,
}

/// This gateway among the others.
#[derive(Clone, Debug, Default)]
pub struct Company(pub Arc<Seen>);

#[derive(Debug, Default)]
pub struct Seen {
    /// This gateway; 0 for who only opened the store.
    pub own: AtomicI64,
    /// When the last beat that was written began, in steady time.
    pub heard: AtomicI64,
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

    /// Whether what this one holds is free.
    pub(in crate::store) fn frees(&self, holder: i64) -> bool {
        let others = self.0.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.dead.contains(&holder)
    }

    /// Something begins to wait for steady time: the next beat is to be kept.
    pub(in crate::store) fn stir(&self) {
        self.0.stirred.store(true, Ordering::SeqCst);
    }

    /// Whether `row` is no more, and what it had claimed is free.
    pub(in crate::store) fn is_dead(&self, row: &Gateway, is_alone: bool) -> bool {
        row.id != self.own() && (is_alone || row.beat < 0)
    }

    /// Notes who is no more; answers who has come to that since the last time.
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

    /// Notes the beats of the others as they are now; answers those that stood still for `silent`
    /// looks, with their beats.
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

    /// Whether the embedded store is to keep this beat.
    pub(in crate::store) fn is_written(&self, steps: u64) -> bool {
        let seen = &self.0;
        let due = seen.beats.fetch_add(1, Ordering::SeqCst).is_multiple_of(WRITTEN_ALONE);
        let stepped = seen.steps.swap(steps, Ordering::SeqCst) != steps;
        seen.stirred.swap(false, Ordering::SeqCst) || due || stepped
    }
}
