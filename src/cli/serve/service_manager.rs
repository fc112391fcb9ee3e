//! The service manager, if there is one (systemd): sockets that it passes (`LISTEN_FDS`), what it is
//! told (`NOTIFY_SOCKET`), and its watchdog (`WATCHDOG_USEC`).

use std::convert::Infallible;
use std::env;
use std::future::pending;
use std::io;
use std::time::Duration;

use listenfd::ListenFd;
use sd_notify::NotifyState;
use tokio::time::sleep;

use crate::cli::Failure;
use crate::run::{Pulse, Running, Sockets};

/// The names of the sockets, in their order; `listenfd` leaves them to its callers.
const NAMES: &str = "LISTEN_FDNAMES";

/// Takes the sockets that were passed to this process. Changes the environment, so it must be called
/// before there are threads.
pub(super) fn passed_sockets() -> Result<Sockets, Failure> {
    let mut passed = ListenFd::from_env();
    if passed.len() == 0 {
        return Ok(Sockets::default());
    }
    let names = env::var(NAMES).unwrap_or_default();
    let names: Vec<&str> = names.split(':').filter(|name| !name.is_empty()).collect();
    if names.len() != passed.len() {
        return Err(format!(
            "the service manager passes {} sockets and {} names: give each .socket unit its \
             FileDescriptorName=, or each socket its name in {NAMES}",
            passed.len(),
            names.len()
        )
        .into());
    }
    let mut sockets = Vec::with_capacity(names.len());
    for (place, name) in names.into_iter().enumerate() {
        let failure = |error| format!("the socket {name} of the service manager: {error}");
        let socket = passed.take_tcp_listener(place).map_err(failure)?;
        sockets.extend(socket.map(|socket| (name.to_owned(), socket)));
    }
    Ok(Sockets::named(sockets)?)
}

pub(super) async fn starting() {
    tell(|| sd_notify::notify(&[NotifyState::Status("opening the store")])).await;
}

pub(super) async fn ready(running: &Running) {
    let status = format!("ready: {}", running.in_words());
    tell(move || sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(&status)])).await;
}

pub(super) async fn reloading() {
    tell(|| {
        let now = NotifyState::monotonic_usec_now()?;
        let status = NotifyState::Status("reading the certificate files again");
        sd_notify::notify(&[NotifyState::Reloading, now, status])
    })
    .await;
}

pub(super) async fn stopping(grace: Duration) {
    let seconds = grace.as_secs();
    let status = format!(
        "stopping: sessions and deliveries under way have {seconds} seconds, nothing new comes in"
    );
    tell(move || sd_notify::notify(&[NotifyState::Stopping, NotifyState::Status(&status)])).await;
}

/// Tells the service manager, if there is one. A manager that reads nothing holds up no thread of
/// mail. A failure is logged only: the server is no worse for it.
async fn tell(notify: impl FnOnce() -> io::Result<()> + Send + 'static) {
    let told = tokio::task::spawn_blocking(notify).await.map_err(io::Error::from);
    if let Err(error) = told.and_then(|told| told) {
        tracing::warn!(error = %error, "cannot tell the service manager");
    }
}

/// Tells the service manager that the server works, as often as its watchdog asks for it.
pub(super) struct Watchdog {
    /// Half of the time after which the manager restarts the server; None if it does not watch.
    every: Option<Duration>,
    pulse: Pulse,
    /// The state that was told last; None while it is not to be told.
    told: Option<String>,
}

impl Watchdog {
    pub(super) fn over(running: &Running) -> Self {
        let every = sd_notify::watchdog_enabled().map(|within| within / 2);
        Self { every, pulse: running.pulse(), told: Some("ready".to_owned()) }
    }

    /// Tells no state any more, so that the last one stays.
    pub(super) fn keep_status(&mut self) {
        self.told = None;
    }

    /// Never ends. Each word of life comes after a beat that was begun for it: while the server
    /// hangs, none comes.
    pub(super) async fn run(&mut self) -> Infallible {
        let Some(every) = self.every else { return pending().await };
        loop {
            sleep(every).await;
            match self.pulse.beat().await {
                Ok(()) => tell(|| sd_notify::notify(&[NotifyState::Watchdog])).await,
                Err(error) => {
                    tracing::warn!(error = %error, "a thread has failed: the watchdog is not told");
                }
            }
            self.tell_state().await;
        }
    }

    async fn tell_state(&mut self) {
        let Some(told) = &mut self.told else { return };
        let now = self.pulse.in_words().await;
        if *told != now {
            told.clone_from(&now);
            tell(move || sd_notify::notify(&[NotifyState::Status(&now)])).await;
        }
    }
}
