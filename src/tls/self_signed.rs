//! A certificate of our own, for development and until there is another one: senders of mail
//! encrypt by it, because they do not verify (RFC 7435); who verifies does not connect.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair};

use crate::domain::domain_name::DomainName;

use super::pair::{Pair, PairError};

/// The key, then the certificate, in one file: they cannot come apart.
pub(super) const FILE: &str = "self-signed.pem";

/// Why there is no certificate of our own.
#[derive(Debug, thiserror::Error)]
pub enum SelfSignedError {
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
    #[error("cannot keep a certificate in {path}")]
    Keep { path: PathBuf, source: io::Error },
    #[error("{path} is damaged: remove it, and a new certificate with a new key is made")]
    Damaged { path: PathBuf, source: Damage },
}

/// What is wrong with the file.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    #[error(transparent)]
    Pair(#[from] PairError),
    #[error("its key cannot be used")]
    Key(#[from] rcgen::Error),
}

/// The certificate kept in `folder`, made there the first time. Its key stays over restarts and
/// changes of the host's name, so that a TLSA record of it stays true. Only its owner can read it.
pub fn kept(folder: &Path, host: &DomainName) -> Result<Pair, SelfSignedError> {
    let path = folder.join(FILE);
    let keep = |source| SelfSignedError::Keep { path: path.clone(), source };
    let damaged = |source| SelfSignedError::Damaged { path: path.clone(), source };
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let (_, text) = make(&KeyPair::generate()?, host)?;
            // Who starts at the same moment makes one too: whichever is there first is kept.
            write(folder, &path, &text, false).map_err(keep)?;
            fs::read_to_string(&path).map_err(keep)?
        }
        Err(error) => return Err(keep(error)),
    };
    let pair = Pair::from_pem(text.as_bytes(), text.as_bytes());
    let pair = pair.map_err(|error| damaged(error.into()))?;
    if pair.names(host) {
        return Ok(pair);
    }
    let key = KeyPair::from_pem(&text).map_err(|error| damaged(error.into()))?;
    let (pair, text) = make(&key, host)?;
    write(folder, &path, &text, true).map_err(keep)?;
    Ok(pair)
}

/// A certificate with a key that lasts as long as the process.
pub fn passing(host: &DomainName) -> Result<Pair, SelfSignedError> {
    Ok(make(&KeyPair::generate()?, host)?.0)
}

/// Valid for ever: one that nobody can verify gains nothing by running out.
fn make(key: &KeyPair, host: &DomainName) -> Result<(Pair, String), SelfSignedError> {
    let mut parameters = CertificateParams::new(vec![host.as_str().to_owned()])?;
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, "Gatepost, self-signed");
    parameters.distinguished_name = name;
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = parameters.self_signed(key)?;
    let text = format!("{}{}", key.serialize_pem(), certificate.pem());
    let pair = Pair::from_pem(text.as_bytes(), text.as_bytes());
    // What was made here is always whole.
    let pair = pair.map_err(|_| rcgen::Error::CouldNotParseCertificate)?;
    Ok((pair, text))
}

/// Writes the file whole or not at all, durably, for its owner only. A file that is there stays,
/// unless it is to be replaced.
fn write(folder: &Path, path: &Path, text: &str, replace: bool) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Its mode is 0600 from the beginning.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    let put = if replace { file.persist(path) } else { file.persist_noclobber(path) };
    match put {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
        _ => File::open(folder)?.sync_all(),
    }
}
