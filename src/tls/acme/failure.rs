//! Errors of obtaining certificates, with advice for the operator.

use std::io;
use std::net::SocketAddr;

use instant_acme::Problem;

use crate::domain::clock::Timestamp;
use crate::egress::client::EgressError;

use super::kept::KeptError;
use super::transport::TransportError;

/// Why a certificate cannot be used.
pub type Unusable = Box<dyn std::error::Error + Send + Sync>;

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum AcmeError {
    #[error(transparent)]
    Kept(#[from] KeptError),
    #[error("cannot listen on {address}, where the authority is to look for our answers")]
    Listen { address: SocketAddr, source: io::Error },
    /// For the account, or the order as a whole.
    #[error("the authority refuses: {}", said(.0))]
    Refused(Problem),
    /// The authority's own account of its look-up.
    #[error("the authority did not find {name} to be here: {}", said(.problem))]
    NotProven { name: String, problem: Problem },
    #[error("the authority offers no challenge over HTTP for {0}")]
    NoChallenge(String),
    #[error("the authority cannot be reached, or does not speak ACME")]
    Exchange(#[source] instant_acme::Error),
    #[error("the authority did not finish in time")]
    Late,
    #[error("what the authority gave cannot be used")]
    Unusable(#[source] Unusable),
    #[error("the new certificate, valid from {from} until {until}, is due for renewal already")]
    Clock { from: Timestamp, until: Timestamp },
    #[error("the server is ending")]
    Stopped,
    #[error("no request for a certificate can be made")]
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
    /// Returns the operator's remedy, where the error does not say it.
    pub(super) fn advice(&self) -> Option<&'static str> {
        match self {
            Self::NotProven { problem, .. } | Self::Refused(problem) => of_kind(kind(problem)),
            Self::Exchange(error) => Some(of_exchange(error)),
            Self::Listen { source, .. } => Some(of_listening(source.kind())),
            Self::Clock { .. } => Some("set the clock of this machine"),
            Self::NoChallenge(_) => {
                Some("use an authority that offers HTTP-01, or a certificate in files")
            }
            Self::Kept(error) => of_folder(error),
            Self::Late => Some(
                "check that the authority works; for a slow one raise attempt.timeout_seconds and \
                 patience_seconds (acme.toml)",
            ),
            Self::Unusable(_) => Some("use another authority, or a certificate in files"),
            Self::Request(_) => Some("check the hostname and acme-names"),
            Self::Stopped => None,
        }
    }

    /// Whether the authority was not asked, or the note from before the attempt stays valid.
    pub(super) const fn is_our_own(&self) -> bool {
        matches!(self, Self::Kept(_) | Self::Listen { .. } | Self::Stopped)
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
fn of_kind(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "connection" => {
            "let port 80 of this name through to the address of acme-http, from everywhere, and check \
             that its A and AAAA records lead here"
        }
        "dns" => "give the name an A or AAAA record that leads to this machine",
        "unauthorized" | "incorrectResponse" => {
            "another server answers on port 80 of this name: its A and AAAA records must lead to \
             this gateway alone"
        }
        "caa" => "let the CAA records of the domain name this authority (RFC 8659)",
        "rejectedIdentifier" | "malformed" => {
            "give the public name of this server by --hostname; this authority has none for others"
        }
        "rateLimited" => "wait: asking more often makes it longer",
        "externalAccountRequired" => {
            "use an authority that makes accounts by itself, such as letsencrypt"
        }
        "userActionRequired" => "agree to the authority's new terms, as it says",
        "invalidContact" | "unsupportedContact" => "give acme-contact as mailto:NAME@DOMAIN",
        _ => return None,
    })
}

fn of_folder(error: &KeptError) -> Option<&'static str> {
    Some(match error {
        KeptError::Write { .. } => "let the server write into the folder (acme.folder)",
        KeptError::Read { .. } => "let the server read what is in the folder (acme.folder)",
        KeptError::Damaged { .. } => {
            "bring it back as it was, or remove it, and a new one is made; a new key.pem needs a new \
             TLSA record where there is one"
        }
        KeptError::Key(_) => return None,
    })
}

/// Returns advice for a failure to listen for challenges.
pub(super) const fn of_listening(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::AddrInUse => {
            "end the program that listens there, or name another address by --acme-http, and lead \
             port 80 to it"
        }
        io::ErrorKind::PermissionDenied => {
            "let the server listen on low ports (CAP_NET_BIND_SERVICE), or name another address by \
             --acme-http, and lead port 80 to it"
        }
        _ => "name an address of this machine by --acme-http",
    }
}

fn of_exchange(error: &instant_acme::Error) -> &'static str {
    use instant_acme::Error;
    let directory =
        "check the URL of the directory (acme.directory), and whether the authority works";
    match error {
        Error::Other(error) => {
            let not_https = error.downcast_ref::<TransportError>();
            if matches!(not_https, Some(TransportError::NotHttps(_))) {
                return "use an authority all of whose URLs are https";
            }
            error.downcast_ref::<EgressError>().and_then(of_way_out).unwrap_or(directory)
        }
        Error::KeyRejected | Error::Crypto => {
            "remove account.json from the folder (acme.folder), and a new account is made"
        }
        _ => directory,
    }
}

fn of_way_out(error: &EgressError) -> Option<&'static str> {
    Some(match error {
        error if error.is_tls() => "name the authority's own root certificate by --acme-ca-file",
        EgressError::PrivateAddress | EgressError::Url(_) => {
            "let an authority in your own network be reached by --egress-allow"
        }
        EgressError::Lookup => "check the name of the directory, and the resolvers (--dns)",
        EgressError::Connect | EgressError::ConnectTimeout => {
            "let this machine connect to the authority"
        }
        _ => return None,
    })
}

fn kind(problem: &Problem) -> &str {
    let kind = problem.r#type.as_deref().unwrap_or_default();
    kind.rsplit(':').next().unwrap_or_default()
}

/// Returns the authority's text in one line of bounded length: it is not trusted.
fn said(problem: &Problem) -> String {
    let mut text = problem.detail.clone().unwrap_or_else(|| "without a reason".to_owned());
    for one in &problem.subproblems {
        text.push_str("; ");
        text.push_str(one.detail.as_deref().unwrap_or_default());
    }
    let text = text.replace(char::is_control, " ");
    let cut: String = text.chars().take(500).collect();
    format!("{cut} ({})", kind(problem))
}
