//! The DNS of a mail domain: where its mail goes, and whether those hosts are this server.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::certificates::{Lasting, lasting};
use super::{Check, CheckSubject, mta_sts, tls_reports};
use crate::domain::clock::Timestamp;
use crate::domain::domain_name::DomainName;
use crate::domain::mta_sts::MtaSts;
use crate::domain::tls_report::ReportAddress;
use crate::egress::certificate::Certificate;
use crate::egress::guard::is_public;
use crate::store::Store;
use crate::verify::{Authenticator, Reverse, Unanswered};

/// Most hosts of a domain that are looked at, and most addresses of a host: more than honest ones
/// have.
const MOST_HOSTS: usize = 5;
const MOST_ADDRESSES: usize = 8;

/// How to read the certificate that SMTP clients are shown who ask for this host (each name may have
/// one); None if it is not known.
pub type ShownCertificate = Arc<dyn Fn(&str) -> Option<Certificate> + Send + Sync>;

/// This server, as its domains should name it.
#[derive(Clone)]
pub struct ServerFacts {
    pub hostname: DomainName,
    pub own: OwnAddresses,
    pub certificate: ShownCertificate,
    pub now: Timestamp,
    /// A certificate that ends within this time is warned of.
    pub expiry_warning: Duration,
    /// Where reports of senders on TLS are taken in, if they are.
    pub tls_reports: Option<ReportAddress>,
    /// The policy of MTA-STS that it serves for all domains, if it serves one.
    pub mta_sts: Option<MtaSts>,
    /// The end of all look-ups: each may wait for the one before.
    pub deadline: Instant,
    /// Others do not read addresses of the operator's networks: their names lead anywhere.
    pub is_for_operator: bool,
}

/// The addresses of this server's names, as far as they are known.
#[derive(Clone, Debug, Default)]
pub struct OwnAddresses(Vec<IpAddr>);

impl OwnAddresses {
    /// Looks the names up, in a quarter of the time until `deadline`: all other look-ups come after.
    pub async fn look_up(dns: &Authenticator, names: &[DomainName], deadline: Instant) -> Self {
        let now = Instant::now();
        let deadline = now + deadline.saturating_duration_since(now) / 4;
        let found = join_all(names.iter().map(|name| dns.addresses(name.to_string(), deadline)));
        Self(found.await.into_iter().flatten().flatten().collect())
    }

    /// Without those of the operator's networks: a customer, whose names lead anywhere, could try
    /// which they are.
    #[must_use]
    pub fn public(mut self) -> Self {
        self.0.retain(|address| is_public(*address));
        self
    }

    pub(super) fn have(&self, address: &IpAddr) -> bool {
        self.0.contains(address)
    }
}

/// Whether senders verify the certificate of a host by a policy of MTA-STS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verified {
    No,
    /// The policy may be another server's, or the host may be another server.
    Perhaps,
    Yes,
}

pub(super) const RESOLVERS: &str = "check the resolvers (--dns) and the name servers of the domain, then check \
                         again";

/// Checks one domain: MX, then for each host its addresses, their names, the certificate and TLSA;
/// at last MTA-STS and TLS-RPT. Without a store what senders report is left out.
pub async fn check(
    dns: &Authenticator,
    store: Option<&Store>,
    domain: &DomainName,
    facts: &ServerFacts,
) -> Vec<Check> {
    let (mut checks, reports) =
        tokio::join!(of_mail(dns, domain, facts), tls_reports::check(dns, store, domain, facts));
    checks.extend(reports);
    checks
}

async fn of_mail(dns: &Authenticator, domain: &DomainName, facts: &ServerFacts) -> Vec<Check> {
    let found = dns.exchangers(domain.to_string(), facts.deadline);
    let (found, policy) =
        tokio::join!(found, dns.texts(format!("_mta-sts.{domain}"), facts.deadline));
    let implicit = match &found {
        Ok(hosts) if hosts.is_empty() => {
            let addresses = dns.addresses(domain.to_string(), facts.deadline).await;
            addresses.is_ok_and(|addresses| !addresses.is_empty())
        }
        _ => false,
    };
    let first = mx(domain, &found, implicit, facts);
    let hosts = match implicit {
        true => vec![domain.to_string()],
        false => found.map(hosts_of).unwrap_or_default(),
    };
    let (mta_sts, verified) = mta_sts::check(dns, domain, &hosts, policy, facts).await;
    let hosts = if implicit { &[] } else { hosts.get(..MOST_HOSTS).unwrap_or(&hosts) };
    let own = |host: &String| host == facts.hostname.as_str();
    // Where none has our name, all may be other names of this server.
    let any_is_own = hosts.iter().any(own);
    let of_hosts = hosts.iter().map(|host| {
        let may_be_own = own(host) || !any_is_own;
        of_host(dns, host, HostRole { may_be_own, verified }, facts)
    });
    let of_hosts = join_all(of_hosts).await;
    [first].into_iter().chain(of_hosts.into_iter().flatten()).chain([mta_sts]).collect()
}

fn hosts_of(exchangers: Vec<(u16, String)>) -> Vec<String> {
    let mut hosts: Vec<String> = Vec::new();
    for (_, host) in exchangers {
        if !host.is_empty() && !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    hosts
}

fn mx(
    domain: &DomainName,
    found: &Result<Vec<(u16, String)>, Unanswered>,
    implicit: bool,
    facts: &ServerFacts,
) -> Check {
    let topic = Check::of(CheckSubject::Mx, domain.as_str());
    let hostname = &facts.hostname;
    let line = format!("{domain}. MX 10 {hostname}.");
    let exchangers = match found {
        Err(error) => {
            return topic.failure(format!("the MX record cannot be looked up: {error}"), RESOLVERS);
        }
        Ok(exchangers) => exchangers,
    };
    if exchangers.iter().any(|(_, host)| host.is_empty()) {
        let detail = "the MX record says that the domain takes no mail (RFC 7505)";
        return topic.failure(detail, "publish an MX record that names this server").paste(line);
    }
    let listed: Vec<String> =
        exchangers.iter().map(|(preference, host)| format!("{host} ({preference})")).collect();
    let listed = listed.join(", ");
    if exchangers.is_empty() {
        let advice = "publish an MX record that names this server";
        return match implicit {
            true => topic.warning(
                "there is no MX record: senders use the address of the domain itself",
                advice,
            ),
            false => topic.failure("there is no MX record: nobody can send mail here", advice),
        }
        .paste(line);
    }
    if exchangers.iter().any(|(_, host)| host == hostname.as_str()) {
        return topic.ok(format!("mail goes to {listed}"));
    }
    let detail = format!("mail goes to {listed}, and this server is {hostname}");
    let advice = "name this server in the MX record, or correct --hostname; right as it is if those \
                  hosts hand mail on to this server";
    topic.warning(detail, advice).paste(line)
}

#[derive(Clone, Copy)]
struct HostRole {
    /// The host may be this server, by its name or by another.
    may_be_own: bool,
    verified: Verified,
}

/// Checks of one mail exchanger.
async fn of_host(
    dns: &Authenticator,
    host: &str,
    role: HostRole,
    facts: &ServerFacts,
) -> Vec<Check> {
    let found = dns.addresses(host.to_owned(), facts.deadline);
    let associations = dns.tls_associations(format!("_25._tcp.{host}"), facts.deadline);
    let (found, associations) = tokio::join!(found, associations);
    let mut checks = vec![addresses(host, &found, facts)];
    let found = found.unwrap_or_default();
    let public = found.iter().filter(|address| is_public(**address)).take(MOST_ADDRESSES);
    checks.extend(join_all(public.map(|address| ptr(dns, *address, facts))).await);
    if role.may_be_own {
        let has_own = found.iter().any(|address| facts.own.have(address));
        let is_here = has_own || host == facts.hostname.as_str();
        let verified = match role.verified {
            Verified::Yes if !is_here => Verified::Perhaps,
            verified => verified,
        };
        checks.push(certificate(host, verified, facts));
        checks.push(tlsa(host, associations, is_here, facts));
    }
    checks
}

fn addresses(host: &str, found: &Result<Vec<IpAddr>, Unanswered>, facts: &ServerFacts) -> Check {
    let topic = Check::of(CheckSubject::Address, host);
    let listed = |list: &[IpAddr]| {
        let shown = list.iter().filter(|one| facts.is_for_operator || is_public(**one));
        shown.map(IpAddr::to_string).collect::<Vec<_>>().join(", ")
    };
    match found {
        Err(error) => topic.failure(format!("it cannot be looked up: {error}"), RESOLVERS),
        Ok(found) if found.is_empty() => topic
            .failure("it has no address: nobody can send mail there", "publish its address")
            .paste(format!("{host}. A (the public IPv4 address of this server)")),
        Ok(found) if !found.iter().any(|address| is_public(*address)) => topic.warning(
            match facts.is_for_operator {
                true => format!("it is {}: no public address", listed(found)),
                false => "it has no public address".to_owned(),
            },
            "publish the address by which the internet reaches this server; right as it is for \
             mail of your own network",
        ),
        Ok(found) => topic.ok(format!("it is {}", listed(found))),
    }
}

async fn ptr(dns: &Authenticator, address: IpAddr, facts: &ServerFacts) -> Check {
    let topic = Check::of(CheckSubject::Ptr, address.to_string());
    match dns.reverse(address, facts.deadline).await {
        (Reverse::Confirmed, detail) => topic.ok(detail),
        (Reverse::NotPublic, detail) => topic.skipped(detail),
        (Reverse::Unknown, detail) => topic.warning(detail, RESOLVERS),
        (Reverse::Unnamed | Reverse::Unconfirmed, detail) => topic.warning(
            detail,
            "ask those who gave you the address for a PTR record with the name of the host; some \
             senders ask for it",
        ),
    }
}

fn certificate(host: &str, verified: Verified, facts: &ServerFacts) -> Check {
    let topic = Check::of(CheckSubject::Certificate, host);
    let Some(certificate) = (facts.certificate)(host) else {
        return topic.skipped("the certificate of this server is not known here");
    };
    let name = DomainName::parse(host).ok().filter(|name| certificate.names(name));
    let fault = name.as_ref().filter(|_| verified != Verified::No);
    let fault = fault.and_then(|name| certificate.fault(name, facts.now));
    let (detail, advice) = match lasting(&certificate, facts.now, facts.expiry_warning) {
        Lasting::Well(until) if name.is_some() => match fault {
            None => return topic.ok(format!("it is for this host, {until}")),
            Some(fault) => (
                fault.to_owned(),
                "install one that an authority issued (--smtp-tls-cert or --acme-directory)",
            ),
        },
        Lasting::Well(_) => (
            format!("the certificate of this server is not for {host}"),
            "install a certificate for this name (--smtp-tls-cert or --acme-names)",
        ),
        Lasting::Badly(why) => {
            (why, "install a new certificate (--smtp-tls-cert or --acme-directory)")
        }
    };
    // Others do not verify it (RFC 7435).
    match verified {
        Verified::Yes => {
            topic.failure(format!("{detail}, and senders verify it (MTA-STS)"), advice)
        }
        Verified::Perhaps => topic.warning(
            format!("{detail}: senders verify it if the policy of MTA-STS enforces that here"),
            advice,
        ),
        Verified::No => {
            topic.warning(format!("{detail}: senders that verify it do not connect"), advice)
        }
    }
}

fn tlsa(
    host: &str,
    found: Result<Vec<String>, Unanswered>,
    is_here: bool,
    facts: &ServerFacts,
) -> Check {
    let topic = Check::of(CheckSubject::Tlsa, host);
    let Some(certificate) = (facts.certificate)(host) else {
        return topic.skipped("the key of this server is not known here");
    };
    let own = certificate.tlsa();
    let line = format!("_25._tcp.{host}. TLSA {own}");
    match found {
        Err(error) => topic.warning(format!("TLSA cannot be looked up: {error}"), RESOLVERS),
        Ok(found) if found.is_empty() => {
            topic.skipped("there is no TLSA record; DANE needs one, and DNSSEC").paste(line)
        }
        Ok(found) if found.iter().any(|one| certificate.matches_tlsa(one) == Some(true)) => {
            topic.ok("TLSA has the key in use (DNSSEC was not checked)")
        }
        Ok(found) if found.iter().any(|one| one.starts_with("2 ")) => topic
            .warning(
                "TLSA does not have the key in use, and its records for authorities (2) are not compared",
                "publish the key in use",
            )
            .paste(line),
        Ok(found) if found.iter().all(|one| certificate.matches_tlsa(one).is_none()) => topic
            .warning(
                "TLSA has no record that senders of mail can use (RFC 7672 §3.1)",
                "publish the key in use",
            )
            .paste(line),
        Ok(_) if !is_here => topic.warning(
            "TLSA has another key than the one of this server",
            "right as it is if the host is another server, which hands mail on to this one; else \
             publish the key in use",
        )
        .paste(line),
        Ok(_) => topic
            .failure(
                "TLSA has another key than the one in use: senders that use DANE do not deliver",
                "publish the key in use, or install the certificate of the published key",
            )
            .paste(line),
    }
}
