//! MTA-STS of a mail domain: the record that announces its policy, and the policy that this server
//! serves.

use super::certificates::{Lasting, lasting};
use super::domain::{RESOLVERS, ServerFacts, Verified};
use super::{Check, CheckSubject, CheckTopic};
use crate::domain::domain_name::DomainName;
use crate::domain::mta_sts::{MtaStsMode, host_of};
use crate::egress::certificate::Certificate;
use crate::verify::{Authenticator, Unanswered};

/// Returns the check, and whether senders verify certificates by a policy. `hosts` are those of the MX
/// record, or the domain itself.
pub(super) async fn check(
    dns: &Authenticator,
    domain: &DomainName,
    hosts: &[String],
    found: Result<Vec<Vec<u8>>, Unanswered>,
    facts: &ServerFacts,
) -> (Check, Verified) {
    let topic = Check::of(CheckSubject::MtaSts, domain.as_str());
    let records = match found {
        Err(error) => {
            let detail = format!("_mta-sts.{domain} cannot be looked up: {error}");
            return (topic.warning(detail, RESOLVERS), Verified::No);
        }
        Ok(records) => records,
    };
    let mut policies = records.iter().map(|text| String::from_utf8_lossy(text));
    let mut policies = policies.by_ref().filter(|text| text.starts_with("v=STSv1"));
    match (policies.next(), policies.next()) {
        (None, _) => (unannounced(topic, domain, facts), Verified::No),
        (Some(_), Some(_)) => {
            let detail = format!("_mta-sts.{domain} has several records: senders use none");
            (topic.warning(detail, "publish one record v=STSv1; id=…"), Verified::No)
        }
        (Some(policy), None) => match policy_id(&policy) {
            Some(id) => announced(topic, dns, domain, hosts, id, facts).await,
            None => {
                let detail = format!("the record of _mta-sts.{domain} has no id: senders use none");
                (
                    topic.warning(detail, "publish v=STSv1; id=… with letters and digits"),
                    Verified::No,
                )
            }
        },
    }
}

fn unannounced(topic: CheckTopic, domain: &DomainName, facts: &ServerFacts) -> Check {
    const DETAIL: &str = "no policy is announced: senders encrypt without verifying";
    if facts.mta_sts.as_ref().is_none_or(|own| own.mode == MtaStsMode::None) {
        return topic.skipped(DETAIL);
    }
    topic
        .skipped(format!("{DETAIL}. This server serves one (--mta-sts): announce it"))
        .paste(format!("_mta-sts.{domain}. TXT \"v=STSv1; id=1\""))
}

/// A policy with this id. Its file is not fetched; a server with a policy serves it for all domains.
async fn announced(
    topic: CheckTopic,
    dns: &Authenticator,
    domain: &DomainName,
    hosts: &[String],
    id: &str,
    facts: &ServerFacts,
) -> (Check, Verified) {
    let file = format!("https://mta-sts.{domain}/.well-known/mta-sts.txt");
    let Some(policy) = &facts.mta_sts else {
        let check = topic.warning(
            format!("policy {id} is announced, and this server does not serve its file {file}"),
            match facts.is_for_operator {
                true => {
                    "start with --mta-sts, or take the record away; right as it is if another \
                         server serves the file"
                }
                false => "take the record away; right as it is if another server serves the file",
            },
        );
        return (check, Verified::Perhaps);
    };
    let mut leads_here = false;
    if let Some(host) = host_of(domain) {
        let found = dns.addresses(host.to_string(), facts.deadline).await;
        if found.as_ref().is_ok_and(Vec::is_empty) {
            let detail = format!(
                "policy {id} is announced, and {host} has no address: senders cannot read it"
            );
            let advice = "publish the address of the API of this server under that name";
            let line = format!("{host}. CNAME {}.", facts.hostname);
            return (topic.warning(detail, advice).paste(line), Verified::No);
        }
        // By all its addresses, as for its certificate (`tls::acme::leading`).
        leads_here = found.is_ok_and(|found| found.iter().all(|one| facts.own.have(one)));
    }
    let verified = match (policy.mode, leads_here) {
        (MtaStsMode::Enforce, true) => Verified::Yes,
        (_, true) => Verified::No,
        (_, false) => Verified::Perhaps,
    };
    let is_covered = |host: &&String| DomainName::parse(host).is_ok_and(|one| policy.covers(&one));
    let outside: Vec<_> = hosts.iter().filter(|host| !is_covered(host)).cloned().collect();
    if !outside.is_empty() && policy.mode != MtaStsMode::None {
        let outside = outside.join(", ");
        let advice = match facts.is_for_operator {
            true => format!("name {outside} by --mta-sts-mx, or take it out of the MX record"),
            false => format!("take {outside} out of the MX record, or ask the operator to name it"),
        };
        let detail = |then| {
            format!("the policy of this server does not name {outside} of the MX record: {then}")
        };
        let check = match (policy.mode, verified) {
            (MtaStsMode::Enforce, Verified::Yes) => {
                topic.failure(detail("senders that keep to it do not deliver there"), advice)
            }
            // Its file may be another one's.
            (MtaStsMode::Enforce, _) => topic.warning(
                detail("senders that keep to it do not deliver there"),
                format!(
                    "{advice}; right as it is if another server serves {file}: not all addresses of \
                     mta-sts.{domain} are known as this one's"
                ),
            ),
            _ => topic.warning(detail("senders report that as a failure"), advice),
        };
        return (check, verified);
    }
    let detail = format!("policy {id}; its file {file} was not fetched");
    (of_certificate(topic, domain, detail, facts), verified)
}

/// If ACME got a certificate for the host of the policy alone, that is looked at; a certificate of
/// mail is not shown to readers of the policy.
fn of_certificate(
    topic: CheckTopic,
    domain: &DomainName,
    detail: String,
    facts: &ServerFacts,
) -> Check {
    let own = host_of(domain).and_then(|host| {
        let own = |one: &Certificate| one.names(&host) && !one.names(&facts.hostname);
        (facts.certificate)(host.as_str()).filter(own)
    });
    match own.map(|own| lasting(&own, facts.now, facts.expiry_warning)) {
        None => topic.ok(detail),
        Some(Lasting::Well(until)) => {
            topic.ok(format!("{detail}; the certificate for it is good {until}"))
        }
        Some(Lasting::Badly(why)) => topic.warning(
            format!("{detail}; {why}"),
            format!("let mta-sts.{domain} lead to this server, which renews the certificate then"),
        ),
    }
}

/// The id of a policy: 1 to 32 letters and digits (RFC 8461 §3.1).
fn policy_id(record: &str) -> Option<&str> {
    let fields = record.split(';').filter_map(|field| field.split_once('='));
    let id =
        fields.map(|(name, value)| (name.trim(), value.trim())).find(|(name, _)| *name == "id");
    let (_, id) = id?;
    let is_plain = (1..=32).contains(&id.len()) && id.bytes().all(|c| c.is_ascii_alphanumeric());
    is_plain.then_some(id)
}
