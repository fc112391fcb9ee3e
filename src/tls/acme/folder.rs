//! The folder: the key of the certificate, and for each directory an account and a chain.
//!
//! ```text
//! folder/key.pem                            made once; used with every authority
//! folder/<directory>/account.json           with the key of the account
//! folder/<directory>/chain.pem
//! folder/<directory>/order                  while it is open: the URL of the order, and its names
//! folder/<directory>/tried                  three numbers: last request, next one allowed (both in
//!                                           milliseconds), failures in a row
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

const KEY: &str = "key.pem";
const ACCOUNT: &str = "account.json";
const CHAIN: &str = "chain.pem";
const ORDER: &str = "order";
const TRIED: &str = "tried";
/// Most tries to read a folder whose key and chain are being replaced.
const LOOKS: u32 = 3;

/// The key and the chain in the folder.
pub(super) struct AcmeFolder {
    /// PEM.
    pub(super) key: String,
    /// PEM, with the server's own certificate first.
    pub(super) chain: Option<String>,
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
    /// Reads the folder; makes the key the first time.
    pub(super) fn open(settings: &Settings) -> Result<Self, FolderError> {
        let key = key(settings)?.serialize_pem();
        Ok(Self { key, chain: read(&place(settings, CHAIN))? })
    }

    /// Returns the last attempt; `None` if there was none, or its file is damaged.
    pub(super) fn tried(settings: &Settings) -> Result<Option<AttemptRecord>, FolderError> {
        let text = read(&place(settings, TRIED))?;
        Ok(text.as_deref().and_then(AttemptRecord::parse))
    }

    pub(super) fn note(settings: &Settings, tried: AttemptRecord) -> Result<(), FolderError> {
        let (at, not_before) = (tried.at.millis(), tried.not_before.millis());
        let text = format!("{at} {not_before} {}", tried.failures);
        write(&place(settings, TRIED), &text, true)
    }

    /// Stores the chain, then forgets its order.
    pub(super) fn keep_chain(settings: &Settings, chain: &str) -> Result<(), FolderError> {
        write(&place(settings, CHAIN), chain, true)?;
        Self::forget_order(settings)
    }

    /// Returns the URL of an open order for the names of these settings.
    pub(super) fn order(settings: &Settings) -> Result<Option<String>, FolderError> {
        let Some(text) = read(&place(settings, ORDER))? else { return Ok(None) };
        let mut words = text.split_whitespace();
        let url = words.next().map(str::to_owned);
        Ok(url.filter(|_| words.eq(settings.names.iter().map(DomainName::as_str))))
    }

    pub(super) fn keep_order(settings: &Settings, url: &str) -> Result<(), FolderError> {
        let names = settings.names.iter().map(DomainName::as_str);
        let words: Vec<&str> = std::iter::once(url).chain(names).collect();
        write(&place(settings, ORDER), &words.join(" "), true)
    }

    pub(super) fn forget_order(settings: &Settings) -> Result<(), FolderError> {
        remove(place(settings, ORDER))
    }

    /// Returns the account as JSON; `None` if there is none yet.
    pub(super) fn account(settings: &Settings) -> Result<Option<String>, FolderError> {
        read(&place(settings, ACCOUNT))
    }

    pub(super) fn keep_account(settings: &Settings, json: &str) -> Result<(), FolderError> {
        write(&place(settings, ACCOUNT), json, true)
    }

    /// Removes an account that the authority does not know any more.
    pub(super) fn forget_account(settings: &Settings) -> Result<(), FolderError> {
        remove(place(settings, ACCOUNT))
    }

    pub(super) fn account_path(settings: &Settings) -> PathBuf {
        place(settings, ACCOUNT)
    }
}

/// Reads the key of the certificate, or makes it.
pub(super) fn key(settings: &Settings) -> Result<KeyPair, FolderError> {
    let path = settings.folder.join(KEY);
    let text = match read(&path)? {
        Some(text) => text,
        None => {
            // Another process may make one at the same moment: the first one stays.
            write(&path, &KeyPair::generate()?.serialize_pem(), false)?;
            read(&path)?.unwrap_or_default()
        }
    };
    KeyPair::from_pem(&text).map_err(|source| FolderError::Damaged { path, source: source.into() })
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
    for directory in directories(folder)? {
        for name in [ACCOUNT, CHAIN, TRIED] {
            let name = directory.join(name);
            let Some(text) = read(&folder.join(&name))? else { continue };
            if name.ends_with(CHAIN) && !is_of_key(&text) {
                matches = false;
            } else {
                files.push((name, Secret::new(text)));
            }
        }
    }
    files.extend(key.map(|key| (KEY.into(), Secret::new(key))));
    Ok((files, matches))
}

/// Returns the names of the subfolders, one for each directory of an authority.
fn directories(folder: &Path) -> Result<Vec<PathBuf>, FolderError> {
    let fail = |source| FolderError::Read { path: folder.to_owned(), source };
    let entries = match fs::read_dir(folder) {
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
            names.push(name.into());
        }
    }
    names.sort();
    Ok(names)
}

fn place(settings: &Settings, file: &str) -> PathBuf {
    settings.folder.join(folder_of(&settings.directory)).join(file)
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

fn remove(path: PathBuf) -> Result<(), FolderError> {
    match fs::remove_file(&path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(FolderError::Write { path, source })
        }
        _ => Ok(()),
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
