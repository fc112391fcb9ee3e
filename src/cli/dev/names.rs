//! The people of `gatepost dev`, their domains, and the DNS that publishes these. All names end in
//! `.example`, which can be nobody's (RFC 2606).

use super::folder::Folder;
use crate::cli::Failure;
use crate::cli::local::DOMAIN;
use crate::testkit::dns::Zone;
use crate::testkit::signer::{Key, Signer};

/// The Agent.
pub(super) const AGENT: &str = "agent@agents.example";
/// The one sender on its list.
pub(super) const SENDER: &str = "alice@good.example";
/// Somebody who owns a domain, too.
pub(super) const STRANGER: &str = "eve@evil.example";
/// gооd.example with Cyrillic letters, as an A-label.
pub(super) const LOOKALIKE: &str = "alice@xn--gd-fmca.example";

/// The selector of all keys.
const SELECTOR: &str = "dev";
/// The senders' domains; each has a key of its own.
pub(super) const DOMAINS: [&str; 3] = ["good.example", "evil.example", "xn--gd-fmca.example"];

/// The file's name says selector and domain, as `gatepost send --sign` reads it.
pub(super) fn key_file(domain: &str) -> String {
    format!("{SELECTOR}._domainkey.{domain}.pem")
}

/// Signs for one of the domains.
pub(super) fn signer(folder: &Folder, domain: &str) -> Result<Signer, Failure> {
    Ok(Signer::new(folder.domain_key(domain)?, domain, SELECTOR))
}

/// A new key for a domain.
pub(super) fn new_key() -> Result<Key, Failure> {
    Ok(Key::generate_rsa()?)
}

/// The zone of the DNS on this machine: the domains with their keys, and the loopback's own name
/// (RFC 6761 §6.3).
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
