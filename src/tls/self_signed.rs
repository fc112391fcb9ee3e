//! A self-signed certificate, for development and until there is another one. Senders of mail
//! encrypt with it, because they do not verify (RFC 7435). Clients that verify do not connect.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair};

use crate::disk;
use crate::domain::domain_name::DomainName;

use super::pair::{Pair, PairError};

/// The key, then the certificate, in one file: they cannot come apart.
pub(super) const FILE: &str = "self-signed.pem";

#[derive(Debug, thiserror::Error)]
pub enum SelfSignedError {
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
    #[error("cannot use the certificate that was just made")]
    Unusable(#[from] PairError),
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write a certificate to {path}")]
    Keep { path: PathBuf, source: io::Error },
    #[error(
        "{path} is damaged: remove the file, and the server makes a new certificate with a new key"
    )]
    Damaged { path: PathBuf, source: Damage },
}

/// A fault of the file.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    #[error(transparent)]
    Pair(#[from] PairError),
    #[error("cannot use its key")]
    Key(#[from] rcgen::Error),
}

/// Reads the certificate in `folder`, or makes it the first time. The key outlives restarts and
/// changes of the host's name, so a TLSA record of it stays true. Only its owner can read the file.
pub fn load_or_make(folder: &Path, host: &DomainName) -> Result<Pair, SelfSignedError> {
    let path = folder.join(FILE);
    let keep = |source| SelfSignedError::Keep { path: path.clone(), source };
    let (text, pair) = match read(folder)? {
        Some(read) => read,
        None => {
            let (_, text) = make(&KeyPair::generate()?, host)?;
            // Another process may make one at the same moment: the first one stays.
            disk::make_folder(folder).map_err(keep)?;
            disk::write_first(&path, text.as_bytes()).map_err(keep)?;
            read(folder)?.ok_or_else(|| keep(io::ErrorKind::NotFound.into()))?
        }
    };
    if pair.names(host) {
        return Ok(pair);
    }
    let damaged = |source: rcgen::Error| SelfSignedError::Damaged {
        path: path.clone(),
        source: source.into(),
    };
    let key = KeyPair::from_pem(&text).map_err(damaged)?;
    let (pair, text) = make(&key, host)?;
    disk::replace(&path, text.as_bytes()).map_err(keep)?;
    Ok(pair)
}

/// Reads the certificate in `folder`, whatever its name; None before a server has made it.
pub fn load(folder: &Path) -> Result<Option<Pair>, SelfSignedError> {
    Ok(read(folder)?.map(|(_, pair)| pair))
}

/// Reads the file, if there is one, and the certificate in it.
fn read(folder: &Path) -> Result<Option<(String, Pair)>, SelfSignedError> {
    let path = folder.join(FILE);
    let text = match fs::read(&path) {
        // Bytes that are no text are neither a key nor a certificate.
        Ok(octets) => String::from_utf8_lossy(&octets).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(SelfSignedError::Read { path, source }),
    };
    match Pair::from_pem(text.as_bytes(), text.as_bytes()) {
        Ok(pair) => Ok(Some((text, pair))),
        Err(error) => Err(SelfSignedError::Damaged { path, source: error.into() }),
    }
}

/// Makes a certificate with a key that lasts as long as the process.
pub fn make_temporary(host: &DomainName) -> Result<Pair, SelfSignedError> {
    Ok(make(&KeyPair::generate()?, host)?.0)
}

/// Never expires: nobody can verify it, so expiry would gain nothing.
fn make(key: &KeyPair, host: &DomainName) -> Result<(Pair, String), SelfSignedError> {
    let mut parameters = CertificateParams::new(vec![host.as_str().to_owned()])?;
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, "Gatepost, self-signed");
    parameters.distinguished_name = name;
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = parameters.self_signed(key)?;
    let text = format!("{}{}", key.serialize_pem(), certificate.pem());
    Ok((Pair::from_pem(text.as_bytes(), text.as_bytes())?, text))
}
