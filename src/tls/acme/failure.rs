//! Errors of obtaining certificates, with advice for the operator.

use std::io;
use std::net::SocketAddr;

use instant_acme::Problem;

use crate::domain::acme_challenge::AcmeChallenge;
use crate::domain::clock::Timestamp;
use crate::egress::client::EgressError;
use crate::tls::pair::PairError;

use super::folder::FolderError;
use super::transport::TransportError;

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum AcmeError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("cannot listen on {address} for ACME challenges")]
    Listen { address: SocketAddr, source: io::Error },
    /// For the account, or the order as a whole.
    #[error("the authority refused the request: {}", detail(.0))]
    Refused(Problem),
    /// The authority's own account of its look-up.
    #[error("the authority could not verify {name}: {}", detail(.problem))]
    NotProven { name: String, problem: Problem },
    #[error("the authority offers no challenge {kind} for {name}")]
    NoChallenge { name: String, kind: AcmeChallenge },
    #[error("cannot make the certificate that answers the authority (TLS-ALPN-01)")]
    Answer(#[source] Option<rustls::Error>),
    #[error("the authority cannot be reached, or does not speak ACME")]
    Exchange(#[source] instant_acme::Error),
    #[error("the authority did not finish in time")]
    Late,
    #[error("cannot use the certificate that the authority issued")]
    Unusable(#[source] PairError),
    #[error("the new certificate, valid from {from} until {until}, is already due for renewal")]
    Clock { from: Timestamp, until: Timestamp },
    #[error("the server is shutting down")]
    Stopped,
    #[error("cannot make the certificate request")]
    Request(#[from] rcgen::Error),
}

impl From<instant_acme::Error> for AcmeError {
    fn from(error: instant_acme::Error) -> Self {
        match error {
            instant_acme::Error::Api(problem) => Self::Refused(problem),
            instant_acme::Error::Timeout(_) => Self::Late,
            other => Self::Exchange(other),
        }
    }
}

impl AcmeError {
    /// Returns the remedy, where the error does not say it. `is_own` is whether the name is the
    /// operator's: others are of customers.
    pub(super) fn advice(&self, challenge: AcmeChallenge, is_own: bool) -> Option<&'static str> {
        match self {
            Self::NotProven { problem, .. } | Self::Refused(problem) => {
                of_kind(kind(problem), challenge, is_own)
            }
            Self::Exchange(error) => Some(of_exchange(error)),
            Self::Listen { source, .. } => Some(of_listening(source.kind())),
            Self::Clock { .. } => Some("set the clock of this machine"),
            Self::NoChallenge { .. } => {
                Some("set --acme-challenge to another one, or use another authority")
            }
            Self::Folder(error) => of_folder(error),
            Self::Late => Some(
                "check whether the authority works; for a slow one, raise attempt.timeout_seconds \
                 and attempt.patience_seconds (acme.toml)",
            ),
            Self::Unusable(_) => Some("use another authority, or a certificate in files"),
            Self::Request(_) => is_own.then_some("check the hostname and acme-names"),
            Self::Answer(_) | Self::Stopped => None,
        }
    }

    /// Whether the fault is ours, so that the note from before the attempt stays valid.
    pub(super) const fn is_our_own(&self) -> bool {
        matches!(self, Self::Folder(_) | Self::Listen { .. } | Self::Stopped)
    }

    /// Whether another order may succeed: this one is unknown, or belongs to another account.
    pub(super) fn is_about_the_order(&self) -> bool {
        let Self::Refused(problem) = self else { return false };
        matches!(kind(problem), "malformed" | "unauthorized")
            || matches!(problem.status, Some(403 | 404 | 410))
    }

    /// Whether the authority does not know the account any more (RFC 8555 §6.7).
    pub(super) fn is_unknown_account(&self) -> bool {
        matches!(self, Self::Refused(problem) if kind(problem) == "accountDoesNotExist")
    }
}

/// Returns advice for a type of problem (RFC 8555 §6.7).
fn of_kind(kind: &str, challenge: AcmeChallenge, is_own: bool) -> Option<&'static str> {
    Some(match kind {
        "connection" | "tls" if challenge == AcmeChallenge::TlsAlpn01 => {
            "let everyone reach port 443 of this name, forward that port to the address of the \
             API (--http) without ending TLS, and check that its A and AAAA records lead here"
        }
        "unauthorized" | "incorrectResponse" if challenge == AcmeChallenge::TlsAlpn01 => {
            "another server answers on port 443 of this name: let its A and AAAA records lead to \
             this gateway only, and no proxy in front end TLS"
        }
        "connection" => {
            "let everyone reach port 80 of this name, forward that port to the address of \
             acme-http, and check that its A and AAAA records lead here"
        }
        "dns" => "publish an A or AAAA record that leads from this name to this machine",
        "unauthorized" | "incorrectResponse" => {
            "another server answers on port 80 of this name: let its A and AAAA records lead to \
             this gateway only"
        }
        "caa" => "add this authority to the CAA records of the domain (RFC 8659)",
        "rejectedIdentifier" | "malformed" if !is_own => {
            "this authority certifies no such name: let the customer's policy be served elsewhere"
        }
        "rejectedIdentifier" | "malformed" => {
            "set --hostname to the public name of this server; this authority certifies no other \
             names"
        }
        "rateLimited" => "wait: more requests make the wait longer",
        "externalAccountRequired" => {
            "use an authority that needs no external account, such as letsencrypt"
        }
        "userActionRequired" => "agree to the authority's new terms, as its message says",
        "invalidContact" | "unsupportedContact" => "set acme-contact to mailto:NAME@DOMAIN",
        _ => return None,
    })
}

fn of_folder(error: &FolderError) -> Option<&'static str> {
    Some(match error {
        FolderError::Write { .. } => "give the server write access to the folder (acme.folder)",
        FolderError::Read { .. } => {
            "give the server read access to the files in the folder (acme.folder)"
        }
        FolderError::Damaged { .. } => {
            "restore the file, or remove the file and the server makes a new one; if you publish \
             a TLSA record, a new key.pem needs a new one"
        }
        FolderError::Key(_) => return None,
    })
}

/// Returns advice for a failure to listen for challenges.
pub(super) const fn of_listening(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::AddrInUse => {
            "stop the program that listens there, or choose another address with --acme-http and \
             forward port 80 to it"
        }
        io::ErrorKind::PermissionDenied => {
            "let the server listen on low ports (CAP_NET_BIND_SERVICE), or choose another address \
             with --acme-http and forward port 80 to it"
        }
        _ => "set --acme-http to an address of this machine",
    }
}

fn of_exchange(error: &instant_acme::Error) -> &'static str {
    use instant_acme::Error;
    let directory = "check the directory URL (acme.directory), and whether the authority works";
    match error {
        Error::Other(error) => {
            let not_https = error.downcast_ref::<TransportError>();
            if matches!(not_https, Some(TransportError::NotHttps(_))) {
                return "use an authority whose URLs are all https";
            }
            error.downcast_ref::<EgressError>().and_then(of_way_out).unwrap_or(directory)
        }
        Error::KeyRejected | Error::Crypto => {
            "remove account.json from the folder (acme.folder): the server then makes a new account"
        }
        _ => directory,
    }
}

fn of_way_out(error: &EgressError) -> Option<&'static str> {
    Some(match error {
        error if error.is_tls() => "set --acme-ca-file to the authority's root certificate",
        EgressError::PrivateAddress { .. } | EgressError::Url(_) => {
            "if the authority is in your own network, allow that network with --egress-allow"
        }
        EgressError::Lookup => "check the host name of the directory, and the resolvers (--dns)",
        EgressError::Connect | EgressError::ConnectTimeout => {
            "let this machine connect to the authority"
        }
        _ => return None,
    })
}

/// Whether the authority takes an order, but not for what it replaces: it does not know that
/// certificate, or another order replaced it (RFC 9773 §5).
pub(super) fn is_about_the_replaced(problem: &Problem) -> bool {
    matches!(kind(problem), "alreadyReplaced" | "malformed" | "unauthorized")
}

fn kind(problem: &Problem) -> &str {
    let kind = problem.r#type.as_deref().unwrap_or_default();
    kind.rsplit(':').next().unwrap_or_default()
}

/// Returns the authority's text in one line of bounded length: it is not trusted.
fn detail(problem: &Problem) -> String {
    let mut text = problem.detail.clone().unwrap_or_else(|| "no reason given".to_owned());
    for one in &problem.subproblems {
        text.push_str("; ");
        text.push_str(one.detail.as_deref().unwrap_or_default());
    }
    let text = text.replace(char::is_control, " ");
    let cut: String = text.chars().take(500).collect();
    format!("{cut} ({})", kind(problem))
}
