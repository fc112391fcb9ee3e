//! Errors at startup, with the setting that caused each and the remedy.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::cli::Failure;
use crate::run::{RunError, Settings};
use crate::tls::FilesError;

/// Ports below this one need a privilege, unless the system is configured otherwise.
const PRIVILEGED: u16 = 1024;

/// An address that cannot be listened on: why, and what to do.
pub(in crate::cli) struct Unbound {
    pub(in crate::cli) detail: String,
    pub(in crate::cli) advice: String,
}

/// Settings that a startup error can be about, with their flags.
pub(in crate::cli) struct NamedSettings {
    addresses: Vec<(&'static str, SocketAddr)>,
    files: [(&'static str, Option<PathBuf>); 4],
}

impl NamedSettings {
    pub(in crate::cli) fn of(settings: &Settings) -> Self {
        let tls = &settings.tls;
        let (smtp, http) = (tls.smtp.as_ref(), tls.http.as_ref());
        Self {
            addresses: settings.listeners().map(|(_, flag, address)| (flag, address)).collect(),
            files: [
                ("--smtp-tls-cert", smtp.map(|paths| paths.chain.clone())),
                ("--smtp-tls-key", smtp.map(|paths| paths.key.clone())),
                ("--http-tls-cert", http.map(|paths| paths.chain.clone())),
                ("--http-tls-key", http.map(|paths| paths.key.clone())),
            ],
        }
    }

    pub(in crate::cli) fn explain(&self, error: RunError) -> Failure {
        match &error {
            RunError::Listen { address, source } => {
                let explained = self.explain_listening(*address, source);
                explained.map(|Unbound { detail, advice }| format!("{detail}: {advice}"))
            }
            RunError::Certificate(FilesError::Read { path, source }) => {
                self.explain_reading(path, source)
            }
            _ => None,
        }
        .map_or_else(|| error.into(), Into::into)
    }

    pub(in crate::cli) fn explain_listening(
        &self,
        address: SocketAddr,
        source: &io::Error,
    ) -> Option<Unbound> {
        let (flag, _) = self.addresses.iter().find(|(_, one)| *one == address)?;
        let elsewhere = SocketAddr::new(address.ip(), unprivileged(flag));
        match source.kind() {
            io::ErrorKind::PermissionDenied if address.port() < PRIVILEGED => Some(Unbound {
                detail: format!("cannot listen on {address}: permission denied"),
                advice: format!(
                    "a port below {PRIVILEGED} needs CAP_NET_BIND_SERVICE, or systemd to open it \
                     (docs/service.md); or choose {flag} {elsewhere}"
                ),
            }),
            io::ErrorKind::AddrInUse => Some(Unbound {
                detail: format!("cannot listen on {address}: another program listens there"),
                advice: format!("stop that program, or choose another {flag}"),
            }),
            _ => None,
        }
    }

    fn explain_reading(&self, path: &Path, source: &io::Error) -> Option<String> {
        let (flag, _) = self.files.iter().find(|(_, one)| one.as_deref() == Some(path))?;
        let why = match source.kind() {
            io::ErrorKind::NotFound => "no such file".to_owned(),
            io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => source.to_string(),
        };
        Some(format!("{flag}: cannot read {}: {why}", path.display()))
    }
}

/// A port that the listener of this flag may have without a privilege.
fn unprivileged(flag: &str) -> u16 {
    match flag {
        "--smtp" => 2525,
        "--smtps" => 4465,
        "--metrics" => 9464,
        "--acme-http" => 8081,
        _ => 8080,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_the_privileged_is_explained() {
        let (address, metrics) = (SocketAddr::from(([0, 0, 0, 0], 25)), "127.0.0.1:94");
        let metrics = metrics.parse().unwrap();
        let named = NamedSettings {
            addresses: vec![("--smtp", address), ("--metrics", metrics)],
            files: [
                ("--smtp-tls-cert", None),
                ("--smtp-tls-key", None),
                ("--http-tls-cert", None),
                ("--http-tls-key", None),
            ],
        };
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let said = named.explain(RunError::Listen { address, source: denied }).to_string();
        assert!(said.starts_with("cannot listen on 0.0.0.0:25: permission denied"), "{said}");
        assert!(said.contains("CAP_NET_BIND_SERVICE, or systemd"), "{said}");
        assert!(said.ends_with("or choose --smtp 0.0.0.0:2525"), "{said}");
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let said = named.explain_listening(metrics, &denied).unwrap().advice;
        assert!(said.ends_with("or choose --metrics 127.0.0.1:9464"), "{said}");
    }
}
