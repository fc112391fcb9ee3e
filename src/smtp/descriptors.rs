//! File descriptors: enough of them from the start, and one put by for when they are gone.

use std::fs::File;
use std::io;
use std::net::SocketAddr;

use futures_util::FutureExt as _;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpStream};

/// What is needed beside the sessions: connections of the API, the store, webhooks, look-ups.
const OTHERS: u64 = 5 * 1024;

/// Anything that can be opened anywhere.
const ANYTHING: &str = "/dev/null";

/// Asks the system for as many descriptors as so many sessions and all the rest need, within what
/// it allows this process. Answers for how many sessions there are enough: a session more would
/// take the store's, and nobody's mail would be stored.
pub(super) fn provide(sessions: usize) -> usize {
    let needed = u64::try_from(sessions).unwrap_or(u64::MAX).saturating_add(OTHERS);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // None is no limit.
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

/// Half of few descriptors, and of many all but what others need.
fn for_sessions(descriptors: u64) -> u64 {
    descriptors.saturating_sub(OTHERS.min(descriptors / 2)).max(1)
}

/// A descriptor that nobody needs. While it is given up, one connection can be accepted, to be told
/// that there is no place: without that it would wait in the dark.
#[derive(Debug)]
pub(super) struct Spare(Option<File>);

impl Spare {
    pub(super) fn keep() -> Self {
        Self(File::open(ANYTHING).ok())
    }

    /// Accepts one connection by means of the spare descriptor, if `error` is for want of one and
    /// nobody else has taken it meanwhile. The connection must be dropped before
    /// [`Spare::refill`].
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

    /// Puts a descriptor by again, as soon as there is one.
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
