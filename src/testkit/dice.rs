//! Choices in no order, which a seed repeats.

use std::time::Duration;

/// A stream of choices from a seed (SplitMix64 of Steele, Lea and Flood: small, and the same on every
/// machine).
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// A number below this, which must not be 0.
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % most
    }

    /// As [`Self::below`], for places in lists.
    pub fn roll(&mut self, sides: usize) -> usize {
        usize::try_from(self.below(u64::try_from(sides).unwrap_or(u64::MAX))).unwrap_or(usize::MAX)
    }

    /// One time in so many.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of these, of which there must be one.
    #[expect(clippy::indexing_slicing, reason = "the place is below the length")]
    pub fn pick<'p, T>(&mut self, from: &'p [T]) -> &'p T {
        &from[self.roll(from.len())]
    }

    pub fn fill(&mut self, octets: &mut [u8]) {
        octets.iter_mut().for_each(|octet| *octet = self.below(256).to_le_bytes()[0]);
    }

    /// A time below this, which must be a microsecond at least.
    pub fn within(&mut self, most: Duration) -> Duration {
        Duration::from_micros(self.below(u64::try_from(most.as_micros()).unwrap_or(u64::MAX)))
    }
}
