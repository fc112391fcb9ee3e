//! A certificate and key in files, which an operator may replace at any time.

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

/// In bytes: no chain is nearly as long, and a device may never end.
const MAX_FILE: u64 = 1 << 20;
/// Time between two reminders of a certificate that expires soon.
const DAY: Duration = Duration::from_secs(86_400);

/// The paths of a chain and its key, both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    pub chain: PathBuf,
    pub key: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path} is too large for a certificate or a key")]
    TooLarge { path: PathBuf },
    #[error("cannot use certificate {} with key {}", .paths.chain.display(), .paths.key.display())]
    Pair { paths: Paths, source: PairError },
}

/// Files that are followed: new handshakes show their pair.
#[derive(Debug)]
pub struct Files {
    paths: Paths,
    certificates: Certificates,
    state: Mutex<State>,
}

/// Locked while files are read, so that a reload waits for the one before.
#[derive(Debug)]
struct State {
    /// The hash of the last contents, usable or not.
    seen: [u8; 32],
    /// When the operator was last reminded.
    reminded: Option<Timestamp>,
}

/// How a reload ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileReload {
    Unchanged,
    Installed,
    /// The files cannot be used: the pair in use stays.
    Refused,
}

impl Files {
    /// Reads the files, which must be usable. `host` is the server's name for clients, if known.
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

    pub const fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    /// Installs the pair if the files have changed. With `anew`, also tries unchanged files again,
    /// and reports their error again.
    pub async fn reload(&self, anew: bool) -> FileReload {
        let mut state = self.state.lock().await;
        let found = self.paths.read().await;
        let seen = match &found {
            Ok((chain, key)) => hash(chain, key),
            Err(error) => hash(error.to_string().as_bytes(), &[]),
        };
        if seen == state.seen && !anew {
            return FileReload::Unchanged;
        }
        state.seen = seen;
        let installed = found.and_then(|(chain, key)| {
            let installed = self.certificates.install(&chain, &key);
            installed.map_err(|source| FilesError::Pair { paths: self.paths.clone(), source })
        });
        match installed {
            Ok(()) => {
                state.reminded = None;
                FileReload::Installed
            }
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "cannot use the new certificate: the old one stays in use until you correct \
                     the files"
                );
                FileReload::Refused
            }
        }
    }

    /// Looks at the files at intervals until `stop`, and reminds the operator once a day of a
    /// certificate that expires within `warning`.
    pub async fn follow(&self, every: Duration, warning: Duration, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = &mut stop => return,
            }
            self.reload(false).await;
            self.remind(warning).await;
        }
    }

    async fn remind(&self, warning: Duration) {
        let (now, until) = (self.certificates.clock().now(), self.certificates.current().until());
        let mut state = self.state.lock().await;
        let is_reminded = state.reminded.is_some_and(|at| now < at.plus(DAY));
        if !is_reminded && now.plus(warning) > until {
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
