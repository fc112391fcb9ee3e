//! Steady time, which only goes on.

use std::time::Duration;

/// Returns a stopwatch that runs from now on, also while the machine sleeps (`CLOCK_BOOTTIME`):
/// work due in an hour is due then, even if the machine sleeps for most of it.
#[cfg(target_os = "linux")]
pub(super) fn stopwatch() -> impl Fn() -> Duration + Send + Sync + 'static {
    use rustix::time::{ClockId, clock_gettime};

    let read = || Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default();
    let began = read();
    move || read().saturating_sub(began)
}

/// May leave out the machine's sleep.
#[cfg(not(target_os = "linux"))]
pub(super) fn stopwatch() -> impl Fn() -> Duration + Send + Sync + 'static {
    let began = std::time::Instant::now();
    move || began.elapsed()
}
