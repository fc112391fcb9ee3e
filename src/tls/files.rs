//! Certificate and key from files, which may be replaced at any time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use tokio::io::AsyncReadExt as _;
use tokio::sync::Mutex;
use tokio::time::{MissedTickBehavior, interval};

use crate::domain::clock::{Clock, Timestamp};
use crate::domain::domain_name::DomainName;

use super::certificates::Certificates;
use super::pair::{Pair, PairError};

/// No chain is nearly as long; a device that never ends is no chain either. Octets.
const MAX_FILE: u64 = 1 << 20;
/// How often an operator is reminded of a certificate that runs out.
const DAY: Duration = Duration::from_secs(86_400);

/// Where a chain and its key are, both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    pub chain: PathBuf,
    pub key: PathBuf,
}

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path} is larger than a certificate or a key can be")]
    TooLarge { path: PathBuf },
    #[error("certificate {} with key {}", .paths.chain.display(), .paths.key.display())]
    Pair { paths: Paths, source: PairError },
}

/// Files that are followed: what they hold is what new handshakes show.
#[derive(Debug)]
pub struct Files {
    paths: Paths,
    certificates: Certificates,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The hash of what was found at the last look, good or bad.
    seen: [u8; 32],
    /// When the operator was told last that the certificate runs out.
    reminded: Option<Timestamp>,
}

/// What a look at the files has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    Unchanged,
    Installed,
    /// They cannot be used: what was shown before is shown still.
    Refused,
}

impl Files {
    /// Reads the files, which must be usable. `host` is what clients know the server by, where that
    /// is known.
    pub async fn open(
        paths: Paths,
        host: Option<&DomainName>,
        clock: Clock,
    ) -> Result<Arc<Self>, FilesError> {
        let (chain, key) = paths.read().await?;
        let pair = Pair::from_pem(&chain, &key);
        let pair = pair.map_err(|source| FilesError::Pair { paths: paths.clone(), source })?;
        let state = State { seen: hash(&chain, &key), reminded: None };
        let certificates = Certificates::new(pair, host.cloned(), clock);
        Ok(Arc::new(Self { paths, certificates, state: Mutex::new(state) }))
    }

    /// What the files hold.
    pub const fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    /// Looks whether the files have changed, and installs what they hold then. `anew`: what could
    /// not be used the last time is tried and told again.
    pub async fn look(&self, anew: bool) -> Look {
        let mut state = self.state.lock().await;
        let found = self.paths.read().await;
        let seen = match &found {
            Ok((chain, key)) => hash(chain, key),
            Err(error) => hash(error.to_string().as_bytes(), &[]),
        };
        if seen == state.seen && !anew {
            return Look::Unchanged;
        }
        state.seen = seen;
        let installed = found.and_then(|(chain, key)| {
            let installed = self.certificates.install(&chain, &key);
            installed.map_err(|source| FilesError::Pair { paths: self.paths.clone(), source })
        });
        match installed {
            Ok(()) => {
                state.reminded = None;
                Look::Installed
            }
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the new certificate cannot be used; the old one stays in use until the files \
                     are put right"
                );
                Look::Refused
            }
        }
    }

    /// Looks `every` so often, and reminds the operator once a day of a certificate that expires
    /// within `warning`. Ends with `stop`.
    pub async fn follow(&self, every: Duration, warning: Duration, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = &mut stop => return,
            }
            self.look(false).await;
            self.remind(warning).await;
        }
    }

    async fn remind(&self, warning: Duration) {
        let (now, until) = (self.certificates.clock().now(), self.certificates.current().until());
        let mut state = self.state.lock().await;
        let told = state.reminded.is_some_and(|told| now < told.plus(DAY));
        if !told && now.plus(warning) > until {
            state.reminded = Some(now);
            tracing::warn!(
                path = %self.paths.chain.display(),
                tls.until = %until,
                "the certificate expires soon, or has expired: replace the file"
            );
        }
    }
}

impl Paths {
    async fn read(&self) -> Result<(Vec<u8>, Vec<u8>), FilesError> {
        Ok((read(&self.chain).await?, read(&self.key).await?))
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, FilesError> {
    let mut octets = Vec::new();
    let reading = async {
        let file = tokio::fs::File::open(path).await?;
        file.take(MAX_FILE + 1).read_to_end(&mut octets).await
    };
    match reading.await {
        Err(source) => Err(FilesError::Read { path: path.to_owned(), source }),
        Ok(read) if read as u64 > MAX_FILE => Err(FilesError::TooLarge { path: path.to_owned() }),
        Ok(_) => Ok(octets),
    }
}

fn hash(chain: &[u8], key: &[u8]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    context.update(&chain.len().to_be_bytes());
    context.update(chain);
    context.update(key);
    let mut octets = [0; 32];
    octets.copy_from_slice(context.finish().as_ref());
    octets
}
