//! Draws the conclusion from all findings: the acceptance rule of contract §2, in one place.

use std::time::Instant;

use super::alignment::{Adkim, Relation, organizational};
use super::arc::ArcChain;
use super::dkim::{JudgedSignature, codes};
use super::dmarc::Dmarc;
use super::evidence::{micros, one_line};
use super::iprev::Iprev;
use super::keys::Keys;
use super::spf::Spf;
use super::{Authentication, Unexamined};
use crate::domain::cause::{Cause, Particulars};
use crate::domain::domain_name::DomainName;
use crate::domain::evidence::alignment::{self, Signer};
use crate::domain::evidence::results::Results;
use crate::domain::evidence::{Facts, Step, Word, arc, count, dkim};
use crate::domain::policy::Proof;
use crate::domain::reason::Reason;
use crate::mail::fields::KnownField;
use crate::mail::scan::Headers;
use crate::rules::IntakeRules;

/// All findings about one message.
pub(super) struct Findings<'f> {
    pub(super) headers: &'f Headers<'f>,
    pub(super) rules: &'f IntakeRules,
    pub(super) verified: Verified,
    pub(super) spf: Spf,
    pub(super) dmarc: Dmarc,
    pub(super) iprev: Iprev,
}

/// Findings of DKIM and ARC.
pub(super) struct Verified {
    pub(super) keys: std::sync::Arc<Keys>,
    /// Names of the chain's keys, which are among `keys`.
    pub(super) chain_names: Vec<String>,
    pub(super) signatures: Vec<JudgedSignature>,
    pub(super) chain: Option<ArcChain>,
    pub(super) failure: Option<Unexamined>,
    pub(super) dkim_micros: u64,
    pub(super) chain_micros: u64,
}

impl Verified {
    /// Applies the DMARC record of the From domain.
    pub(super) fn apply_adkim(&mut self, adkim: &Adkim) {
        self.signatures.iter_mut().for_each(|signature| signature.apply_adkim(adkim));
        self.chain.iter_mut().for_each(|chain| chain.apply_adkim(adkim));
    }

    fn first(&self, wanted: impl Fn(&JudgedSignature) -> bool) -> Option<&JudgedSignature> {
        self.signatures.iter().find(|signature| wanted(signature))
    }

    fn chain_is(&self, wanted: impl Fn(&ArcChain) -> bool) -> bool {
        self.chain.as_ref().is_some_and(wanted)
    }

    /// Returns why the result is still open: for want of a DNS answer, or until a time to come.
    fn pending(&self) -> Option<Pending<'_>> {
        let of =
            |relation| move |one: &JudgedSignature| one.claim.relation == relation && one.counts();
        let coming = |one: &JudgedSignature| one.is_to_come() && one.claim.relation.may_align();
        if let Some(signature) = self.first(JudgedSignature::is_undecided) {
            Some(Pending::Key(signature))
        } else if self.chain_is(|chain| chain.undecided) {
            Some(Pending::ChainKey)
        } else if let Some(signature) = self.first(of(Relation::Open)) {
            Some(Pending::Dmarc(Some(signature)))
        } else if self.chain_is(|chain| chain.stands_in && !chain.authenticates()) {
            Some(Pending::Dmarc(None))
        } else if let Some(signature) = self.first(coming) {
            Some(Pending::Time(Some(signature)))
        } else {
            self.chain_is(|chain| chain.to_come).then_some(Pending::Time(None))
        }
    }

    /// Returns a signature that counts but does not align; one that the From domain forbids comes
    /// first.
    fn unaligned_signature(&self) -> Option<&JudgedSignature> {
        let forbidden =
            |one: &JudgedSignature| one.claim.relation == Relation::Forbidden && one.counts();
        self.first(forbidden).or_else(|| self.first(JudgedSignature::counts))
    }
}

/// Why authentication is undecided, with the signature concerned; None for the chain.
enum Pending<'v> {
    /// The key look-up failed.
    Key(&'v JudgedSignature),
    ChainKey,
    /// The look-up of the From domain's DMARC record failed.
    Dmarc(Option<&'v JudgedSignature>),
    /// Made in the future by our clock.
    Time(Option<&'v JudgedSignature>),
}

impl<'v> Pending<'v> {
    fn reason(&self, from: &DomainName) -> (Reason, String) {
        let detail = match self {
            Self::Key(signature) => {
                let name = signature.claim.key_name.as_deref().unwrap_or_default();
                format!("the key at {name} could not be looked up")
            }
            Self::ChainKey => "a key of the ARC chain could not be looked up".into(),
            Self::Dmarc(Some(signature)) => {
                let signer = signature.signer();
                format!("signed by {signer}, the DMARC record of {from} could not be looked up")
            }
            Self::Dmarc(None) => format!("the DMARC record of {from} could not be looked up"),
            Self::Time(Some(signature)) => return (Reason::DkimNotYetValid, describe(signature)),
            Self::Time(None) => {
                let detail = "the ARC chain was sealed ahead of our clock (t=)";
                return (Reason::DkimNotYetValid, detail.into());
            }
        };
        (Reason::DnsUnavailable, detail)
    }

    const fn cause(&self) -> (Option<&'v JudgedSignature>, Cause) {
        match self {
            Self::Key(signature) => (Some(*signature), Cause::KeyUnavailable),
            Self::ChainKey => (None, Cause::ChainKeyUnavailable),
            Self::Dmarc(signature) => (*signature, Cause::DmarcUnavailable),
            Self::Time(Some(signature)) => (Some(*signature), Cause::NotYetValid),
            Self::Time(None) => (None, Cause::ChainNotYetValid),
        }
    }
}

impl Findings<'_> {
    pub(super) fn conclude(self) -> Authentication {
        let start = Instant::now();
        let (proof, detail) = self.proof();
        let detail = one_line(&detail);
        let causes = self.causes(proof);
        let explanation = causes.explanation(self.from());
        let signatures = self
            .verified
            .signatures
            .iter()
            .filter_map(|signature| signature.identity(|name| self.has(name)))
            .collect();
        let unsigned = self.signed().map(|signed| self.unsigned(signed)).unwrap_or_default();
        let results = self.results(&unsigned);
        let dkim = self.dkim_step(&results);
        let alignment = self.alignment_step(proof, &detail, &causes, start);
        let chain = self.chain_step();
        let steps = [dkim, alignment, self.spf.step, chain, self.dmarc.step, self.iprev.step];
        Authentication { proof, signatures, unsigned, detail, explanation, steps, results }
    }

    fn from(&self) -> &DomainName {
        self.headers.from.address.domain()
    }

    fn has(&self, field: KnownField) -> bool {
        self.headers.first(field).is_some()
    }

    /// Returns the signature that authenticates the message.
    fn authenticating_signature(&self) -> Option<&JudgedSignature> {
        self.verified
            .signatures
            .iter()
            .find(|signature| signature.claim.relation.is_aligned() && signature.counts())
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
        if let Some(signature) = self.authenticating_signature() {
            return (Proof::Authenticated, format!("signed by {}", signature.signer()));
        }
        if let Some(chain) = self.verified.chain.as_ref().filter(|chain| chain.authenticates()) {
            let sealer = chain.sealer.as_deref().unwrap_or_default();
            return (Proof::Authenticated, format!("vouched for by {sealer} (ARC)"));
        }
        if let Some(pending) = self.verified.pending() {
            let (reason, detail) = pending.reason(from);
            return (Proof::Undecidable(reason), detail);
        }
        let (reason, detail) = if self.verified.signatures.is_empty() {
            (Reason::DkimMissing, format!("no DKIM-Signature, From is {from}"))
        } else if let Some(other) = self.verified.unaligned_signature() {
            let mut detail = format!("signed by {}, From is {from}", other.signer());
            if other.claim.relation == Relation::Forbidden {
                detail.push_str(&format!(" (adkim=s at {})", self.dmarc.adkim.record()));
            }
            (Reason::DkimUnaligned, detail)
        } else if let Some(weak) = self.reported_signature(JudgedSignature::is_unacceptable) {
            (Reason::DkimUnacceptable, describe(weak))
        } else {
            let failed = self.reported_signature(|_| true).map(describe).unwrap_or_default();
            (Reason::DkimFailed, failed)
        };
        (Proof::Unproven(reason), detail)
    }

    /// Returns the causes that prevented authentication, and the signature concerned.
    fn causes(&self, proof: Proof) -> ProofCauses {
        let pending = self.verified.pending().filter(|_| matches!(proof, Proof::Undecidable(_)));
        let (spoken, mut causes) = match proof {
            Proof::Undecidable(Reason::DnsUnavailable | Reason::DkimNotYetValid) => {
                let (spoken, cause) = pending.map(|pending| pending.cause()).unzip();
                (spoken.flatten(), cause.into_iter().collect())
            }
            Proof::Unproven(Reason::DkimMissing) => (None, vec![Cause::NotSigned]),
            Proof::Unproven(Reason::DkimUnaligned) => {
                (self.verified.unaligned_signature(), Vec::new())
            }
            Proof::Unproven(Reason::DkimUnacceptable) => {
                let weak = self.reported_signature(JudgedSignature::is_unacceptable);
                (weak, weak.map(JudgedSignature::causes).unwrap_or_default())
            }
            Proof::Unproven(Reason::DkimFailed) => {
                let failed = self.reported_signature(|_| true);
                (failed, failed.map(JudgedSignature::causes).unwrap_or_default())
            }
            _ => (None, Vec::new()),
        };
        // Even without the other causes it would not speak for From.
        if let Some(spoken) = spoken.filter(|one| one.claim.domain.is_some()) {
            match spoken.claim.relation {
                Relation::Stranger => causes.push(Cause::of_unaligned(&spoken.signer())),
                Relation::Forbidden => causes.push(Cause::ForbiddenByDmarc),
                Relation::Itself | Relation::Related | Relation::Open => {}
            }
        }
        ProofCauses {
            causes,
            signer: spoken.map(JudgedSignature::signer).unwrap_or_default(),
            selector: spoken.and_then(JudgedSignature::selector).unwrap_or_default(),
            record: self.dmarc.adkim.record().to_owned(),
        }
    }

    /// Returns the signature to report: an aligned one if possible.
    fn reported_signature(
        &self,
        wanted: impl Fn(&JudgedSignature) -> bool,
    ) -> Option<&JudgedSignature> {
        let of = |may_align| {
            self.verified.first(|one| one.claim.relation.may_align() == may_align && wanted(one))
        };
        of(true).or_else(|| of(false))
    }

    fn results(&self, unsigned: &[KnownField]) -> Results {
        let unsigned = unsigned.iter().map(|name| name.as_str().to_ascii_lowercase());
        Results {
            spf: self.spf.summary(),
            dkim: self.verified.signatures.iter().map(JudgedSignature::summary).collect(),
            dmarc: self.dmarc.summary(),
            arc: self.verified.chain.as_ref().map(ArcChain::summary),
            iprev: self.iprev.summary(),
            aligned_domain: self.authenticating_signature().map(JudgedSignature::signer),
            unsigned_headers: unsigned.collect(),
        }
    }

    /// Returns the names in `h=` of the proof: of the signature that authenticates, or of the
    /// newest one in the chain that replaces it. None without a proof.
    fn signed(&self) -> Option<&[String]> {
        let chain = || self.verified.chain.as_ref().filter(|chain| chain.authenticates());
        self.authenticating_signature()
            .map(JudgedSignature::signed_headers)
            .or_else(|| Some(&chain()?.signed))
    }

    /// Returns the present fields that the proof does not cover. If a field occurs more often than
    /// its name in `h=`, the first ones are not covered (RFC 6376 §5.4.2).
    fn unsigned(&self, signed: &[String]) -> Vec<KnownField> {
        let is_open = |known: &KnownField| {
            let covered = signed.iter().filter(|name| known.names(name.as_bytes())).count();
            self.headers.all(*known).count() > covered
        };
        KnownField::ALL.iter().copied().filter(|one| one.says_something() && is_open(one)).collect()
    }

    fn dkim_step(&self, results: &Results) -> Step {
        let fields = self.headers.all(KnownField::DkimSignature).count();
        let rules = &self.rules.authentication;
        let best = self.authenticating_signature().or_else(|| self.reported_signature(|_| true));
        // If not all keys fit, those that may decide come first.
        let mut by_weight: Vec<_> = self.verified.signatures.iter().collect();
        by_weight.sort_by_key(|s| (!s.claim.relation.may_align(), !s.counts()));
        let names = by_weight.into_iter().filter_map(|s| s.claim.key_name.as_deref());
        let rules = dkim::Rules {
            min_rsa_bits: count(rules.min_rsa_bits),
            count_testing_keys: rules.count_testing_keys,
            max_future_seconds: rules.max_future_seconds,
            max_clock_seconds: rules.max_clock_seconds(),
        };
        Step {
            facts: Facts::Dkim(dkim::Dkim {
                fields: count(fields),
                considered: count(self.verified.signatures.len()),
                signatures: std::sync::Arc::clone(&results.dkim),
                rules,
            }),
            result: best.map_or("none", JudgedSignature::result).into(),
            detail: self
                .verified
                .signatures
                .iter()
                .map(|s| format!("{} {}", s.result(), one_line(&describe(s))))
                .collect::<Vec<_>>()
                .join("\n"),
            dns: self.verified.keys.evidence(names),
            micros: self.verified.dkim_micros,
        }
    }

    fn alignment_step(
        &self,
        proof: Proof,
        detail: &str,
        causes: &ProofCauses,
        start: Instant,
    ) -> Step {
        let from = self.from();
        let organization = |domain| organizational(domain).map(str::to_owned);
        let signers = self
            .verified
            .signatures
            .iter()
            .filter_map(|s| Some((s, s.claim.domain.as_ref()?)))
            .map(|(s, domain)| Signer {
                domain: domain.to_string(),
                organization: organization(domain),
                aligned: s.claim.relation.is_aligned(),
                counts: s.counts(),
            })
            .collect();
        let result = match proof {
            Proof::Authenticated => "pass",
            Proof::Unproven(_) => "fail",
            Proof::Undecidable(_) => "temperror",
        };
        Step {
            facts: Facts::Alignment(alignment::Alignment {
                from: from.to_string(),
                organization: organization(from),
                signers,
                rule: self.rules.authentication.alignment.as_str().into(),
                adkim: self.dmarc.adkim.as_str().into(),
                record: self.dmarc.adkim.record().to_owned(),
                causes: codes(&causes.causes),
                signer: one_line(&causes.signer),
                selector: one_line(&causes.selector),
            }),
            result: Word::Borrowed(result),
            detail: detail.to_owned(),
            dns: Vec::new(),
            micros: micros(start),
        }
    }

    fn chain_step(&self) -> Step {
        let chain = self.verified.chain.as_ref();
        Step {
            facts: Facts::Arc(arc::Arc { chain: chain.map(ArcChain::summary) }),
            result: chain.map_or("none", |chain| chain.result).into(),
            detail: chain.map(|chain| chain.detail.clone()).unwrap_or_default(),
            dns: self.verified.keys.evidence(self.verified.chain_names.iter().map(String::as_str)),
            micros: self.verified.chain_micros,
        }
    }
}

/// Causes that prevented authentication; empty if none did.
struct ProofCauses {
    causes: Vec<Cause>,
    signer: String,
    selector: String,
    record: String,
}

impl ProofCauses {
    fn explanation(&self, from: &DomainName) -> String {
        let (signer, selector) = (one_line(&self.signer), one_line(&self.selector));
        let record = one_line(&self.record);
        let (from, record) = (from.as_str(), record.as_str());
        let of = Particulars { from, signer: &signer, selector: &selector, record };
        self.causes.iter().map(|cause| cause.told(&of)).collect::<Vec<_>>().join(" ")
    }
}

/// Describes a signature and why it does not authenticate.
fn describe(signature: &JudgedSignature) -> String {
    match signature.reason() {
        Some(reason) => format!("{}: {reason}", signature.signer()),
        None => signature.signer(),
    }
}
