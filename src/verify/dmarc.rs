//! DMARC (RFC 9989): evaluated and recorded. No policy makes an unaligned message acceptable, and a
//! missing record makes no aligned one worse. Only one thing counts: if the record that applies to
//! the From domain has `adkim=s`, no other domain speaks for it (contract §2).

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;

use mail_auth::dkim::Signature;
use mail_auth::dmarc::verify::DmarcParameters;
use mail_auth::dmarc::{self, DmarcRecord, Policy};
use mail_auth::{
    AuthenticatedMessage, DkimOutput, DkimResult, DmarcOutput, DmarcResult, Parameters,
};

use super::alignment::{Adkim, Relation, organizational};
use super::evidence::{Purpose, Recorder, micros};
use super::resolver::Resolver;
use super::spf::Spf;
use crate::domain::address::Address;
use crate::domain::domain_name::DomainName;
use crate::domain::evidence::dmarc as facts;
use crate::domain::evidence::{Facts, Step, Word, results};
use crate::rules::Alignment;

const BY_TREE: &str = "; the tree of DMARC records aligns a signature, but the public suffix \
                       list, which decides here, aligns none";
const BY_LIST: &str = "; the tree of DMARC records aligns no signature, but the public suffix \
                       list, which decides here, aligns one";

/// The DMARC result, and the policy of the From domain.
#[derive(Clone)]
pub(super) struct Dmarc {
    pub(super) result: &'static str,
    pub(super) adkim: Adkim,
    policy: Option<String>,
    pub(super) step: Step,
}

impl Dmarc {
    pub(super) fn summary(&self) -> results::Dmarc {
        results::Dmarc { result: self.result.into(), policy: self.policy.clone() }
    }
}

/// Key of the cache of results.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct DmarcQuestion {
    from: DomainName,
    signers: Vec<DomainName>,
    spf: Word,
    spf_domain: Option<DomainName>,
}

/// The facts that the result depends on, with the resolver and the deadline.
#[derive(Clone, Copy)]
pub(super) struct DmarcInput<'a> {
    pub(super) resolver: &'a Resolver,
    pub(super) sender: &'a Address,
    /// Domains of the signatures that verify and count.
    pub(super) signers: &'a [&'a DomainName],
    pub(super) spf: &'a Spf,
    pub(super) alignment: Alignment,
    pub(super) deadline: tokio::time::Instant,
}

pub(super) async fn check(input: DmarcInput<'_>) -> Dmarc {
    let start = Instant::now();
    let spf = input.spf;
    let asked = DmarcQuestion {
        from: input.sender.domain().clone(),
        signers: input.signers.iter().map(|signer| (*signer).clone()).collect(),
        spf: spf.step.result.clone(),
        spf_domain: spf.domain.clone(),
    };
    let known = &input.resolver.results().dmarc;
    if let Some(found) = known.find(&asked, start) {
        return found;
    }
    let found = evaluate(input, start).await;
    known.keep(asked, &found, start);
    found
}

async fn evaluate(input: DmarcInput<'_>, start: Instant) -> Dmarc {
    let DmarcInput { resolver, sender, signers, spf, alignment, deadline } = input;
    // DMARC queries no PTR names, so the address is not used.
    let recorder = Recorder::new(Purpose::Dmarc, IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    // mail-auth reads only the domain in From.
    let from = format!("From: <a@{}>\r\n\r\n", sender.domain());
    let signatures: Vec<Signature> = signers
        .iter()
        .map(|domain| Signature { d: domain.to_string(), ..Signature::default() })
        .collect();
    let passed: Vec<DkimOutput<'_>> = signatures
        .iter()
        .map(|signature| DkimOutput::from(DkimResult::Pass).with_signature(signature))
        .collect();
    let output = match AuthenticatedMessage::parse(from.as_bytes()) {
        None => None,
        Some(message) => {
            let spf_domain = spf.domain.as_ref().map_or("", DomainName::as_str);
            let asked = || {
                let parameters = DmarcParameters::new(&message, &passed, spf_domain, &spf.output);
                Parameters::new(parameters).with_cache(&recorder)
            };
            let check = || resolver.mail_auth().verify_dmarc(asked());
            recorder.evaluate(resolver, deadline, check).await
        }
    };
    let record = output.as_ref().and_then(|output| output.record());
    let policy =
        output.as_ref().filter(|_| record.is_some()).map(|output| output.policy().to_string());
    let result = output.as_ref().map_or("temperror", word);
    let mut detail = match &policy {
        Some(policy) => format!("{result}; the policy for {} is {policy}", sender.domain()),
        None => format!("{result}; no policy found for {}", sender.domain()),
    };
    // An unreadable record ends mail-auth's walk, but must not hide the organization's record.
    let mut is_known = output.as_ref().is_some_and(|output| word(output) != "temperror");
    if result == "permerror"
        && let Some(organization) = organizational(sender.domain())
    {
        is_known = recorder.look_up_txt(resolver, format!("_dmarc.{organization}"), deadline).await;
    }
    let adkim = adkim(output.as_ref(), is_known, &recorder, sender.domain());
    let relation = |signer| Relation::of(signer, sender.domain(), alignment).under(&adkim);
    let listed = signers.iter().any(|signer| relation(signer).is_aligned());
    // mail-auth walks the tree only if there is a record.
    let walked = output
        .as_ref()
        .filter(|_| record.is_some())
        .map(|output| *output.dkim_result() == DmarcResult::Pass);
    match (walked, listed) {
        (Some(true), false) => detail.push_str(BY_TREE),
        (Some(false), true) => detail.push_str(BY_LIST),
        _ => {}
    }
    let facts = facts::Dmarc {
        from: sender.domain().to_string(),
        dkim: signers.iter().map(ToString::to_string).collect(),
        spf: spf.step.result.clone(),
        spf_domain: spf.domain.as_ref().map(DomainName::to_string),
        aligned_by_list: listed,
        aligned_by_tree: walked,
        published: record.map(published),
    };
    let dns = recorder.evidence();
    let facts = Facts::Dmarc(facts);
    let step = Step { facts, result: result.into(), detail, dns, micros: micros(start) };
    Dmarc { result, adkim, policy, step }
}

/// Returns the applicable record for the evidence.
fn published(record: &Arc<DmarcRecord>) -> facts::Published {
    facts::Published {
        p: record.p.to_string().into(),
        sp: record.sp.to_string().into(),
        np: record.np.to_string().into(),
        t: record.t,
        adkim: record.adkim.to_string().into(),
        aspf: record.aspf.to_string().into(),
    }
}

/// Returns the alignment in the record that applies to `from`. If the records above are unknown,
/// the domain's own decides if there is one: no other overrides it (RFC 9989 §4.10).
fn adkim(
    output: Option<&DmarcOutput>,
    is_known: bool,
    recorder: &Recorder,
    from: &DomainName,
) -> Adkim {
    let policies = recorder.policies();
    let applied = output.and_then(DmarcOutput::record);
    let found = match applied {
        Some(applied) => policies.iter().find(|(_, policy)| Arc::ptr_eq(policy, applied)),
        None => {
            let own = format!("_dmarc.{from}");
            let own = policies.iter().find(|(name, _)| *name == own);
            if own.is_none() && !is_known {
                return Adkim::Unknown;
            }
            // An unreadable record hides no record below or above it.
            let above = policies.iter().filter(|(name, _)| is_above(name, from));
            let applies = |(_, policy): &&(String, Arc<DmarcRecord>)| {
                policy.p != Policy::Unspecified || !policy.rua.is_empty()
            };
            let above = above.filter(applies).max_by_key(|(name, _)| name.len());
            own.filter(applies).or(above)
        }
    };
    match found {
        Some((name, policy)) if policy.adkim == dmarc::Alignment::Strict => {
            Adkim::Strict { record: name.clone() }
        }
        _ => Adkim::Relaxed,
    }
}

/// Tells whether record `name` belongs to a domain above `from`, up to its organization.
fn is_above(name: &str, from: &DomainName) -> bool {
    let below = |name: &str, domain: &str| {
        name.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
    };
    let domain = name.strip_prefix("_dmarc.").filter(|domain| below(from.as_str(), domain));
    domain
        .zip(organizational(from))
        .is_some_and(|(domain, organization)| domain == organization || below(domain, organization))
}

fn word(output: &DmarcOutput) -> &'static str {
    match output.result() {
        DmarcResult::Pass => "pass",
        DmarcResult::Fail(_) => "fail",
        DmarcResult::TempError(_) => "temperror",
        DmarcResult::PermError(_) => "permerror",
        DmarcResult::None => "none",
    }
}
