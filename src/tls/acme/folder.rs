//! The folder: the key of all certificates, and for each directory an account and chains.
//!
//! ```text
//! folder/key.pem                            made once; used with every authority
//! folder/<directory>/account.json           with the key of the account
//! folder/<directory>/chain.pem              of the server's own name
//! folder/<directory>/order                  while it is open: the URL of the order, and its name
//! folder/<directory>/tried                  three numbers: last request, next one allowed (both in
//!                                           milliseconds), failures in a row
//! folder/<directory>/window                 of which certificate, when to ask for its window again,
//!                                           and the window with the moment in it
//! folder/<directory>/<name>/                chain, order, tried and window of another name
//! ```
//!
//! Only its owner can read a file. Each is written whole or not at all, durably.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rcgen::KeyPair;
use url::Url;

use crate::disk;
use crate::domain::clock::Timestamp;
use crate::domain::domain_name::DomainName;
use crate::domain::secret::Secret;
use crate::tls::pair::Pair;

use super::Settings;
use super::budget::HOUR;
use super::failure::AcmeError;

const KEY: &str = "key.pem";
const ACCOUNT: &str = "account.json";
const CHAIN: &str = "chain.pem";
const ORDER: &str = "order";
const TRIED: &str = "tried";
const WINDOW: &str = "window";
/// Most tries to read a folder whose key and chain are being replaced.
const LOOKS: u32 = 3;

/// Places of the files of one certificate, and of what it shares with others.
#[derive(Clone)]
pub(super) struct AcmeFolder {
    /// Has the key.
    root: PathBuf,
    /// Has the account.
    directory: PathBuf,
    certificate: PathBuf,
    name: DomainName,
}

/// Kept on disk, so that a restart does not ask again at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AttemptRecord {
    /// When the authority was asked last.
    pub(super) at: Timestamp,
    /// When it may be asked again.
    pub(super) not_before: Timestamp,
    pub(super) failures: u32,
}

impl AttemptRecord {
    /// Whether it still bounds requests: its wait is not over, or it is of the last hour.
    fn counts(&self, now: Timestamp) -> bool {
        self.not_before > now || self.at.plus(HOUR) > now
    }

    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace().map(str::parse::<i64>);
        let mut next = || numbers.next()?.ok();
        let (at, not_before, failures) = (next()?, next()?, next()?);
        let (at, not_before) = (Timestamp::from_millis(at), Timestamp::from_millis(not_before));
        Some(Self { at, not_before, failures: u32::try_from(failures).ok()? })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("cannot write {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot make a key")]
    Key(#[from] rcgen::Error),
    #[error("{path} is damaged")]
    Damaged { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
}

impl AcmeFolder {
    /// The folder for the certificate of this name.
    pub(super) fn of(settings: &Settings, name: &DomainName) -> Self {
        let root = settings.folder.clone();
        let directory = root.join(folder_of(&settings.directory));
        let certificate = match settings.names.first() == Some(name) {
            true => directory.clone(),
            false => directory.join(name.as_str()),
        };
        Self { root, directory, certificate, name: name.clone() }
    }

    /// Does blocking work on the disk, on a thread for it.
    pub(super) async fn on_disk<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Self) -> Result<T, FolderError> + Send + 'static,
    ) -> Result<T, AcmeError> {
        let folder = self.clone();
        let acted = tokio::task::spawn_blocking(move || act(&folder)).await;
        Ok(acted.map_err(|_| AcmeError::Stopped)??)
    }

    /// Reads the key of the certificates, or makes it.
    pub(super) fn key(&self) -> Result<KeyPair, FolderError> {
        let path = self.root.join(KEY);
        let text = match read(&path)? {
            Some(text) => text,
            None => {
                // Another process may make one at the same moment: the first one stays.
                write(&path, &KeyPair::generate()?.serialize_pem(), false)?;
                read(&path)?.unwrap_or_default()
            }
        };
        KeyPair::from_pem(&text)
            .map_err(|source| FolderError::Damaged { path, source: source.into() })
    }

    /// Returns the chain, PEM, the server's own certificate first; `None` if there is none yet.
    pub(super) fn chain(&self) -> Result<Option<String>, FolderError> {
        read(&self.certificate.join(CHAIN))
    }

    /// Stores the chain, then forgets its order.
    pub(super) fn keep_chain(&self, chain: &str) -> Result<(), FolderError> {
        self.write(CHAIN, chain)?;
        self.forget_order()
    }

    /// Returns the last attempt; `None` if there was none, or its file is damaged.
    pub(super) fn tried(&self) -> Result<Option<AttemptRecord>, FolderError> {
        let text = read(&self.certificate.join(TRIED))?;
        Ok(text.as_deref().and_then(AttemptRecord::parse))
    }

    pub(super) fn note(&self, tried: AttemptRecord) -> Result<(), FolderError> {
        let (at, not_before) = (tried.at.millis(), tried.not_before.millis());
        self.write(TRIED, &format!("{at} {not_before} {}", tried.failures))
    }

    /// Returns what the authority suggested last for a renewal, as it was kept.
    pub(super) fn window(&self) -> Result<Option<String>, FolderError> {
        read(&self.certificate.join(WINDOW))
    }

    pub(super) fn keep_window(&self, text: &str) -> Result<(), FolderError> {
        self.write(WINDOW, text)
    }

    /// Returns the URL of an open order for this name alone.
    pub(super) fn order(&self) -> Result<Option<String>, FolderError> {
        let Some(text) = read(&self.certificate.join(ORDER))? else { return Ok(None) };
        let mut words = text.split_whitespace();
        let url = words.next().map(str::to_owned);
        Ok(url.filter(|_| words.eq([self.name.as_str()])))
    }

    pub(super) fn keep_order(&self, url: &str) -> Result<(), FolderError> {
        self.write(ORDER, &format!("{url} {}", self.name))
    }

    pub(super) fn forget_order(&self) -> Result<(), FolderError> {
        self.forget(ORDER)
    }

    pub(super) fn forget_chain(&self) -> Result<(), FolderError> {
        self.forget(CHAIN)
    }

    fn forget(&self, file: &str) -> Result<(), FolderError> {
        let path = self.certificate.join(file);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(FolderError::Write { path, source })
            }
            _ => Ok(()),
        }
    }

    /// Returns the account as JSON; `None` if there is none yet.
    pub(super) fn account(&self) -> Result<Option<String>, FolderError> {
        read(&self.directory.join(ACCOUNT))
    }

    pub(super) fn keep_account(&self, json: &str) -> Result<(), FolderError> {
        write(&self.directory.join(ACCOUNT), json, true)
    }

    pub(super) fn damaged_account(&self, source: serde_json::Error) -> FolderError {
        FolderError::Damaged { path: self.directory.join(ACCOUNT), source: source.into() }
    }

    fn write(&self, file: &str, text: &str) -> Result<(), FolderError> {
        write(&self.certificate.join(file), text, true)
    }
}

/// Returns all files in `folder` but open orders, by their names in it. Leaves out a chain that
/// does not fit the key: it is of no use, and the next attempt gets another one.
pub(in crate::tls) fn all(folder: &Path) -> Result<Vec<(PathBuf, Secret)>, FolderError> {
    for _ in 1..LOOKS {
        if let (files, true) = look(folder)? {
            return Ok(files);
        }
    }
    Ok(look(folder)?.0)
}

/// Reads the files, and whether all chains fit the key; leaves out those that do not.
fn look(folder: &Path) -> Result<(Vec<(PathBuf, Secret)>, bool), FolderError> {
    let key = read(&folder.join(KEY))?;
    let is_of_key = |chain: &str| {
        let key = key.as_deref().unwrap_or_default();
        Pair::from_pem(chain.as_bytes(), key.as_bytes()).is_ok()
    };
    let (mut files, mut matches) = (Vec::new(), true);
    for directory in folders(folder, Path::new(""))? {
        for of_name in [vec![directory.clone()], folders(folder, &directory)?].concat() {
            for name in [ACCOUNT, CHAIN, TRIED, WINDOW] {
                let name = of_name.join(name);
                let Some(text) = read(&folder.join(&name))? else { continue };
                if name.ends_with(CHAIN) && !is_of_key(&text) {
                    matches = false;
                } else {
                    files.push((name, Secret::new(text)));
                }
            }
        }
    }
    files.extend(key.map(|key| (KEY.into(), Secret::new(key))));
    Ok((files, matches))
}

/// Returns the stored certificates, by their names; makes and repairs nothing.
pub fn stored(settings: &Settings) -> Result<Vec<(DomainName, Pair)>, FolderError> {
    let key = read(&settings.folder.join(KEY))?.unwrap_or_default();
    let further = further_names(settings)?;
    let names =
        settings.names.iter().chain(further.iter().filter(|name| !settings.names.contains(name)));
    let mut found = Vec::new();
    for name in names {
        let chain = AcmeFolder::of(settings, name).chain()?.unwrap_or_default();
        let pair = Pair::from_pem(chain.as_bytes(), key.as_bytes());
        found.extend(pair.ok().map(|pair| (name.clone(), pair)));
    }
    Ok(found)
}

/// Returns the names that have folders.
fn further_names(settings: &Settings) -> Result<Vec<DomainName>, FolderError> {
    let found = folders(&settings.folder, Path::new(&folder_of(&settings.directory)))?;
    let names = found.iter().filter_map(|folder| folder.file_name()?.to_str());
    Ok(names.filter_map(|name| DomainName::kept(name).ok()).collect())
}

/// Returns when the authority was asked last for each of the further names that `is_meant` tells.
pub(super) fn attempts(
    settings: &Settings,
    is_meant: impl Fn(&DomainName) -> bool,
) -> Result<Vec<Timestamp>, FolderError> {
    let mut attempts = Vec::new();
    for name in further_names(settings)?.iter().filter(|name| is_meant(name)) {
        attempts.extend(AcmeFolder::of(settings, name).tried()?.map(|tried| tried.at));
    }
    Ok(attempts)
}

/// Removes the folders of the further names that `is_over` tells, but for waits that are not over
/// `now`: who removes a domain and adds it again has the authority asked no sooner.
pub(super) fn remove(
    settings: &Settings,
    now: Timestamp,
    is_over: impl Fn(&DomainName) -> bool,
) -> Result<(), FolderError> {
    for name in further_names(settings)?.iter().filter(|name| is_over(name)) {
        let folder = AcmeFolder::of(settings, name);
        let waits = folder.tried()?.is_some_and(|tried| tried.counts(now));
        if waits {
            [CHAIN, ORDER, WINDOW].into_iter().try_for_each(|file| folder.forget(file))?;
        } else {
            let path = folder.certificate;
            fs::remove_dir_all(&path).map_err(|source| FolderError::Write { path, source })?;
        }
    }
    Ok(())
}

/// Returns the folders of ours in `within`, by their names in `folder`: one for each directory of an
/// authority, and in it one for each further name.
fn folders(folder: &Path, within: &Path) -> Result<Vec<PathBuf>, FolderError> {
    let path = folder.join(within);
    let fail = |source| FolderError::Read { path: path.clone(), source };
    let entries = match fs::read_dir(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(fail)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name();
        let is_ours =
            name.to_str().is_some_and(|name| name.chars().all(|c| is_plain(c) || c == '_'));
        if is_ours && entry.path().is_dir() {
            names.push(within.join(name));
        }
    }
    names.sort();
    Ok(names)
}

/// The name of a directory's subfolder: `acme-v02.api.letsencrypt.org_directory`.
fn folder_of(directory: &Url) -> String {
    let text = directory.as_str();
    let text = text.split_once("://").map_or(text, |(_, rest)| rest);
    text.trim_end_matches('/').chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

/// Characters that stay in such a name.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '.' || c == '-'
}

pub(in crate::tls) fn read(path: &Path) -> Result<Option<String>, FolderError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(FolderError::Read { path: path.to_owned(), source }),
    }
}

/// Writes a file. An existing one stays unless `replace` is true.
fn write(path: &Path, text: &str, replace: bool) -> Result<(), FolderError> {
    let put = || -> io::Result<()> {
        disk::make_folder(path.parent().unwrap_or(Path::new("")))?;
        match replace {
            true => disk::replace(path, text.as_bytes()),
            false => disk::write_first(path, text.as_bytes()).map(drop),
        }
    };
    put().map_err(|source| FolderError::Write { path: path.to_owned(), source })
}
