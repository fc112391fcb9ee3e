//! The encrypted addresses and their certificates.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::Mutex;

use super::{RunError, Sockets, TlsSettings};
use crate::app::doctor::domain::ShownCertificate;
use crate::app::system::CertificateEnd;
use crate::domain::acme_challenge::AcmeChallenge::{Http01, TlsAlpn01};
use crate::domain::clock::Clock;
use crate::domain::domain_name::DomainName;
use crate::domain::id::Mint;
use crate::domain::mta_sts::{CertificateFault, domain_of};
use crate::egress::certificate::Certificate;
use crate::egress::client::{Client, Limits, Lookup, Roots};
use crate::egress::guard::Guard;
use crate::rules::{AcmeRules, Rules, TlsRules};
use crate::shutdown::Shutdown;
use crate::store::{Location, Store, StorePlace, TLS};
use crate::tls::acme::{self, Acme, Challenges, Domains};
use crate::tls::self_signed::{self, SelfSignedError};
use crate::tls::{Acceptor, Certificates, Files, Others, Pair, Paths};

/// Domains that are read in one statement.
const DOMAINS_AT_ONCE: u32 = 500;

pub(super) struct Tls {
    pub(super) smtps: Option<SocketAddr>,
    pub(super) starttls: Acceptor,
    pub(super) https: Option<Acceptor>,
    pub(super) files: Vec<Arc<Files>>,
    certificates: Certificates,
    /// How to read the end of each certificate in use.
    pub(super) ends: Vec<CertificateEnd>,
    /// The API's, where it comes from files.
    of_files: Option<Certificates>,
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
        let others = Others::default();
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
        let certificates = certificates.beside(&others);
        let starttls = Acceptor::new(&certificates, rules.smtp.deadlines.handshake())?;
        let mut ends = vec![end("smtp", &certificates)];
        let (smtps, acme_settings) = (settings.smtps, settings.acme);
        let mut of_files = None;
        let of_api = match settings.http {
            Some(paths) => {
                // The API's host name is not known here.
                let certified = Files::open(paths, None, clock.clone()).await?;
                files.push(Arc::clone(&certified));
                of_files = Some(certified.certificates().clone().beside(&others));
                of_files.clone()
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
        ends.push(("mta-sts", Arc::new(move || others.first_end(true))));
        let acme = None;
        Ok(Self {
            smtps,
            starttls,
            https,
            files,
            certificates,
            ends,
            of_files,
            acme_settings,
            challenges,
            acme,
        })
    }

    /// Installs the stored certificate of the authority, if one is named, and listens for its
    /// challenges. `published` finds where names lead; `domains` is where it reads whose policy hosts
    /// need certificates, too.
    pub(super) async fn start_acme(
        &mut self,
        rules: AcmeRules,
        guard: Guard,
        (lookup, published): (Lookup, Lookup),
        domains: Option<Store>,
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
            Http01 => Some(sockets.listen("acme", settings.http).await),
            TlsAlpn01 => None,
        };
        let shown = (self.certificates.clone(), self.challenges.clone());
        let egress = (client, published);
        let acme = Acme::on(listener, settings, Arc::new(rules), egress, shown, mint.clone()).await;
        // Without https, somebody else has the certificate of the policy.
        self.acme = Some(match domains.filter(|_| self.https.is_some()) {
            Some(store) => {
                let known = Arc::new(KnownDomains { store, read: Mutex::default() });
                let domains = Domains::by(move || Arc::clone(&known).now());
                acme.with_policy_hosts(domains, self.of_files.take())
            }
            None => acme,
        });
        Ok(())
    }

    /// How to read the certificate that SMTP clients are shown.
    pub(super) fn shown(&self) -> ShownCertificate {
        let certificates = self.certificates.clone();
        Arc::new(move |host| Some(certificates.current_for(host).certificate().clone()))
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
            acme.run(shutdown);
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
    let first = move || {
        let own = certificates.current().until();
        Some(certificates.others().first_end(false).map_or(own, |other| other.min(own)))
    };
    (listener, Arc::new(first))
}

/// The domains of accounts, read again only after a change.
struct KnownDomains {
    store: Store,
    /// The version of the directory before they were read: every change of domains makes a new one.
    read: Mutex<Option<(i64, Arc<BTreeSet<DomainName>>)>>,
}

impl KnownDomains {
    async fn now(
        self: Arc<Self>,
    ) -> Result<Arc<BTreeSet<DomainName>>, Box<dyn std::error::Error + Send + Sync>> {
        let mut read = self.read.lock().await;
        let version = self.store.directory_version().await?;
        if let Some((known, domains)) = &*read
            && *known == version
        {
            return Ok(Arc::clone(domains));
        }
        let mut all = BTreeSet::new();
        // Some at a time.
        loop {
            let some = self.store.owned_domains(all.last(), DOMAINS_AT_ONCE).await?;
            if some.is_empty() {
                break;
            }
            all.extend(some);
        }
        let all = Arc::new(all);
        *read = Some((version, Arc::clone(&all)));
        Ok(all)
    }
}

/// A listener with a certificate, and the certificate that a server of these settings would show;
/// None if there is none before the server runs: its authority or its first start makes it.
pub type OwnCertificate = (&'static str, Option<Certificate>);

/// The certificates of some settings.
#[derive(Default)]
pub struct OwnCertificates {
    pub of_listeners: Vec<OwnCertificate>,
    /// Those that an authority issued for names beside the hostname, hosts of policies too.
    pub of_names: Vec<(DomainName, Certificate)>,
    /// For hosts of policies: the one that ends first.
    pub of_policies: Option<Certificate>,
}

/// Reads the certificates of these settings, as a server does at its start; makes none.
pub async fn own_certificates(
    settings: &TlsSettings,
    place: &StorePlace,
    clock: &Clock,
) -> Result<OwnCertificates, RunError> {
    let read = async |paths: &Paths| {
        let files = Files::open(paths.clone(), None, clock.clone()).await?;
        Ok::<_, RunError>(files.certificates().current().certificate().clone())
    };
    // The server gets again what cannot be read.
    let stored = settings.acme.as_ref().map(acme::stored).transpose();
    let stored = stored.unwrap_or_default().unwrap_or_default();
    let smtp = match (&settings.smtp, &settings.acme, &place.database) {
        (Some(paths), _, _) => Some(read(paths).await?),
        (None, None, Location::Folder(folder)) => {
            let own = self_signed::load(&folder.join(TLS))?;
            own.map(|pair| pair.certificate().clone())
        }
        (None, Some(acme), _) => first(&stored, |name| acme.names.first() == Some(name)),
        (None, None, Location::Postgres(_)) => None,
    };
    let https = match &settings.http {
        Some(paths) => Some(read(paths).await?),
        None => smtp.clone(),
    };
    let https = settings.serves_https().then_some(("https", https));
    let of_policies = first(&stored, |name| domain_of(name.as_str()).is_some());
    let of_listeners = [("smtp", smtp)].into_iter().chain(https).collect();
    let further = settings.acme.as_ref().map_or(&[][..], |acme| acme.names.get(1..).unwrap_or(&[]));
    let is_shown = |name: &DomainName| further.contains(name) || domain_of(name.as_str()).is_some();
    let of_names = stored
        .iter()
        .filter(|(name, _)| is_shown(name))
        .map(|(name, pair)| (name.clone(), pair.certificate().clone()))
        .collect();
    Ok(OwnCertificates { of_listeners, of_names, of_policies })
}

/// Returns the certificate that ends first, of those with such names.
fn first(stored: &[(DomainName, Pair)], of: impl Fn(&DomainName) -> bool) -> Option<Certificate> {
    let wanted = stored.iter().filter(|(name, _)| of(name)).map(|(_, pair)| pair);
    wanted.min_by_key(|pair| pair.until()).map(|pair| pair.certificate().clone())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::tests::House;

    #[tokio::test]
    async fn domains_are_read_again_only_after_a_change() {
        let house = House::new().await;
        let known = Arc::new(KnownDomains { store: house.store.clone(), read: Mutex::default() });
        let read = async || Arc::clone(&known).now().await.unwrap();
        let (account, domain) = (house.id("org1"), DomainName::parse("added.example").unwrap());
        let before = read().await;
        assert!(Arc::ptr_eq(&before, &read().await));
        house.tenancy.add_domain(&domain, account).await.unwrap();
        let after = read().await;
        assert!(after.contains(&domain) && !before.contains(&domain));
        house.tenancy.remove_domain(&domain, account).await.unwrap();
        assert_eq!(read().await, before);
    }
}
