//! The pair in use, which can be replaced while sessions go on, and those for further names.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::domain::clock::Clock;
use crate::domain::domain_name::DomainName;

use super::others::Others;
use super::pair::{Pair, PairError};

/// The pair that new handshakes show. Clones share it; a session keeps the one with which it began.
#[derive(Clone)]
pub struct Certificates {
    shared: Arc<Shared>,
    others: Others,
}

struct Shared {
    current: RwLock<Pair>,
    host: Option<DomainName>,
    clock: Clock,
}

impl Certificates {
    /// Shows `first` until another pair is installed. `host` is the server's name for clients, if
    /// known.
    pub fn new(first: Pair, host: Option<DomainName>, clock: Clock) -> Self {
        let shared = Shared { current: RwLock::new(first.clone()), host, clock };
        let certificates = Self { shared: Arc::new(shared), others: Others::default() };
        certificates.announce(&first);
        certificates
    }

    /// Shows these, too: to clients that ask for their names.
    pub fn beside(self, others: &Others) -> Self {
        Self { others: others.clone(), ..self }
    }

    /// Shows this chain with this key, both PEM, from now on. On failure nothing changes.
    ///
    /// An expired certificate, or one for another host, is installed with a warning: senders of
    /// mail do not verify it (RFC 7435), and having none would be worse.
    pub fn install(&self, chain: &[u8], key: &[u8]) -> Result<(), PairError> {
        self.show(Pair::from_pem(chain, key)?);
        Ok(())
    }

    /// Shows this pair from now on.
    pub(super) fn show(&self, pair: Pair) {
        *self.shared.current.write().unwrap_or_else(PoisonError::into_inner) = pair.clone();
        self.announce(&pair);
    }

    pub fn current(&self) -> Pair {
        self.shared.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the pair for a client that asks for this name: the name's own, else the host's.
    pub fn current_for(&self, name: &str) -> Pair {
        self.others.get(name).unwrap_or_else(|| self.current())
    }

    /// Pairs for further names.
    pub const fn others(&self) -> &Others {
        &self.others
    }

    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    fn announce(&self, pair: &Pair) {
        let host = self.shared.host.as_ref();
        let shown = host.map(tracing::field::display);
        tracing::info!(
            tls.host = shown,
            tls.until = %pair.until(),
            tls.tlsa = pair.tlsa(),
            "certificate in use"
        );
        if !pair.is_valid(self.shared.clock.now()) {
            tracing::warn!(
                tls.host = shown,
                tls.until = %pair.until(),
                "the certificate has expired, or is not valid yet: clients that verify \
                 certificates will not connect; install a new one"
            );
        }
        if host.is_some_and(|host| !pair.names(host)) {
            tracing::warn!(
                tls.host = shown,
                "the certificate is for another host: clients that verify certificates will not \
                 connect; install one for this name, or correct --hostname"
            );
        }
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name();
        Some(name.map_or_else(|| self.current(), |name| self.current_for(name)).certified)
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificates")
    }
}
