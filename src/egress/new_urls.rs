//! Checks URLs when customers name them.
//!
//! The guard judges texts, and addresses when they are dialled. A name that only the operator's
//! networks may allow (plain http, other ports, names of private networks) is looked up here, too:
//! else it would be accepted now and refused at each attempt.

use std::time::Duration;

use tokio::time::timeout;
use url::Url;

use super::guard::{Guard, Reach, UrlError};
use super::lookup::Lookup;

/// Judges the URLs of new destinations. Cheap to clone.
#[derive(Clone)]
pub struct NewUrls {
    guard: Guard,
    lookup: Lookup,
    within: Duration,
}

impl std::fmt::Debug for NewUrls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewUrls").field("guard", &self.guard).finish_non_exhaustive()
    }
}

impl NewUrls {
    /// `within` bounds the look-up of a name.
    pub const fn new(guard: Guard, lookup: Lookup, within: Duration) -> Self {
        Self { guard, lookup, within }
    }

    /// Parses the URL of a new destination. Unless all addresses of its host are inside the
    /// operator's networks, the public rule decides, in its words. Every error is safe to show to
    /// the customer.
    pub async fn destination(&self, text: &str) -> Result<Url, UrlError> {
        let url = self.guard.destination(text)?;
        let (Some(name), Err(error)) = (url.domain(), self.guard.by_public_rule(&url)) else {
            return Ok(url);
        };
        // A name that cannot be looked up is inside no network.
        let found = timeout(self.within, self.lookup.look(name)).await;
        let addresses = found.ok().and_then(Result::ok).unwrap_or_default();
        let is_inside = |address| self.guard.admits(address, Reach::OperatorOnly);
        let all_inside = !addresses.is_empty() && addresses.into_iter().all(is_inside);
        if all_inside { Ok(url) } else { Err(error) }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::rules::Rules;

    fn urls(allowed: &[&str], addresses: &'static [&str]) -> NewUrls {
        let allowed = allowed.iter().map(|network| network.parse().unwrap()).collect();
        let guard = Guard::new(allowed, &Rules::defaults().unwrap().webhooks);
        let lookup = Lookup::new(move |_| async move {
            Ok(addresses.iter().map(|address| address.parse::<IpAddr>().unwrap()).collect())
        });
        NewUrls::new(guard, lookup, Duration::from_secs(5))
    }

    /// Names that only the operator's networks may allow, with their faults by the public rule.
    const PRIVATE: [(&str, UrlError); 4] = [
        ("http://hooks.example/", UrlError::NotHttps),
        ("https://hooks.example:22/", UrlError::Port),
        ("https://localhost/", UrlError::PrivateHost),
        ("https://crm.internal/", UrlError::PrivateHost),
    ];

    #[tokio::test]
    async fn http_and_odd_ports_are_for_hosts_inside_the_allowed_networks_only() {
        let inside = urls(&["10.0.0.0/8", "fd00::/8"], &["10.1.2.3", "fd00::1", "::ffff:10.1.2.4"]);
        for (url, _) in PRIVATE {
            assert_eq!(inside.destination(url).await.unwrap().as_str(), url);
        }
        // One address outside is enough; none at all is no address inside.
        for addresses in [
            &["93.184.216.34"][..],
            &["10.1.2.3", "8.8.8.8"],
            &["192.168.0.1"],
            &["127.0.0.1"],
            &[],
        ] {
            let outside = urls(&["10.0.0.0/8"], addresses);
            for (url, error) in PRIVATE {
                assert_eq!(outside.destination(url).await, Err(error), "{url} at {addresses:?}");
            }
            // A URL that is public by its text is judged by its address at each attempt.
            outside.destination("https://hooks.example/").await.unwrap();
        }
        // Without networks nothing is looked up.
        for (url, error) in PRIVATE {
            assert_eq!(urls(&[], &["10.1.2.3"]).destination(url).await, Err(error), "{url}");
        }
    }

    #[tokio::test]
    async fn a_look_up_without_an_end_or_with_an_error_is_no_address() {
        let guard = urls(&["10.0.0.0/8"], &[]).guard;
        let silent = Lookup::new(|_| std::future::pending());
        let failing = Lookup::new(|_| async { Err(std::io::Error::other("no such name")) });
        for lookup in [silent, failing] {
            let urls = NewUrls::new(guard.clone(), lookup, Duration::from_millis(10));
            let refused = urls.destination("http://hooks.example/").await;
            assert_eq!(refused, Err(UrlError::NotHttps));
        }
    }
}
