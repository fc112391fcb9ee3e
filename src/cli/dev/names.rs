//! The people of `gatepost dev`, their domains and DNS records. All names end in `.example`, which
//! nobody can own (RFC 2606).

use super::folder::Folder;
use crate::cli::Failure;
use crate::cli::local::DOMAIN;
use crate::cli::send;
use crate::testkit::dns::Zone;
use crate::testkit::signer::{Key, Signer};

pub(super) const AGENT: &str = "agent@agents.example";
/// The only sender on the Agent's list.
pub(super) const SENDER: &str = "alice@good.example";
/// Owner of another domain.
pub(super) const STRANGER: &str = "eve@evil.example";
/// gооd.example with Cyrillic letters, as an A-label.
pub(super) const LOOKALIKE: &str = "alice@xn--gd-fmca.example";

/// The selector of all keys.
const SELECTOR: &str = "dev";
/// The senders' domains; each has its own key.
pub(super) const DOMAINS: [&str; 3] = ["good.example", "evil.example", "xn--gd-fmca.example"];

pub(super) fn key_file(domain: &str) -> String {
    send::key_file(SELECTOR, domain)
}

/// A signer for one of the domains.
pub(super) fn signer(folder: &Folder, domain: &str) -> Result<Signer, Failure> {
    Ok(Signer::new(folder.domain_key(domain)?, domain, SELECTOR))
}

pub(super) fn new_key() -> Result<Key, Failure> {
    Ok(Key::generate_rsa()?)
}

/// The local DNS zone: the domains with their keys, and the name of the loopback (RFC 6761 §6.3).
pub(super) fn zone(folder: &Folder) -> Result<Zone, Failure> {
    let mut zone = Zone::default();
    for domain in DOMAINS.into_iter().chain([DOMAIN]) {
        zone.insert(domain, "A", "NOERROR", "127.0.0.1")?;
        zone.insert(domain, "MX", "NOERROR", &format!("10 {domain}."))?;
        zone.insert(domain, "TXT", "NOERROR", "v=spf1 ip4:127.0.0.1 -all")?;
        zone.insert(&format!("_dmarc.{domain}"), "TXT", "NOERROR", "v=DMARC1; p=reject")?;
    }
    for domain in DOMAINS {
        let signer = signer(folder, domain)?;
        zone.insert(&signer.key_name(), "TXT", "NOERROR", &signer.key().txt_record()?)?;
    }
    zone.insert("localhost", "A", "NOERROR", "127.0.0.1")?;
    zone.insert("localhost", "AAAA", "NOERROR", "::1")?;
    Ok(zone)
}
