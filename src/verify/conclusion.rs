//! From what was found to what is concluded: the acceptance rule of contract §2, in one place.

use std::time::Instant;

use serde_json::{Value, json};

use super::alignment::organizational;
use super::arc::Arc;
use super::dkim::Judged;
use super::dmarc::Dmarc;
use super::evidence::{Step, micros, one_line};
use super::iprev::Iprev;
use super::keys::Keys;
use super::spf::Spf;
use super::{Authentication, Question, Unexamined};
use crate::domain::cause::{Cause, Particulars};
use crate::domain::domain_name::DomainName;
use crate::domain::policy::Proof;
use crate::domain::reason::Reason;
use crate::mail::fields::Known;
use crate::rules::IntakeRules;

/// Everything that was found out about one message.
pub(super) struct Findings<'f> {
    pub(super) question: &'f Question<'f>,
    pub(super) rules: &'f IntakeRules,
    pub(super) verified: Verified,
    pub(super) spf: Spf,
    pub(super) dmarc: Dmarc,
    pub(super) iprev: Iprev,
}

/// What the keys say of the message.
pub(super) struct Verified {
    pub(super) keys: std::sync::Arc<Keys>,
    /// Of those the ones of the chain.
    pub(super) chain_names: Vec<String>,
    pub(super) signatures: Vec<Judged>,
    pub(super) chain: Option<Arc>,
    pub(super) failure: Option<Unexamined>,
    pub(super) dkim_micros: u64,
    pub(super) chain_micros: u64,
}

impl Findings<'_> {
    /// The answer.
    pub(super) fn conclude(self) -> Authentication {
        let start = Instant::now();
        let (proof, detail) = self.proof();
        let detail = one_line(&detail);
        let blame = self.blame(proof);
        let explanation = blame.told(self.from());
        let signatures = self
            .verified
            .signatures
            .iter()
            .filter_map(|signature| signature.identity(|name| self.has(name)))
            .collect();
        let unsigned = self.winner().map(|winner| self.unsigned(winner)).unwrap_or_default();
        let summary = self.summary(&unsigned);
        let dkim = self.dkim_step(&summary);
        let alignment = self.alignment_step(proof, &detail, &blame, start);
        let chain = self.chain_step();
        let steps = [dkim, alignment, self.spf.step, chain, self.dmarc.step, self.iprev.step];
        let steps = steps.into_iter().map(Step::into_json).collect();
        Authentication { proof, signatures, unsigned, detail, explanation, steps, summary }
    }

    fn from(&self) -> &DomainName {
        self.question.headers.from.address.domain()
    }

    fn has(&self, field: Known) -> bool {
        self.question.headers.first(field).is_some()
    }

    /// The signature that authenticates, if one does.
    fn winner(&self) -> Option<&Judged> {
        self.verified
            .signatures
            .iter()
            .find(|signature| signature.claim.aligned && signature.counts())
    }

    fn proof(&self) -> (Proof, String) {
        match self.verified.failure {
            Some(Unexamined::OtherSender) => {
                let why = "the From field reads differently to different readers";
                return (Proof::Unproven(Reason::SenderInvalid), why.into());
            }
            Some(Unexamined::Busy) => {
                let why = "the message could not be examined in time";
                return (Proof::Undecidable(Reason::TooBusy), why.into());
            }
            None => {}
        }
        let from = self.from();
        if let Some(winner) = self.winner() {
            return (Proof::Authenticated, format!("signed by {}", winner.signer()));
        }
        if let Some(chain) = self.verified.chain.as_ref().filter(|chain| chain.stands_in) {
            let sealer = chain.sealer.as_deref().unwrap_or_default();
            return (Proof::Authenticated, format!("vouched for by {sealer} (ARC)"));
        }
        let undecided = self.verified.signatures.iter().find(|signature| signature.is_undecided());
        if let Some(signature) = undecided {
            let name = signature.claim.key_name.as_deref().unwrap_or_default();
            let detail = format!("the key at {name} could not be looked up");
            return (Proof::Undecidable(Reason::DnsUnavailable), detail);
        }
        if self.verified.chain.as_ref().is_some_and(|chain| chain.undecided) {
            let detail = "a key of the ARC chain could not be looked up";
            return (Proof::Undecidable(Reason::DnsUnavailable), detail.into());
        }
        let (reason, detail) = if self.verified.signatures.is_empty() {
            (Reason::DkimMissing, format!("no DKIM-Signature, From is {from}"))
        } else if let Some(other) = self.verified.signatures.iter().find(|s| s.counts()) {
            (Reason::DkimUnaligned, format!("signed by {}, From is {from}", other.signer()))
        } else if let Some(weak) = self.best(Judged::is_unacceptable) {
            (Reason::DkimUnacceptable, told(weak))
        } else {
            let failed = self.best(|_| true).map(told).unwrap_or_default();
            (Reason::DkimFailed, failed)
        };
        (Proof::Unproven(reason), detail)
    }

    /// What stood in the way, and of which signature it is said.
    fn blame(&self, proof: Proof) -> Blame {
        let undecided = self.verified.signatures.iter().find(|signature| signature.is_undecided());
        let (spoken, mut causes) = match proof {
            Proof::Undecidable(Reason::DnsUnavailable) if undecided.is_none() => {
                (None, vec![Cause::ChainKeyUnavailable])
            }
            Proof::Undecidable(Reason::DnsUnavailable) => (undecided, vec![Cause::KeyUnavailable]),
            Proof::Unproven(Reason::DkimMissing) => (None, vec![Cause::NotSigned]),
            Proof::Unproven(Reason::DkimUnaligned) => {
                (self.verified.signatures.iter().find(|one| one.counts()), Vec::new())
            }
            Proof::Unproven(Reason::DkimUnacceptable) => {
                let weak = self.best(Judged::is_unacceptable);
                (weak, weak.map(Judged::causes).unwrap_or_default())
            }
            Proof::Unproven(Reason::DkimFailed) => {
                let failed = self.best(|_| true);
                (failed, failed.map(Judged::causes).unwrap_or_default())
            }
            _ => (None, Vec::new()),
        };
        // Even if it were mended, it would not speak for From.
        let stranger = spoken.filter(|one| !one.claim.aligned && one.claim.domain.is_some());
        if let Some(stranger) = stranger {
            causes.push(Cause::of_unaligned(&stranger.signer()));
        }
        Blame {
            causes,
            signer: spoken.map(Judged::signer).unwrap_or_default(),
            selector: spoken.and_then(Judged::selector).unwrap_or_default(),
        }
    }

    /// The signature to speak of: an aligned one before any other.
    fn best(&self, wanted: impl Fn(&Judged) -> bool) -> Option<&Judged> {
        let of = |aligned: bool| {
            self.verified.signatures.iter().find(|s| s.claim.aligned == aligned && wanted(s))
        };
        of(true).or_else(|| of(false))
    }

    fn summary(&self, unsigned: &[Known]) -> Value {
        let unsigned = unsigned.iter().map(|name| name.as_str().to_ascii_lowercase());
        json!({
            "spf": self.spf.summary(),
            "dkim": self.verified.signatures.iter().map(Judged::summary).collect::<Vec<_>>(),
            "dmarc": self.dmarc.summary(),
            "arc": self.verified.chain.as_ref().map(Arc::summary),
            "iprev": self.iprev.summary(),
            "alignedDomain": self.winner().map(Judged::signer),
            "unsignedHeaders": unsigned.collect::<Vec<_>>(),
        })
    }

    /// The fields that are there and that the signature leaves open: of a field that is there more
    /// often than its name stands in `h=`, the first ones are (RFC 6376 §5.4.2).
    fn unsigned(&self, winner: &Judged) -> Vec<Known> {
        let signed = winner.signed_headers();
        let is_open = |known: &Known| {
            let covered = signed.iter().filter(|name| known.names(name.as_bytes())).count();
            self.question.headers.all(*known).count() > covered
        };
        Known::ALL.iter().copied().filter(|one| one.says_something() && is_open(one)).collect()
    }

    fn dkim_step(&self, summary: &Value) -> Step {
        let fields = self.question.headers.all(Known::DkimSignature).count();
        let rules = &self.rules.authentication;
        let best = self.winner().or_else(|| self.best(|_| true));
        // Where there is no room for all of the keys, those that may decide come first.
        let mut by_weight: Vec<_> = self.verified.signatures.iter().collect();
        by_weight.sort_by_key(|s| (!s.claim.aligned, !s.counts()));
        let names = by_weight.into_iter().filter_map(|s| s.claim.key_name.as_deref());
        Step {
            name: "dkim",
            result: best.map_or("none", Judged::result).to_owned(),
            detail: self
                .verified
                .signatures
                .iter()
                .map(|s| format!("{} {}", s.result(), one_line(&told(s))))
                .collect::<Vec<_>>()
                .join("\n"),
            inputs: json!({
                "fields": fields, "considered": self.verified.signatures.len(),
                "signatures": summary.get("dkim"),
                "minRsaBits": rules.min_rsa_bits, "countTestingKeys": rules.count_testing_keys,
                "maxFutureSeconds": rules.max_future_seconds,
            }),
            dns: self.verified.keys.evidence(names),
            micros: self.verified.dkim_micros,
        }
    }

    fn alignment_step(&self, proof: Proof, detail: &str, blame: &Blame, start: Instant) -> Step {
        let from = self.from();
        let signers: Vec<Value> = self
            .verified
            .signatures
            .iter()
            .filter_map(|s| Some((s, s.claim.domain.as_ref()?)))
            .map(|(s, domain)| {
                json!({
                    "domain": domain.as_str(), "organization": organizational(domain),
                    "aligned": s.claim.aligned, "counts": s.counts(),
                })
            })
            .collect();
        let result = match proof {
            Proof::Authenticated => "pass",
            Proof::Unproven(_) => "fail",
            Proof::Undecidable(_) => "temperror",
        };
        Step {
            name: "alignment",
            result: result.to_owned(),
            detail: detail.to_owned(),
            inputs: json!({
                "from": from.as_str(), "organization": organizational(from), "signers": signers,
                "rule": self.rules.authentication.alignment.as_str(),
                "causes": blame.causes.iter().map(|cause| cause.as_str()).collect::<Vec<_>>(),
                "signer": one_line(&blame.signer), "selector": one_line(&blame.selector),
            }),
            dns: Vec::new(),
            micros: micros(start),
        }
    }

    fn chain_step(&self) -> Step {
        let chain = self.verified.chain.as_ref();
        Step {
            name: "arc",
            result: chain.map_or("none", |chain| chain.result).to_owned(),
            detail: chain.map(|chain| chain.detail.clone()).unwrap_or_default(),
            inputs: chain.map_or_else(|| json!({}), Arc::summary),
            dns: self.verified.keys.evidence(self.verified.chain_names.iter().map(String::as_str)),
            micros: self.verified.chain_micros,
        }
    }
}

/// What stood in the way of authentication; nothing, if nothing did.
struct Blame {
    causes: Vec<Cause>,
    signer: String,
    selector: String,
}

impl Blame {
    fn told(&self, from: &DomainName) -> String {
        let (signer, selector) = (one_line(&self.signer), one_line(&self.selector));
        let of = Particulars { from: from.as_str(), signer: &signer, selector: &selector };
        self.causes.iter().map(|cause| cause.told(&of)).collect::<Vec<_>>().join(" ")
    }
}

/// One signature and why it is not what is wanted.
fn told(signature: &Judged) -> String {
    match signature.reason() {
        Some(reason) => format!("{}: {reason}", signature.signer()),
        None => signature.signer(),
    }
}
