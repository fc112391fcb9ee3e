//! Certificates for further names, which a client gets that asks for one of them (RFC 6066 §3).

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::pair::Pair;
use crate::domain::clock::Timestamp;
use crate::domain::domain_name::DomainName;
use crate::domain::mta_sts::domain_of;

/// Pairs by their names. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Others(Arc<RwLock<HashMap<String, Pair>>>);

impl Others {
    /// Shows this pair to clients that ask for `name`, from now on.
    pub(super) fn show(&self, name: &DomainName, pair: Pair) {
        tracing::info!(tls.name = %name, tls.until = %pair.until(), "certificate in use");
        let mut pairs = self.0.write().unwrap_or_else(PoisonError::into_inner);
        pairs.insert(name.as_str().to_owned(), pair);
    }

    pub(super) fn forget(&self, name: &DomainName) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(name.as_str());
    }

    pub(super) fn get(&self, name: &str) -> Option<Pair> {
        let pairs = self.0.read().unwrap_or_else(PoisonError::into_inner);
        pairs.get(&name.to_ascii_lowercase()).cloned()
    }

    /// Returns the end of the certificate that ends first, of those for policy hosts, or of the rest.
    pub fn first_end(&self, of_policies: bool) -> Option<Timestamp> {
        let pairs = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let wanted = pairs.iter().filter(|(name, _)| domain_of(name).is_some() == of_policies);
        wanted.map(|(_, pair)| pair.until()).min()
    }
}
