//! The addresses of the settings: whether this server answers there, or could listen.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use futures_util::future::join_all;
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::WITHIN;
use crate::app::doctor::{Check, CheckSubject};
use crate::cli::serve::start_errors::{NamedSettings, Unbound};
use crate::egress::certificate::Certificate;
use crate::run::Settings;
use crate::testkit::presented::{self, Greeting, Opening, Page, reachable};

/// How the listeners present themselves.
#[derive(Clone, Debug, Default)]
pub(super) struct Listeners {
    pub(super) checks: Vec<Check>,
    /// The certificate that SMTP clients are shown.
    pub(super) certificate: Option<Certificate>,
    /// The certificate that clients of the API are shown.
    https: Option<Certificate>,
}

impl Listeners {
    pub(super) fn shown(&self, listener: &str) -> Option<&Certificate> {
        match listener {
            "smtp" => self.certificate.as_ref(),
            "https" => self.https.as_ref(),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speech {
    Smtp(Opening),
    Api(Opening),
    Metrics,
    /// Challenges of an authority: it answers nothing else.
    Challenges,
}

struct Listener {
    name: &'static str,
    flag: &'static str,
    address: SocketAddr,
    speech: Speech,
}

/// The one who answers at an address.
enum Presence {
    Ours(Option<Certificate>),
    /// Perhaps this server, in words.
    Alike(&'static str),
    /// Something else, in words.
    Other(String),
}

/// Whether connections of this machine must begin with a PROXY header.
pub(super) fn wants_proxy_header(settings: &Settings, address: SocketAddr) -> bool {
    let from = reachable(address).ip();
    settings.trusted_proxy.iter().any(|network| network.contains(&from))
}

/// Looks at all addresses of the settings, beside each other.
pub(super) async fn look(settings: &Settings) -> Listeners {
    let named = NamedSettings::of(settings);
    let listeners = listeners(settings);
    let found = join_all(listeners.iter().map(|one| one.look(settings, &named))).await;
    let mut all = Listeners::default();
    for (listener, (check, certificate)) in listeners.iter().zip(found) {
        all.checks.push(check);
        match listener.speech {
            Speech::Smtp(_) => all.certificate = all.certificate.or(certificate),
            Speech::Api(_) => all.https = certificate,
            Speech::Metrics | Speech::Challenges => {}
        }
    }
    all
}

fn listeners(settings: &Settings) -> Vec<Listener> {
    let api = Opening::of(settings.tls.serves_https());
    let all = settings.listeners().map(|(name, flag, address)| {
        let speech = match name {
            "smtps" => Speech::Smtp(Opening::Tls),
            "http" => Speech::Api(api),
            "metrics" => Speech::Metrics,
            "acme" => Speech::Challenges,
            _ => Speech::Smtp(Opening::Clear),
        };
        Listener { name, flag, address, speech }
    });
    all.collect()
}

impl Listener {
    async fn look(
        &self,
        settings: &Settings,
        named: &NamedSettings,
    ) -> (Check, Option<Certificate>) {
        let topic = Check::of(CheckSubject::Port, format!("{} {}", self.flag, self.address));
        if self.address.port() == 0 {
            return (topic.skipped("each start picks a free port"), None);
        }
        let is_smtp = matches!(self.speech, Speech::Smtp(_));
        if is_smtp && wants_proxy_header(settings, self.address) {
            let detail = "connections of this machine need a PROXY header (--trusted-proxy)";
            return (topic.skipped(detail), None);
        }
        let advice = "stop the program that listens there, or choose another address";
        match timeout(WITHIN, self.ask(settings)).await {
            Ok(Ok(Presence::Ours(certificate))) => {
                (topic.ok("this server answers there"), certificate)
            }
            Ok(Ok(Presence::Alike(how))) => (topic.ok(how), None),
            Ok(Ok(Presence::Other(what))) => (topic.failure(what, advice), None),
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                (self.try_to_listen(named).await, None)
            }
            Ok(Err(error)) => {
                (topic.failure(format!("another program answers there: {error}"), advice), None)
            }
            Err(_) => {
                let detail = format!("it takes connections and says nothing for {WITHIN:?}");
                (topic.failure(detail, advice), None)
            }
        }
    }

    async fn ask(&self, settings: &Settings) -> io::Result<Presence> {
        let at = reachable(self.address);
        let read = |certificate: Option<_>| certificate.and_then(Certificate::read);
        match self.speech {
            Speech::Smtp(opening) => {
                let Greeting { banner, certificate } = presented::smtp(at, opening).await?;
                let ours = format!("220 {} ESMTP", settings.hostname);
                Ok(if banner == ours {
                    Presence::Ours(read(certificate))
                } else {
                    Presence::Other(format!(
                        "another program, or a server with other settings, greets: {banner}"
                    ))
                })
            }
            Speech::Api(opening) => {
                let asked = presented::page(at, opening, "/healthz").await;
                let is_ours = |page: &Page| holds(page, "\"alive\"");
                // A service may have its certificate from elsewhere than these settings.
                if opening == Opening::Clear
                    && !asked.as_ref().is_ok_and(is_ours)
                    && let Ok(page) = presented::page(at, Opening::Tls, "/healthz").await
                    && is_ours(&page)
                {
                    return Ok(Presence::Ours(read(page.certificate)));
                }
                let page = asked?;
                Ok(if is_ours(&page) {
                    Presence::Ours(read(page.certificate))
                } else {
                    Presence::Other(format!("another program answers /healthz: {}", page.status))
                })
            }
            Speech::Metrics => {
                let page = presented::page(at, Opening::Clear, "/metrics").await?;
                Ok(if holds(&page, "gatepost_") {
                    Presence::Ours(None)
                } else {
                    Presence::Other(format!("another program answers /metrics: {}", page.status))
                })
            }
            Speech::Challenges => {
                let page = presented::page(at, Opening::Clear, "/").await?;
                Ok(if page.status == 404 {
                    Presence::Alike("it answers as this server does, which nothing else proves")
                } else {
                    Presence::Other(format!("another program answers there: {}", page.status))
                })
            }
        }
    }

    /// Checks whether a start could listen: nobody answers there.
    async fn try_to_listen(&self, named: &NamedSettings) -> Check {
        let topic = Check::of(CheckSubject::Port, format!("{} {}", self.flag, self.address));
        match TcpListener::bind(self.address).await {
            Ok(_) => topic.ok("nobody listens there, and a start can"),
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied
                    && let Some(unit) = socket_unit(self.name, &UNITS) =>
            {
                topic.warning(
                    "this user may not listen there",
                    format!(
                        "right as it is if systemd does: if {unit} is enabled, and has this port"
                    ),
                )
            }
            Err(error) => match named.explain_listening(self.address, &error) {
                Some(Unbound { detail, advice }) => topic.failure(detail, advice),
                None => topic.failure(
                    format!("cannot listen there: {error}"),
                    format!("name an address of this machine by {}", self.flag),
                ),
            },
        }
    }
}

/// Where systemd finds units: of the administrator, of packages.
const UNITS: [&str; 3] = ["/etc/systemd/system", "/lib/systemd/system", "/usr/lib/systemd/system"];

/// The unit by which systemd opens the port of a listener, if one is installed.
fn socket_unit(listener: &str, folders: &[&str]) -> Option<String> {
    let unit = format!("gatepost-{listener}.socket");
    folders.iter().any(|folder| Path::new(folder).join(&unit).exists()).then_some(unit)
}

fn holds(page: &Page, text: &str) -> bool {
    page.status == 200 && page.body.windows(text.len()).any(|window| window == text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_systemd_opens_is_known_by_its_unit() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("gatepost-smtp.socket"), "").unwrap();
        let folders = ["/nowhere", folder.path().to_str().unwrap()];
        assert_eq!(socket_unit("smtp", &folders).as_deref(), Some("gatepost-smtp.socket"));
        assert_eq!(socket_unit("http", &folders), None);
    }
}
