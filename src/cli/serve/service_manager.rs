//! The service manager, if there is one (systemd): sockets that it passes (`LISTEN_FDS`), what it is
//! told (`NOTIFY_SOCKET`), and its watchdog (`WATCHDOG_USEC`).

use std::env;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use listenfd::ListenFd;
use sd_notify::NotifyState;
use tokio::net::UnixDatagram;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::cli::Failure;
use crate::run::{Pulse, Running, Sockets};

/// The names of the sockets, in their order; `listenfd` leaves them to its callers.
const NAMES: &str = "LISTEN_FDNAMES";
/// Where the manager listens.
const SOCKET: &str = "NOTIFY_SOCKET";
/// Longest wait for a manager that reads nothing.
const PATIENCE: Duration = Duration::from_secs(1);

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
    tell(&[NotifyState::Status("opening the store")]).await;
}

pub(super) async fn ready(running: &Running) {
    let status = format!("ready: {}", running.in_words());
    tell(&[NotifyState::Ready, NotifyState::Status(&status)]).await;
}

pub(super) async fn reloading() {
    let status = NotifyState::Status("reading the certificate files again");
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now, status]).await,
        Err(error) => tracing::warn!(%error, "cannot read the time for the service manager"),
    }
}

pub(super) async fn stopping(grace: Duration) {
    let seconds = grace.as_secs();
    let status = format!(
        "stopping: sessions and deliveries under way have {seconds} seconds, nothing new comes in"
    );
    tell(&[NotifyState::Stopping, NotifyState::Status(&status)]).await;
}

/// Tells the service manager, if there is one. A manager that reads nothing holds up no thread, and
/// the caller no longer than [`PATIENCE`]; `sd_notify::notify` would block for good. A failure is
/// logged only: the server is no worse for it.
async fn tell(states: &[NotifyState<'_>]) {
    let Some(manager) = env::var_os(SOCKET) else { return };
    let text: String = states.iter().map(|state| format!("{state}\n")).collect();
    let telling = async {
        let socket = UnixDatagram::unbound()?;
        socket.connect(manager)?;
        socket.send(text.as_bytes()).await
    };
    let told = timeout(PATIENCE, telling).await;
    if let Err(error) = told.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
        tracing::warn!(error = %error, "cannot tell the service manager");
    }
}

/// Tells the service manager that the server works, as often as its watchdog asks for it, in a task
/// of its own: neither a reload nor a stop that takes long holds it up. Ends when this is dropped.
pub(super) struct Watchdog {
    /// None if the manager does not watch.
    _telling: Option<AbortOnDropHandle<()>>,
    state: State,
}

/// The state that was told last; None while it is not to be told.
type State = Arc<Mutex<Option<String>>>;

impl Watchdog {
    /// Must be called on the threads of mail.
    pub(super) fn over(running: &Running) -> Self {
        let state = State::new(Mutex::new(Some("ready".to_owned())));
        let telling = sd_notify::watchdog_enabled().map(|within| {
            // Half of the time after which the manager restarts the server.
            let telling = tell_life(within / 2, running.pulse(), Arc::clone(&state));
            AbortOnDropHandle::new(tokio::spawn(telling))
        });
        Self { _telling: telling, state }
    }

    /// Must follow [`ready`]: a state that is another is told anew.
    pub(super) async fn told_ready(&self) {
        *self.state.lock().await = Some("ready".to_owned());
    }

    /// Tells no state any more, so that the next one that somebody else tells stays.
    pub(super) async fn keep_status(&self) {
        *self.state.lock().await = None;
    }
}

/// Never ends. Each word of life comes after a beat that was begun for it: while the server hangs,
/// none comes.
async fn tell_life(every: Duration, pulse: Pulse, state: State) {
    loop {
        sleep(every).await;
        match pulse.beat().await {
            Ok(()) => tell(&[NotifyState::Watchdog]).await,
            Err(error) => {
                tracing::warn!(error = %error, "a part has failed: the watchdog is not told");
            }
        }
        tell_state(&pulse, &state).await;
    }
}

async fn tell_state(pulse: &Pulse, state: &State) {
    let now = pulse.in_words().await;
    // Held until it is told: after `keep_status` nothing is on its way.
    let mut state = state.lock().await;
    let Some(told) = &mut *state else { return };
    if *told != now {
        told.clone_from(&now);
        tell(&[NotifyState::Status(&now)]).await;
    }
}
