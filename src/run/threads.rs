//! Threads of the API, apart from mail's: requests have their own, so that none waits behind
//! hundreds of sessions; streams of events have others, which give way to all.

use std::io;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::rules::ThreadRules;

/// Runtimes that end when this is dropped, without waiting for their tasks.
#[derive(Debug)]
pub(super) struct Threads {
    requests: Option<Runtime>,
    streams: Option<Runtime>,
}

impl Threads {
    pub(super) fn start(rules: &ThreadRules) -> io::Result<Self> {
        let requests = Builder::new_multi_thread()
            .worker_threads(rules.requests)
            .thread_name("requests")
            .enable_all()
            .build()?;
        let nice = i32::from(rules.streams_nice);
        let streams = Builder::new_multi_thread()
            .worker_threads(rules.streams)
            .thread_name("streams")
            .on_thread_start(move || give_way(nice))
            .enable_all()
            .build()?;
        Ok(Self { requests: Some(requests), streams: Some(streams) })
    }

    pub(super) fn requests(&self) -> Handle {
        self.requests.as_ref().map_or_else(Handle::current, |one| one.handle().clone())
    }

    pub(super) fn streams(&self) -> Handle {
        self.streams.as_ref().map_or_else(Handle::current, |one| one.handle().clone())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        for runtime in [self.streams.take(), self.requests.take()].into_iter().flatten() {
            runtime.shutdown_background();
        }
    }
}

/// Lowers the priority of this thread. On Linux each thread has its own nice value, and new threads
/// inherit it.
#[cfg(target_os = "linux")]
fn give_way(nice: i32) {
    let set =
        |own: i32| rustix::process::setpriority_process(None, own.saturating_add(nice).min(19));
    if let Err(error) = rustix::process::getpriority_process(None).and_then(set) {
        tracing::warn!(%error, "threads of streams do not give way to those of mail");
    }
}

/// Elsewhere the nice value belongs to the whole process.
#[cfg(not(target_os = "linux"))]
fn give_way(_: i32) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::rules::Rules;

    /// Threats H13.
    #[test]
    fn streams_are_served_apart_from_mail_and_give_way_to_it() {
        let threads = Threads::start(&Rules::defaults().unwrap().access.threads).unwrap();
        let of = |threads: Handle| {
            let own = async {
                let name = std::thread::current().name().unwrap_or_default().to_owned();
                (name, rustix::process::getpriority_process(None).unwrap())
            };
            threads.block_on(threads.spawn(own)).unwrap()
        };
        let mail = rustix::process::getpriority_process(None).unwrap();
        assert_eq!(of(threads.requests()), ("requests".to_owned(), mail));
        assert_eq!(of(threads.streams()), ("streams".to_owned(), (mail + 10).min(19)));
    }
}
