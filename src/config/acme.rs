//! Certificates by ACME: the section `[acme]`. Naming a directory turns it on.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use url::{Host, Url};

use crate::domain::acme_challenge::AcmeChallenge;
use crate::domain::domain_name::DomainName;

use super::{ConfigError, HostPort, host_port};

/// Short names of directories.
const KNOWN: &[(&str, &str)] = &[
    ("letsencrypt", "https://acme-v02.api.letsencrypt.org/directory"),
    ("letsencrypt-staging", "https://acme-staging-v02.api.letsencrypt.org/directory"),
];
const DIRECTORY: &str = "acme.directory (--acme-directory)";

#[derive(Args, Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct AcmeOptions {
    /// Get certificates from this authority by ACME: letsencrypt, letsencrypt-staging, or the
    /// URL of a directory
    #[arg(long = "acme-directory", env = "GATEPOST_ACME_DIRECTORY", value_name = "NAME|URL")]
    pub directory: Option<String>,
    /// Agree to the terms of service of that authority
    #[arg(long = "acme-agree-tos", env = "GATEPOST_ACME_AGREE_TOS")]
    #[serde(default)]
    pub agree_tos: bool,
    /// How that authority reaches you: mailto:NAME@DOMAIN
    #[arg(long = "acme-contact", env = "GATEPOST_ACME_CONTACT")]
    #[arg(value_name = "URL", value_delimiter = ',')]
    pub contact: Option<Vec<String>>,
    /// More names that need a certificate, beside the hostname
    #[arg(long = "acme-names", env = "GATEPOST_ACME_NAMES")]
    #[arg(value_name = "NAME", value_delimiter = ',')]
    pub names: Option<Vec<String>>,
    /// How that authority looks: http-01 at port 80 of the names, tls-alpn-01 at port 443, where the
    /// API must be [default: http-01]
    #[arg(long = "acme-challenge", env = "GATEPOST_ACME_CHALLENGE", value_name = "NAME")]
    #[serde(default, deserialize_with = "challenge")]
    pub challenge: Option<AcmeChallenge>,
    /// Serve the API by https with these certificates, too
    #[arg(
        long = "acme-https", env = "GATEPOST_ACME_HTTPS", num_args = 0..=1,
        default_missing_value = "true", require_equals = true, value_name = "BOOL"
    )]
    pub https: Option<bool>,
    /// Where that authority's look at port 80 of the names arrives [default: 0.0.0.0:80]
    #[arg(id = "acme-http", long, env = "GATEPOST_ACME_HTTP", value_name = "HOST:PORT")]
    pub http: Option<HostPort>,
    /// The root certificate of the directory's own server, where it is not a public one (PEM)
    #[arg(long = "acme-ca-file", env = "GATEPOST_ACME_CA_FILE", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Where account, key and certificates are kept, of this gateway alone [default: DATA/tls/acme]
    #[arg(long = "acme-folder", env = "GATEPOST_ACME_FOLDER", value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

impl AcmeOptions {
    pub(super) fn or(self, file: Self) -> Self {
        Self {
            directory: self.directory.or(file.directory),
            agree_tos: self.agree_tos || file.agree_tos,
            contact: self.contact.or(file.contact),
            names: self.names.or(file.names),
            challenge: self.challenge.or(file.challenge),
            https: self.https.or(file.https),
            http: self.http.or(file.http),
            ca_file: self.ca_file.or(file.ca_file),
            folder: self.folder.or(file.folder),
        }
    }

    /// Whether the API has the certificate of the authority.
    pub fn https(&self) -> bool {
        self.https.unwrap_or(false)
    }

    /// Returns the directory of the authority; `None` if no certificate is wanted.
    pub fn directory(&self) -> Result<Option<Url>, ConfigError> {
        let invalid =
            |detail: &str| ConfigError::Invalid { setting: DIRECTORY, detail: detail.to_owned() };
        let Some(text) = &self.directory else {
            let unused = *self != Self::default();
            let error = invalid("name the authority: other acme settings are given without one");
            return if unused { Err(error) } else { Ok(None) };
        };
        let known = KNOWN.iter().find(|(name, _)| name == text).map(|(_, url)| *url);
        let url = Url::parse(known.unwrap_or(text)).ok().filter(|url| url.scheme() == "https");
        let url = url.ok_or_else(|| {
            invalid("expected letsencrypt, letsencrypt-staging, or https://HOST/PATH")
        })?;
        if self.agree_tos {
            return Ok(Some(url));
        }
        Err(ConfigError::Invalid {
            setting: "acme.agree-tos (--acme-agree-tos)",
            detail: format!("read the terms of service at {url}, then set this to agree"),
        })
    }

    /// Returns the URLs by which the authority reaches the operator.
    pub fn contact(&self) -> Result<Vec<String>, ConfigError> {
        let contact = self.contact.clone().unwrap_or_default();
        // RFC 8555 §7.3: every authority accepts mailto.
        let is_mail = |one: &String| {
            one.strip_prefix("mailto:").is_some_and(|mail| mail.contains('@') && mail.len() > 2)
        };
        if let Some(other) = contact.iter().find(|one| !is_mail(one)) {
            return Err(ConfigError::Invalid {
                setting: "acme.contact (--acme-contact)",
                detail: format!("expected mailto:NAME@DOMAIN instead of {other:?}"),
            });
        }
        Ok(contact)
    }

    /// Returns the names that need certificates: the host first, each once. Fails on names that a
    /// public authority cannot certify.
    pub fn names(
        &self,
        hostname: &DomainName,
        directory: &Url,
    ) -> Result<Vec<DomainName>, ConfigError> {
        let mut names = vec![hostname.clone()];
        for text in self.names.iter().flatten() {
            let name = DomainName::parse(text).map_err(|error| ConfigError::Invalid {
                setting: "acme.names (--acme-names)",
                detail: error.to_string(),
            })?;
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let other = names.iter().find(|name| is_local(name.as_str()));
        match other.filter(|_| !is_at_home(directory)) {
            Some(other) => Err(ConfigError::Invalid {
                setting: "hostname or acme.names (--hostname, --acme-names)",
                detail: format!(
                    "no public authority certifies {other}: use the public name of this server, \
                     such as mx.example.com"
                ),
            }),
            None => Ok(names),
        }
    }

    /// Returns the address at which the authority's requests to port 80 arrive.
    pub async fn http(&self) -> Result<SocketAddr, ConfigError> {
        let found = host_port::find("--acme-http", self.http.as_ref()).await?;
        Ok(found.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 80))))
    }
}

fn challenge<'de, D: Deserializer<'de>>(input: D) -> Result<Option<AcmeChallenge>, D::Error> {
    String::deserialize(input)?.parse().map(Some).map_err(D::Error::custom)
}

/// Whether a name is local: without a dot, or reserved by RFC 6761 §6.3.
fn is_local(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    !name.contains('.') || name.ends_with(".localhost")
}

/// Whether the URL of an authority shows that it is the operator's own: a private or local host.
fn is_at_home(directory: &Url) -> bool {
    match directory.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
        Some(Host::Ipv6(ip)) => ip.is_loopback() || ip.is_unique_local(),
        Some(Host::Domain(name)) => {
            let own = [".internal", ".local", ".home.arpa"];
            is_local(name) || own.iter().any(|end| name.ends_with(end))
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naming(directory: &str) -> AcmeOptions {
        let directory = Some(directory.to_owned());
        AcmeOptions { directory, agree_tos: true, ..AcmeOptions::default() }
    }

    #[test]
    fn an_authority_is_named_by_word_or_by_url() {
        let url = |text: &str| naming(text).directory().unwrap().unwrap().to_string();
        assert_eq!(url("letsencrypt"), "https://acme-v02.api.letsencrypt.org/directory");
        assert_eq!(url("https://ca.example:9000/acme/dir"), "https://ca.example:9000/acme/dir");
        assert_eq!(AcmeOptions::default().directory().unwrap(), None);
        for bad in ["lets-encrypt", "http://ca.example/dir", ""] {
            let error = naming(bad).directory().unwrap_err().to_string();
            assert!(error.contains("acme.directory") && error.contains("https://"), "{error}");
        }
    }

    #[test]
    fn the_terms_are_agreed_to_by_the_operator_alone() {
        let silent = AcmeOptions { agree_tos: false, ..naming("letsencrypt") };
        let error = silent.directory().unwrap_err().to_string();
        assert!(error.contains("--acme-agree-tos") && error.contains("letsencrypt.org"), "{error}");
    }

    #[test]
    fn settings_for_no_authority_are_a_mistake() {
        let lost = AcmeOptions { agree_tos: true, ..AcmeOptions::default() };
        let error = lost.directory().unwrap_err().to_string();
        assert!(error.contains("--acme-directory"), "{error}");
    }

    #[test]
    fn a_public_authority_is_asked_for_no_name_of_home() {
        let names = |directory: &str, name: &str| {
            let options = naming(directory);
            let directory = options.directory().unwrap().unwrap();
            options.names(&DomainName::parse(name).unwrap(), &directory)
        };
        for name in ["localhost", "mx", "mx.localhost", "MX.LocalHost"] {
            for public in ["letsencrypt", "https://ca.example/dir", "https://192.0.2.1/dir"] {
                let error = names(public, name).unwrap_err().to_string();
                assert!(error.contains("--hostname") && error.contains("public"), "{error}");
            }
            for home in ["127.0.0.1:14000", "10.0.0.1", "[fd00::1]", "localhost", "ca.internal"] {
                assert!(names(&format!("https://{home}/dir"), name).is_ok(), "{home}");
            }
        }
        assert!(names("letsencrypt", "mx.example").is_ok());
    }

    #[test]
    fn a_contact_is_an_address_of_mail() {
        let contact = |one: &str| {
            let contact = Some(vec!["mailto:a@example".to_owned(), one.to_owned()]);
            AcmeOptions { contact, ..naming("letsencrypt") }.contact()
        };
        assert_eq!(contact("mailto:b@example").unwrap().len(), 2);
        assert_eq!(naming("letsencrypt").contact().unwrap(), [""; 0]);
        for bad in ["b@example", "tel:1", "mailto:", "mailto:b", ""] {
            let error = contact(bad).unwrap_err().to_string();
            assert!(error.contains("--acme-contact") && error.contains("mailto:NAME"), "{error}");
        }
    }

    #[test]
    fn each_name_is_there_once_and_the_host_first() {
        let host = DomainName::parse("mx.example").unwrap();
        let more = ["MX.example", "mail.example", "mail.example"].map(str::to_owned);
        let options = AcmeOptions { names: Some(more.to_vec()), ..naming("letsencrypt") };
        let directory = options.directory().unwrap().unwrap();
        let names = options.names(&host, &directory).unwrap();
        let names: Vec<_> = names.iter().map(DomainName::as_str).collect();
        assert_eq!(names, ["mx.example", "mail.example"]);
        let bad = AcmeOptions { names: Some(vec!["*.example".to_owned()]), ..options };
        assert!(bad.names(&host, &directory).unwrap_err().to_string().contains("--acme-names"));
    }
}
