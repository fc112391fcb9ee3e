//! Certificates from an authority, by ACME (RFC 8555): ordering, storing and renewing them.
//!
//! The authority proves that this server owns a name by fetching a token from its port 80 (HTTP-01,
//! RFC 8555 §8.3) or a certificate from its port 443 (TLS-ALPN-01, RFC 8737). `challenges` has the
//! answers, and serves tokens and nothing else; `tls_alpn` makes certificates for the listener of
//! the API. `order` makes one attempt.
//! `folder` is the folder with account, key and chain, so a restart asks for nothing. `transport`
//! sends requests through `egress`. The key of the certificate is made once and stays: a TLSA
//! record of it (RFC 7672 §3.1.1) outlives every renewal.
//!
//! Never: asking an authority again at once, not even after a restart; mail that waits for an
//! authority. Until there is a certificate by ACME, the server shows the one that it has.

mod challenges;
mod failure;
mod folder;
mod order;
pub(in crate::tls) mod tls_alpn;
mod transport;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use url::Url;

use crate::domain::clock::{Clock, Timestamp};
use crate::domain::domain_name::DomainName;
use crate::domain::id::Mint;
use crate::egress::client::{Client, Limits};
use crate::rules::AcmeRules;
use crate::shutdown::Shutdown;

use super::pair::Pair;
pub use challenges::Challenges;
use failure::AcmeError;
pub use failure::Unusable;
use folder::{AcmeFolder, AttemptRecord};
use transport::Transport;

pub use folder::FolderError;
pub(super) use folder::{all as all_files, read};

/// How the authority proves that this server owns a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Challenge {
    /// By port 80.
    #[default]
    Http01,
    /// By port 443, where the API is.
    TlsAlpn01,
}

impl Challenge {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Http01 => "HTTP-01",
            Self::TlsAlpn01 => "TLS-ALPN-01",
        }
    }
}

/// The authority, the names, and the place of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The URL of the authority's directory (RFC 8555 §7.1.1), https.
    pub directory: Url,
    /// `mailto:` URLs of the operator, sent when the account is made.
    pub contact: Vec<String>,
    /// The names of the certificate; at least one.
    pub names: Vec<DomainName>,
    pub challenge: Challenge,
    /// The address at which the authority's requests to port 80 arrive.
    pub http: SocketAddr,
    /// Not shared with other gateways.
    pub folder: PathBuf,
    /// PEM file of root certificates that verify the directory's server, beside the system's.
    pub ca_file: Option<PathBuf>,
}

pub struct Acme {
    work: Work,
    /// None while another program has the address.
    listener: Option<TcpListener>,
    next: NextAttempt,
}

/// When to ask the authority, after so many failures in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NextAttempt {
    due: Timestamp,
    failures: u32,
}

impl From<&AcmeRules> for Limits {
    fn from(rules: &AcmeRules) -> Self {
        Self {
            timeout: rules.attempt.request(),
            connect_timeout: rules.attempt.connect(),
            max_response_bytes: rules.attempt.max_response_bytes,
        }
    }
}

impl Acme {
    /// Sends nothing yet. `listener` is for the authority's challenges at port 80, where these are
    /// asked for; if it failed, listening is tried again before each attempt. `client` reaches the
    /// directory. `challenges` are those that the listener of the API shows.
    pub fn on(
        listener: Option<io::Result<TcpListener>>,
        settings: Settings,
        rules: Arc<AcmeRules>,
        client: Client,
        challenges: Challenges,
        mint: Mint,
    ) -> Self {
        if let Some(Err(error)) = &listener {
            tracing::error!(
                error = error as &dyn std::error::Error,
                advice = failure::of_listening(error.kind()),
                acme.http = %settings.http,
                "cannot listen for ACME challenges: no certificate by ACME until this works; the \
                 certificate in use stays in use"
            );
        }
        let listener = listener.and_then(Result::ok);
        let transport = Transport::new(client);
        let clock = mint.clock().clone();
        let next = NextAttempt { due: clock.now(), failures: 0 };
        let work = Work { settings, rules, challenges, transport, clock, mint };
        Self { work, listener, next }
    }

    /// The address on which it listens for the authority, if it does.
    pub fn http(&self) -> Option<SocketAddr> {
        self.listener.as_ref()?.local_addr().ok()
    }

    /// Calls `install` with the stored certificate, if there is one: the chain, then the key, both
    /// PEM.
    pub async fn install_stored(&mut self, install: impl Fn(&[u8], &[u8]) -> Result<(), Unusable>) {
        self.next = self.work.begin(&install).await;
        if self.next.due > self.work.clock.now() {
            tracing::info!(acme.due = %self.next.due, "next ACME request scheduled");
        }
    }

    /// Obtains and renews certificates until the soft stop, and calls `install` with each.
    pub async fn run(
        self,
        install: impl Fn(&[u8], &[u8]) -> Result<(), Unusable>,
        shutdown: Shutdown,
    ) {
        let Self { work, listener, next } = self;
        let is_open = listener.is_some() || work.settings.challenge == Challenge::TlsAlpn01;
        if let Some(listener) = listener {
            work.serve(listener, &shutdown);
        }
        tokio::select! {
            () = work.renew(next, is_open, install, &shutdown) => {}
            () = shutdown.soft() => {}
        }
    }
}

/// Most attempts at one order.
const ORDER_TRIES: u32 = 3;

struct Work {
    settings: Settings,
    rules: Arc<AcmeRules>,
    challenges: Challenges,
    transport: Transport,
    clock: Clock,
    mint: Mint,
}

impl Work {
    /// Never ends. Dropped in an attempt, it leaves the order and the note of the attempt on disk.
    async fn renew(
        &self,
        NextAttempt { mut due, mut failures }: NextAttempt,
        mut is_open: bool,
        install: impl Fn(&[u8], &[u8]) -> Result<(), Unusable>,
        shutdown: &Shutdown,
    ) {
        loop {
            self.until(due).await;
            let attempt = async {
                if !is_open {
                    self.listen(shutdown).await?;
                    is_open = true;
                }
                self.attempt(failures, &install).await
            };
            match attempt.await {
                Ok(next) => {
                    // Even if the certificate's life is short.
                    let wait = self.wait(0);
                    due = next.max(self.clock.now().plus(wait));
                    failures = 0;
                    self.note_end(failures, wait).await;
                }
                Err(error) => {
                    // Asking again does not mend a clock: take the longest wait.
                    let is_clock = matches!(error, AcmeError::Clock { .. });
                    let wait = self.wait(if is_clock { u32::MAX } else { failures });
                    failures = failures.saturating_add(1);
                    due = self.clock.now();
                    if !error.is_our_own() {
                        self.note_end(failures, wait).await;
                    }
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        advice = error.advice(self.settings.challenge),
                        acme.directory = %self.settings.directory,
                        retry.seconds = wait.as_secs(),
                        "no certificate by ACME: the certificate in use stays in use"
                    );
                    sleep(wait).await;
                }
            }
        }
    }

    /// Tries again to listen on an address that another program had.
    async fn listen(&self, shutdown: &Shutdown) -> Result<(), AcmeError> {
        let address = self.settings.http;
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|source| AcmeError::Listen { address, source })?;
        tracing::info!(acme.http = %address, "listening for ACME challenges");
        self.serve(listener, shutdown);
        Ok(())
    }

    fn serve(&self, listener: TcpListener, shutdown: &Shutdown) {
        let bounds = self.rules.challenges.clone();
        shutdown.spawn(self.challenges.clone().serve(listener, bounds, shutdown.clone()));
    }

    /// Stores that the authority is asked now, and not again before `wait` is over.
    async fn note(&self, failures: u32, wait: Duration) -> Result<(), AcmeError> {
        let at = self.clock.now();
        let tried = AttemptRecord { at, not_before: at.plus(wait), failures };
        self.on_disk(move |settings| AcmeFolder::note(settings, tried)).await
    }

    async fn note_end(&self, failures: u32, wait: Duration) {
        // On failure, the note from before the attempt stays valid.
        if let Err(error) = self.note(failures, wait).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(
                error,
                "cannot save when the next ACME request is allowed: a restart may ask too early"
            );
        }
    }

    /// Returns the wait after this many failures and one more.
    fn wait(&self, failures: u32) -> Duration {
        let (schedule, waits) = self.rules.retries.schedule();
        let asked = self.transport.asked_to_wait();
        let failures = failures.min(waits.saturating_sub(1));
        schedule.wait(failures, asked, self.jitter()).unwrap_or_default()
    }

    /// Installs the stored certificate. Returns when to ask the authority, and the failures so far.
    async fn begin(&self, install: &impl Fn(&[u8], &[u8]) -> Result<(), Unusable>) -> NextAttempt {
        let now = self.clock.now();
        let (soonest, failures) = match self.on_disk(AcmeFolder::tried).await {
            // A file cannot make the wait longer than the longest.
            Ok(Some(tried)) if tried.at <= now => {
                (tried.not_before.min(now.plus(self.wait(u32::MAX))), tried.failures)
            }
            // The authority was never asked, or the clock was wrong then.
            Ok(_) => (now, 0),
            Err(_) => (now.plus(self.wait(0)), 0),
        };
        NextAttempt { due: self.show_stored(soonest, install).await, failures }
    }

    /// Installs the stored certificate, if it can be used. Returns when to ask the authority:
    /// `soonest`, or at its renewal if that is later and it has all names.
    async fn show_stored(
        &self,
        soonest: Timestamp,
        install: &impl Fn(&[u8], &[u8]) -> Result<(), Unusable>,
    ) -> Timestamp {
        // The next attempt reports faults of the folder.
        let Ok(kept) = self.on_disk(AcmeFolder::open).await else { return soonest };
        let Some(chain) = kept.chain else { return soonest };
        let (chain, key) = (chain.as_bytes(), kept.key.as_bytes());
        let pair = Pair::from_pem(chain, key).map_err(Unusable::from);
        // Even an expired one: it encrypts, and DANE ignores the date (RFC 7672 §3.1.1).
        match pair.and_then(|pair| install(chain, key).map(|()| pair)) {
            Ok(pair) if self.settings.names.iter().all(|name| pair.names(name)) => {
                self.renewal(&pair).max(soonest)
            }
            Ok(_) => soonest,
            Err(error) => {
                let error = &*error as &(dyn std::error::Error + 'static);
                tracing::warn!(error, "cannot use the stored certificate: asking for a new one");
                soonest
            }
        }
    }

    /// Notes the attempt; then obtains, stores and installs a certificate. Returns its renewal.
    async fn attempt(
        &self,
        failures: u32,
        install: &impl Fn(&[u8], &[u8]) -> Result<(), Unusable>,
    ) -> Result<Timestamp, AcmeError> {
        let stored = self.stored_parts().await?;
        let key = stored.key.serialize_pem();
        // Noted first: an attempt that a restart cuts short counts as a failure.
        self.note(failures.saturating_add(1), self.wait(failures)).await?;
        // An order that never succeeds must not block others, whatever the authority says.
        if failures >= ORDER_TRIES {
            self.on_disk(AcmeFolder::forget_order).await?;
        }
        let obtaining = timeout(self.rules.attempt.timeout(), self.obtain(stored));
        let chain = obtaining.await.map_err(|_| AcmeError::Late)??;
        let pair = match Pair::from_pem(chain.as_bytes(), key.as_bytes()) {
            Ok(pair) => pair,
            Err(error) => {
                // The order may be for a key that was removed.
                self.on_disk(AcmeFolder::forget_order).await?;
                return Err(AcmeError::Unusable(error.into()));
            }
        };
        let kept = chain.clone();
        self.on_disk(move |settings| AcmeFolder::keep_chain(settings, &kept)).await?;
        install(chain.as_bytes(), key.as_bytes()).map_err(AcmeError::Unusable)?;
        let due = self.renewal(&pair);
        // The clock is wrong; without this, the authority would be asked again and again.
        if due <= self.clock.now() {
            return Err(AcmeError::Clock { from: pair.from(), until: pair.until() });
        }
        tracing::info!(
            acme.directory = %self.settings.directory,
            acme.renewal = %due,
            tls.until = %pair.until(),
            "new certificate by ACME"
        );
        Ok(due)
    }

    /// Returns when the part of the certificate's life in `renewal` of `acme.toml` is over.
    fn renewal(&self, pair: &Pair) -> Timestamp {
        let life = u64::try_from(pair.until().millis().saturating_sub(pair.from().millis()));
        let life = Duration::from_millis(life.unwrap_or(0));
        let rules = &self.rules.renewal;
        let early =
            life / 100 * rules.jitter_percent * u32::from(self.jitter()) / u32::from(u16::MAX);
        pair.from().plus(life / 100 * rules.after_percent).minus(early)
    }

    /// Waits by the wall clock, which dates certificates, but no longer than it takes from now on,
    /// in case that clock is set back.
    async fn until(&self, due: Timestamp) {
        let end = self.clock.steady_of(due);
        let ahead = |due: Timestamp, now: Timestamp| due.millis().saturating_sub(now.millis());
        while let Ok(left @ 1..) =
            u64::try_from(ahead(due, self.clock.now()).min(ahead(end, self.clock.steady())))
        {
            sleep(Duration::from_millis(left).min(self.rules.renewal.check())).await;
        }
    }

    fn jitter(&self) -> u16 {
        let [high, low, ..] = self.mint.secret();
        u16::from_be_bytes([high, low])
    }

    /// Does blocking work on the disk, on a thread for it.
    async fn on_disk<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Settings) -> Result<T, FolderError> + Send + 'static,
    ) -> Result<T, AcmeError> {
        let settings = self.settings.clone();
        let acted = tokio::task::spawn_blocking(move || act(&settings)).await;
        Ok(acted.map_err(|_| AcmeError::Stopped)??)
    }
}

#[cfg(test)]
mod tests;
