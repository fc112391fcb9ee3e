//! Records of the DNS as they are published now, for those who set a domain up. The path of a
//! message does not come here: its look-ups are evidence.

use std::net::IpAddr;

use mail_auth::hickory_resolver::proto::rr::{RData, RecordType};
use tokio::time::Instant;

use super::answer::{Answer, Outcome};
use super::iprev::{self, Reverse};
use super::{Authenticator, Unanswered};

impl Authenticator {
    /// Returns the TXT records of a name without using the cache, each with its character strings
    /// joined (RFC 1035 §3.3.14); empty if there are none. Fails if the DNS does not answer by
    /// `deadline`.
    pub async fn texts(&self, name: String, deadline: Instant) -> Result<Vec<Vec<u8>>, Unanswered> {
        let answer = self.look_up(name, RecordType::TXT, deadline).await?;
        Ok(answer.texts().unwrap_or_default())
    }

    /// Returns the mail exchangers of a domain with their preferences, the most preferred first;
    /// an empty name is that of RFC 7505, which takes no mail.
    pub async fn exchangers(
        &self,
        domain: String,
        deadline: Instant,
    ) -> Result<Vec<(u16, String)>, Unanswered> {
        let mut hosts = self.look_up(domain, RecordType::MX, deadline).await?.hosts();
        hosts.sort();
        Ok(hosts)
    }

    /// Returns the addresses of a host, IPv4 first.
    pub async fn addresses(
        &self,
        host: String,
        deadline: Instant,
    ) -> Result<Vec<IpAddr>, Unanswered> {
        let (old, new) = tokio::join!(
            self.look_up(host.clone(), RecordType::A, deadline),
            self.look_up(host, RecordType::AAAA, deadline)
        );
        match (old, new) {
            (Ok(old), Ok(new)) => Ok([old.addresses(), new.addresses()].concat()),
            // One family is enough to reach the host.
            (Ok(one), Err(error)) | (Err(error), Ok(one)) => {
                let found = one.addresses();
                if found.is_empty() { Err(error) } else { Ok(found) }
            }
            (Err(error), Err(_)) => Err(error),
        }
    }

    /// Returns the TLSA records of a name as zone files have them (`3 1 1` and the hash in lower
    /// case). Their DNSSEC signatures are not checked.
    pub async fn tls_associations(
        &self,
        name: String,
        deadline: Instant,
    ) -> Result<Vec<String>, Unanswered> {
        let answer = self.look_up(name, RecordType::TLSA, deadline).await?;
        let found = answer.records(|data| match data {
            RData::TLSA(tlsa) => {
                let hex = tlsa.cert_data.iter().map(|octet| format!("{octet:02x}"));
                let hex: String = hex.collect();
                let usage = u8::from(tlsa.cert_usage);
                Some(format!(
                    "{usage} {} {} {hex}",
                    u8::from(tlsa.selector),
                    u8::from(tlsa.matching)
                ))
            }
            _ => None,
        });
        Ok(found.unwrap_or_default())
    }

    /// Looks up the names of an address, and whether one leads back. Returns it in words, too.
    pub async fn reverse(&self, address: IpAddr, deadline: Instant) -> (Reverse, String) {
        let ask = |name, kind| self.resolver.query(name, kind, deadline);
        let asked = iprev::reverse(address, ask).await;
        (asked.result, asked.detail)
    }

    async fn look_up(
        &self,
        name: String,
        kind: RecordType,
        deadline: Instant,
    ) -> Result<Answer, Unanswered> {
        let answer = self.resolver.query(name, kind, deadline).await;
        match answer.outcome() {
            Outcome::Temporary(why) => Err(Unanswered(why.clone())),
            _ => Ok(answer),
        }
    }
}
