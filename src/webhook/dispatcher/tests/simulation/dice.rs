//! Choices that a seed repeats.

use std::time::Duration;

/// A stream of choices from a seed (SplitMix64 of Steele, Lea and Flood).
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn octet(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap()
    }

    pub(super) fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % most
    }

    /// One time in so many.
    pub(super) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// A time below this.
    pub(super) fn within(&mut self, most: Duration) -> Duration {
        Duration::from_micros(self.below(u64::try_from(most.as_micros()).unwrap()))
    }
}
