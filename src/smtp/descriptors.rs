//! File descriptors: raises the limit at startup, and keeps a spare for when they run out.

use std::fs::File;
use std::io;
use std::net::SocketAddr;

use futures_util::FutureExt as _;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpStream};

/// Descriptors for everything but sessions: the API, the store, webhooks, lookups.
const OTHERS: u64 = 5 * 1024;

/// Any file that opens everywhere.
const ANYTHING: &str = "/dev/null";

/// Raises the descriptor limit to fit `sessions` and the rest, within the hard limit. Returns how
/// many sessions fit: one more would take a descriptor of the store, and no mail could be stored.
pub(super) fn provide(sessions: usize) -> usize {
    let needed = u64::try_from(sessions).unwrap_or(u64::MAX).saturating_add(OTHERS);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // None means no limit.
    let Some(have) = current.filter(|have| *have < needed) else { return sessions };
    let wanted = maximum.map_or(needed, |most| most.min(needed));
    let raised = Rlimit { current: Some(wanted), maximum };
    let have = setrlimit(Resource::Nofile, raised).map_or(have, |()| wanted);
    if have >= needed {
        return sessions;
    }
    let fit = sessions.min(usize::try_from(for_sessions(have)).unwrap_or(usize::MAX));
    tracing::warn!(
        descriptors = have,
        needed,
        sessions = fit,
        "too few file descriptors for limits.max_sessions: raise the hard limit (LimitNOFILE= of \
         systemd, ulimit -Hn), or lower max_sessions"
    );
    fit
}

/// Leaves `OTHERS` descriptors for the rest, but never more than half.
fn for_sessions(descriptors: u64) -> u64 {
    descriptors.saturating_sub(OTHERS.min(descriptors / 2)).max(1)
}

/// A spare descriptor. Closing it lets one connection be accepted and told that there is no place,
/// instead of waiting without a word.
#[derive(Debug)]
pub(super) struct Spare(Option<File>);

impl Spare {
    pub(super) fn keep() -> Self {
        Self(File::open(ANYTHING).ok())
    }

    /// Accepts one connection with the spare descriptor. Returns None unless `error` is EMFILE or
    /// ENFILE and a connection is ready at once. Drop the connection before [`Spare::refill`].
    pub(super) fn accept(
        &mut self,
        socket: &TcpListener,
        error: &io::Error,
    ) -> Option<(TcpStream, SocketAddr)> {
        let code = error.raw_os_error();
        if ![Errno::MFILE, Errno::NFILE].iter().any(|one| code == Some(one.raw_os_error())) {
            return None;
        }
        drop(self.0.take()?);
        socket.accept().now_or_never()?.ok()
    }

    /// Opens the spare descriptor again, if it was given up and one is free.
    pub(super) fn refill(&mut self) {
        if self.0.is_none() {
            *self = Self::keep();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_leave_descriptors_to_others() {
        let fit = [0, 1, 64, 10_240, 20_000].map(for_sessions);
        assert_eq!(fit, [1, 1, 32, 5120, 14_880]);
    }
}
