//! Certificates from an authority, by ACME (RFC 8555): asked for, kept, renewed in time.
//!
//! The authority proves that a name is ours by fetching a token from port 80 of it (HTTP-01, RFC
//! 8555 §8.3): [`challenges`] answers there, and nothing else. [`order`] is one attempt, [`kept`]
//! the folder in which the account, the key and the chain lie, so that a restart asks for nothing;
//! [`transport`] takes the requests out through `egress`. The key of the certificate is made once
//! and stays: a TLSA record of it (RFC 7672 §3.1.1) outlives every renewal.
//!
//! What never happens here: an authority is asked again at once, or mail waits for it. As long as
//! there is no certificate by ACME, the server shows the one that it has.

mod challenges;
mod failure;
mod kept;
mod order;
mod transport;

use std::fmt::Display;
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
use challenges::Challenges;
use failure::AcmeError;
use kept::Kept;
use transport::Transport;

/// From whom, for which names, and where what comes is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The authority's directory (RFC 8555 §7.1.1), https.
    pub directory: Url,
    /// How the authority reaches the operator: `mailto:…`. Said when the account is made.
    pub contact: Vec<String>,
    /// What the certificate is for; at least one name.
    pub names: Vec<DomainName>,
    /// Where the authority's look at port 80 arrives.
    pub http: SocketAddr,
    /// Of this gateway alone.
    pub folder: PathBuf,
    /// Root certificates that the directory's server is verified by, beside the system's; PEM.
    pub ca_file: Option<PathBuf>,
}

/// Obtains certificates.
pub struct Acme {
    work: Work,
    listener: TcpListener,
    /// When the authority is to be asked.
    due: Timestamp,
}

/// Bounds of one request to the authority.
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
    /// Listens for the authority; nothing is asked yet. `client` reaches the directory.
    pub async fn bind(
        settings: Settings,
        rules: Arc<AcmeRules>,
        client: Client,
        mint: Mint,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(settings.http).await?;
        let (challenges, transport) = (Challenges::default(), Transport::new(client));
        let clock = mint.clock().clone();
        let due = clock.now();
        let work = Work { settings, rules, challenges, transport, clock, mint };
        Ok(Self { work, listener, due })
    }

    /// Where it listens for the authority.
    pub fn http(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Hands the certificate that is kept, where there is one, to `install`: the chain, then the
    /// key, both PEM.
    pub async fn show_kept<E: Display>(&mut self, install: impl Fn(&[u8], &[u8]) -> Result<(), E>) {
        self.due = self.work.begin(&in_words(install)).await;
    }

    /// Hands every new certificate to `install` in the same way. Ends with the soft stop.
    pub async fn run<E: Display>(
        self,
        install: impl Fn(&[u8], &[u8]) -> Result<(), E>,
        shutdown: Shutdown,
    ) {
        let Self { work, listener, due } = self;
        let (challenges, bounds) = (work.challenges.clone(), work.rules.challenges.clone());
        shutdown.spawn(challenges.serve(listener, bounds, shutdown.clone()));
        tokio::select! {
            () = work.go_on(due, in_words(install)) => {}
            () = shutdown.soft() => {}
        }
    }
}

fn in_words<E: Display>(
    install: impl Fn(&[u8], &[u8]) -> Result<(), E>,
) -> impl Fn(&[u8], &[u8]) -> Result<(), String> {
    move |chain, key| install(chain, key).map_err(|error| error.to_string())
}

struct Work {
    settings: Settings,
    rules: Arc<AcmeRules>,
    challenges: Challenges,
    transport: Transport,
    clock: Clock,
    mint: Mint,
}

impl Work {
    async fn go_on(
        &self,
        mut due: Timestamp,
        install: impl Fn(&[u8], &[u8]) -> Result<(), String>,
    ) {
        let mut failures = 0;
        loop {
            self.until(due).await;
            match self.attempt(&install).await {
                Ok(next) => {
                    // However short its life is.
                    due = next.max(self.clock.now().plus(self.wait(0)));
                    failures = 0;
                }
                Err(error) => {
                    // A clock is not mended by asking again.
                    let is_clock = matches!(error, AcmeError::Clock { .. });
                    let wait = self.wait(if is_clock { u32::MAX } else { failures });
                    failures = failures.saturating_add(1);
                    due = self.clock.now();
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        advice = error.advice(),
                        acme.directory = %self.settings.directory,
                        retry.seconds = wait.as_secs(),
                        "no certificate by ACME; what is in use stays in use"
                    );
                    sleep(wait).await;
                }
            }
        }
    }

    /// How long to wait after so many failures, and one more.
    fn wait(&self, failures: u32) -> Duration {
        let (schedule, waits) = self.rules.retries.schedule();
        let asked = self.transport.asked_to_wait();
        let failures = failures.min(waits.saturating_sub(1));
        schedule.wait(failures, asked, self.luck()).unwrap_or_default()
    }

    /// Installs what is kept; answers when the authority is to be asked.
    async fn begin(&self, install: &impl Fn(&[u8], &[u8]) -> Result<(), String>) -> Timestamp {
        let now = self.clock.now();
        // What is wrong with the folder, the attempt says.
        let Ok(kept) = self.on_disk(Kept::open).await else { return now };
        let tried = kept.tried.filter(|tried| *tried <= now);
        let soonest = tried.map_or(now, |tried| tried.plus(self.wait(0)));
        let Some(chain) = kept.chain else { return soonest };
        let (chain, key) = (chain.as_bytes(), kept.key.as_bytes());
        let pair = Pair::from_pem(chain, key).map_err(|error| error.to_string());
        // One that has expired, too: it encrypts, and DANE does not look (RFC 7672 §3.1.1).
        match pair.and_then(|pair| install(chain, key).map(|()| pair)) {
            Ok(pair) if self.settings.names.iter().all(|name| pair.names(name)) => {
                self.renewal(&pair).max(soonest)
            }
            Ok(_) => soonest,
            Err(error) => {
                tracing::warn!(error, "the certificate that is kept cannot be used; asking anew");
                soonest
            }
        }
    }

    /// Obtains a certificate, keeps and installs it; answers when it is to be renewed.
    async fn attempt(
        &self,
        install: &impl Fn(&[u8], &[u8]) -> Result<(), String>,
    ) -> Result<Timestamp, AcmeError> {
        let now = self.clock.now();
        self.on_disk(move |settings| Kept::note_attempt(settings, now)).await?;
        let obtaining = timeout(self.rules.attempt.timeout(), self.obtain());
        let (chain, key) = obtaining.await.map_err(|_| AcmeError::Late)??;
        let pair = Pair::from_pem(chain.as_bytes(), key.as_bytes());
        let pair = pair.map_err(|error| AcmeError::Unusable(error.to_string()))?;
        let kept = chain.clone();
        self.on_disk(move |settings| Kept::keep_chain(settings, &kept)).await?;
        install(chain.as_bytes(), key.as_bytes()).map_err(AcmeError::Unusable)?;
        let due = self.renewal(&pair);
        // The clock is wrong, and the authority would be asked again and again.
        if due <= self.clock.now() {
            return Err(AcmeError::Clock { from: pair.from(), until: pair.until() });
        }
        tracing::info!(
            acme.directory = %self.settings.directory,
            acme.renewal = %due,
            tls.until = %pair.until(),
            "certificate by ACME"
        );
        Ok(due)
    }

    /// When a part of the certificate's life is over.
    fn renewal(&self, pair: &Pair) -> Timestamp {
        let life = u64::try_from(pair.until().millis().saturating_sub(pair.from().millis()));
        let life = Duration::from_millis(life.unwrap_or(0));
        let rules = &self.rules.renewal;
        let early =
            life / 100 * rules.jitter_percent * u32::from(self.luck()) / u32::from(u16::MAX);
        pair.from().plus(life / 100 * rules.after_percent).minus(early)
    }

    async fn until(&self, due: Timestamp) {
        while let Ok(left @ 1..) =
            u64::try_from(due.millis().saturating_sub(self.clock.now().millis()))
        {
            sleep(Duration::from_millis(left).min(self.rules.renewal.check())).await;
        }
    }

    fn luck(&self) -> u16 {
        let [high, low, ..] = self.mint.secret();
        u16::from_be_bytes([high, low])
    }

    /// Does what waits for the disk where it holds up nobody.
    async fn on_disk<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Settings) -> Result<T, kept::KeptError> + Send + 'static,
    ) -> Result<T, AcmeError> {
        let settings = self.settings.clone();
        let acted = tokio::task::spawn_blocking(move || act(&settings)).await;
        Ok(acted.map_err(|_| AcmeError::Stopped)??)
    }
}

#[cfg(test)]
mod tests;
