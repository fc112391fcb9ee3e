//! The encrypted addresses and their certificates.

use std::net::SocketAddr;
use std::sync::Arc;

use super::{RunError, Sockets, TlsSettings};
use crate::app::doctor::domain_checks::ShownCertificate;
use crate::app::system::CertificateEnd;
use crate::domain::clock::Clock;
use crate::domain::domain_name::DomainName;
use crate::domain::id::Mint;
use crate::domain::mta_sts::CertificateFault;
use crate::egress::certificate::Certificate;
use crate::egress::client::{Client, Limits, Lookup, Roots};
use crate::egress::guard::Guard;
use crate::rules::{AcmeRules, Rules, TlsRules};
use crate::shutdown::Shutdown;
use crate::store::{Location, StorePlace, TLS};
use crate::tls::acme::Challenge::TlsAlpn01;
use crate::tls::acme::{self, Acme, Challenges, Unusable};
use crate::tls::self_signed::{self, SelfSignedError};
use crate::tls::{Acceptor, Certificates, Files, Pair, Paths};

pub(super) struct Tls {
    pub(super) smtps: Option<SocketAddr>,
    pub(super) starttls: Acceptor,
    pub(super) https: Option<Acceptor>,
    pub(super) files: Vec<Arc<Files>>,
    certificates: Certificates,
    /// How to read the end of each certificate in use.
    pub(super) ends: Vec<CertificateEnd>,
    acme_settings: Option<acme::Settings>,
    challenges: Challenges,
    pub(super) acme: Option<Acme>,
}

impl Tls {
    pub(super) async fn prepare(
        settings: TlsSettings,
        place: &StorePlace,
        hostname: &DomainName,
        rules: &Rules,
        clock: &Clock,
    ) -> Result<Self, RunError> {
        let mut files = Vec::new();
        let certificates = match settings.smtp {
            Some(paths) => {
                let certified = Files::open(paths, Some(hostname), clock.clone()).await?;
                files.push(Arc::clone(&certified));
                certified.certificates().clone()
            }
            None => {
                let own = self_signed(place, hostname)?;
                Certificates::new(own, Some(hostname.clone()), clock.clone())
            }
        };
        let starttls = Acceptor::new(&certificates, rules.smtp.deadlines.handshake())?;
        let mut ends = vec![end("smtp", &certificates)];
        let (smtps, acme_settings) = (settings.smtps, settings.acme);
        let of_api = match settings.http {
            Some(paths) => {
                // The API's host name is not known here.
                let certified = Files::open(paths, None, clock.clone()).await?;
                files.push(Arc::clone(&certified));
                Some(certified.certificates().clone())
            }
            None => settings.https_by_acme.then(|| certificates.clone()),
        };
        let challenges = Challenges::default();
        let answers = acme_settings.as_ref().is_some_and(|acme| acme.challenge == TlsAlpn01);
        let mut https = None;
        if let Some(of_api) = of_api {
            let (deadline, protocols) = (rules.access.connections.handshake(), &["http/1.1"]);
            https = Some(match answers {
                true => Acceptor::with_answers(&of_api, deadline, protocols, &challenges)?,
                false => Acceptor::with_protocols(&of_api, deadline, protocols)?,
            });
            ends.push(end("https", &of_api));
        }
        let acme = None;
        Ok(Self {
            smtps,
            starttls,
            https,
            files,
            certificates,
            ends,
            acme_settings,
            challenges,
            acme,
        })
    }

    /// Installs the stored certificate of the authority, if one is named, and listens for its
    /// challenges.
    pub(super) async fn start_acme(
        &mut self,
        rules: AcmeRules,
        guard: Guard,
        lookup: Lookup,
        mint: &Mint,
        sockets: &mut Sockets,
    ) -> Result<(), RunError> {
        let Some(settings) = self.acme_settings.take() else { return Ok(()) };
        let mut roots = Roots::default();
        if let Some(path) = &settings.ca_file {
            let fail = |source| RunError::AcmeRoot { path: path.clone(), source };
            let text = tokio::fs::read(path).await.map_err(|error| fail(Some(error)))?;
            roots = Roots::from_pem(&text).ok_or_else(|| fail(None))?;
        }
        let client = Client::trusting(guard, Limits::from(&rules), lookup, &roots)?;
        let listener = match settings.challenge {
            acme::Challenge::Http01 => Some(sockets.listen("acme", settings.http).await),
            TlsAlpn01 => None,
        };
        let challenges = self.challenges.clone();
        let mut acme =
            Acme::on(listener, settings, Arc::new(rules), client, challenges, mint.clone());
        let install = |chain: &[u8], key: &[u8]| {
            self.certificates.install(chain, key).map_err(Unusable::from)
        };
        acme.install_stored(install).await;
        self.acme = Some(acme);
        Ok(())
    }

    /// How to read the certificate that SMTP clients are shown.
    pub(super) fn shown(&self) -> ShownCertificate {
        let certificates = self.certificates.clone();
        Arc::new(move || certificates.current().certificate().clone())
    }

    /// How to learn why senders that verify the certificate of this host would not deliver.
    pub(super) fn fault(&self, host: &DomainName) -> CertificateFault {
        let (certificates, host) = (self.certificates.clone(), host.clone());
        CertificateFault::by(move || {
            let now = certificates.clock().now();
            certificates.current().certificate().fault(&host, now)
        })
    }

    /// Follows the files, and renews the authority's certificate, until the soft stop.
    pub(super) fn follow(&mut self, rules: &TlsRules, shutdown: &Shutdown) {
        if let Some(acme) = self.acme.take() {
            let certificates = self.certificates.clone();
            let install = move |chain: &[u8], key: &[u8]| {
                certificates.install(chain, key).map_err(Unusable::from)
            };
            shutdown.spawn(acme.run(install, shutdown.clone()));
        }
        for files in &self.files {
            let files = Arc::clone(files);
            let (every, warning, stop) = (rules.reload(), rules.expiry_warning(), shutdown.clone());
            shutdown.spawn(async move { files.follow(every, warning, stop.soft()).await });
        }
    }
}

fn end(listener: &'static str, certificates: &Certificates) -> CertificateEnd {
    let certificates = certificates.clone();
    (listener, Arc::new(move || certificates.current().until()))
}

/// A listener with a certificate, and the certificate that a server of these settings would show;
/// None if there is none before the server runs: its authority or its first start makes it.
pub type OwnCertificate = (&'static str, Option<Certificate>);

/// Reads the certificates of these settings, as a server does at its start; makes none.
pub async fn own_certificates(
    settings: &TlsSettings,
    place: &StorePlace,
    clock: &Clock,
) -> Result<Vec<OwnCertificate>, RunError> {
    let read = async |paths: &Paths| {
        let files = Files::open(paths.clone(), None, clock.clone()).await?;
        Ok::<_, RunError>(files.certificates().current().certificate().clone())
    };
    let smtp = match (&settings.smtp, &settings.acme, &place.database) {
        (Some(paths), _, _) => Some(read(paths).await?),
        (None, None, Location::Folder(folder)) => {
            let own = self_signed::load(&folder.join(TLS))?;
            own.map(|pair| pair.certificate().clone())
        }
        (None, Some(_), _) | (None, None, Location::Postgres(_)) => None,
    };
    let https = match &settings.http {
        Some(paths) => Some(read(paths).await?),
        None => smtp.clone(),
    };
    let https = settings.serves_https().then_some(("https", https));
    Ok([("smtp", smtp)].into_iter().chain(https).collect())
}

/// Makes the self-signed pair. It is kept with the embedded store. Gateways on PostgreSQL have no
/// folder, and a key in the database would get into its backups: each makes one that lasts until it
/// stops.
fn self_signed(place: &StorePlace, hostname: &DomainName) -> Result<Pair, SelfSignedError> {
    match &place.database {
        Location::Folder(folder) => self_signed::load_or_make(&folder.join(TLS), hostname),
        Location::Postgres(_) => self_signed::make_temporary(hostname),
    }
}
