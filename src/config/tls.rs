//! Certificates and their keys: the section `[tls]`.

use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;

use super::ConfigError;

/// A certificate chain and its key, both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    pub chain: PathBuf,
    pub key: PathBuf,
}

/// Files in PEM form. Absent ones: mail is taken in with a self-signed certificate, the API is
/// served in clear.
#[derive(Args, Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TlsOptions {
    /// The certificate chain for SMTP, PEM [default: a self-signed one]; read again on SIGHUP and
    /// when it changes
    #[arg(long = "smtp-tls-cert", env = "GATEPOST_SMTP_TLS_CERT", value_name = "FILE")]
    pub smtp_cert: Option<PathBuf>,
    /// The key of that certificate, PEM
    #[arg(long = "smtp-tls-key", env = "GATEPOST_SMTP_TLS_KEY", value_name = "FILE")]
    pub smtp_key: Option<PathBuf>,
    /// The certificate chain for the API, PEM; the API is then served by https only; read again on
    /// SIGHUP and when it changes
    #[arg(long = "http-tls-cert", env = "GATEPOST_HTTP_TLS_CERT", value_name = "FILE")]
    pub http_cert: Option<PathBuf>,
    /// The key of that certificate, PEM
    #[arg(long = "http-tls-key", env = "GATEPOST_HTTP_TLS_KEY", value_name = "FILE")]
    pub http_key: Option<PathBuf>,
}

impl TlsOptions {
    /// Returns the certificate and key files for SMTP.
    pub fn smtp(&self) -> Result<Option<CertificateFiles>, ConfigError> {
        pair(["smtp-tls-cert", "smtp-tls-key"], &self.smtp_cert, &self.smtp_key)
    }

    /// Returns the certificate and key files for the API.
    pub fn http(&self) -> Result<Option<CertificateFiles>, ConfigError> {
        pair(["http-tls-cert", "http-tls-key"], &self.http_cert, &self.http_key)
    }

    /// Fills absent settings from `file`.
    pub(super) fn or(self, file: Self) -> Self {
        Self {
            smtp_cert: self.smtp_cert.or(file.smtp_cert),
            smtp_key: self.smtp_key.or(file.smtp_key),
            http_cert: self.http_cert.or(file.http_cert),
            http_key: self.http_key.or(file.http_key),
        }
    }
}

/// Fails on half a pair: it must not silently mean mail without the intended certificate. `settings`
/// names both.
fn pair(
    settings: [&'static str; 2],
    chain: &Option<PathBuf>,
    key: &Option<PathBuf>,
) -> Result<Option<CertificateFiles>, ConfigError> {
    let [of_chain, of_key] = settings;
    let lacks = |setting, missing| ConfigError::Invalid {
        setting,
        detail: format!("is given without {missing}: give both files, or neither"),
    };
    match (chain.clone(), key.clone()) {
        (Some(chain), Some(key)) => Ok(Some(CertificateFiles { chain, key })),
        (None, None) => Ok(None),
        (Some(_), None) => Err(lacks(of_chain, of_key)),
        (None, Some(_)) => Err(lacks(of_key, of_chain)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_pair_is_refused_by_name() {
        let options = TlsOptions { smtp_cert: Some("a".into()), ..TlsOptions::default() };
        let error = options.smtp().unwrap_err().to_string();
        assert!(error.starts_with("smtp-tls-cert: is given without smtp-tls-key"), "{error}");
        assert_eq!(options.http().unwrap(), None);
        let options = TlsOptions { http_key: Some("b".into()), ..TlsOptions::default() };
        let error = options.http().unwrap_err().to_string();
        assert!(error.starts_with("http-tls-key: is given without http-tls-cert"), "{error}");
        // The other half may come from the settings file.
        let file = TlsOptions { http_cert: Some("a".into()), ..TlsOptions::default() };
        let files = CertificateFiles { chain: "a".into(), key: "b".into() };
        assert_eq!(options.or(file).http().unwrap(), Some(files));
    }
}
