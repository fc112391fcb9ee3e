//! Time that only goes on, wherever the machine can tell it.

use std::time::Duration;

/// Tells the time since now, with that during which the machine sleeps (`CLOCK_BOOTTIME`): what is
/// due in an hour is due then on a machine that sleeps for most of it, too.
#[cfg(target_os = "linux")]
pub(super) fn stopwatch() -> impl Fn() -> Duration + Send + Sync + 'static {
    use rustix::time::{ClockId, clock_gettime};

    let read = || Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default();
    let began = read();
    move || read().saturating_sub(began)
}

/// Elsewhere the machine's sleep may be left out.
#[cfg(not(target_os = "linux"))]
pub(super) fn stopwatch() -> impl Fn() -> Duration + Send + Sync + 'static {
    let began = std::time::Instant::now();
    move || began.elapsed()
}
