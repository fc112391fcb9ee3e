//! The checks of every simulation: it takes a seed, and returns a digest of all that happened.

use super::scale;

/// Promises that a simulation found broken, one a line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(pub String);

/// Takes so many seeds, or more as [`scale`] says: none may break anything.
pub fn hold(seeds: u64, simulate: impl Fn(u64) -> Result<u64, Broken>) {
    for seed in 0..seeds * u64::from(scale()) {
        assert_eq!(simulate(seed).err(), None, "seed {seed}");
    }
}

/// Takes some seeds twice: each repeats all steps, and others than its neighbour.
pub fn repeat(simulate: impl Fn(u64) -> Result<u64, Broken>) {
    let all: Vec<_> = (0..20).map(&simulate).collect();
    assert_eq!(all, (0..20).map(&simulate).collect::<Vec<_>>());
    assert!(all.windows(2).all(|pair| pair[0] != pair[1]));
}

/// Takes seeds until one breaks something in these words, and no more than so many: a simulation that
/// notices nothing would prove nothing.
pub fn notice(seeds: u64, said: &str, simulate: impl Fn(u64) -> Result<u64, Broken>) {
    let is_noticed = |seed| simulate(seed).is_err_and(|Broken(words)| words.contains(said));
    assert!((0..seeds).any(is_noticed), "{said:?} is not noticed");
}
