//! DKIM (RFC 6376): the signatures, whether they verify, and whether they count.
//!
//! mail-auth does the cryptography. The rules that it leaves open (contract §2, "does not count
//! when") are judged here on the same bytes. Only a signature that counts and is aligned
//! authenticates a message by itself.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use mail_auth::crypto::Algorithm;
use mail_auth::dkim::{Canonicalization, Signature};

use super::alignment::{Adkim, Relation};
use super::canonical;
use super::key::{Objection, Service};
use super::keys::Keys;
use super::tags::TagList;
use crate::domain::cause::Cause;
use crate::domain::clock::Timestamp;
use crate::domain::domain_name::DomainName;
use crate::domain::evidence::{Word, count, dkim};
use crate::mail::fields::KnownField;
use crate::rules::{Alignment, IntakeRules};

/// One `DKIM-Signature` field, judged without its key and the body.
pub(super) struct Claim {
    /// The raw value of the field.
    pub(super) value: Bytes,
    /// Parsed by mail-auth, or its error.
    pub(super) signature: Result<Signature, String>,
    /// `d=`, if it is a host name.
    pub(super) domain: Option<DomainName>,
    /// Name of the key record; None if the names cannot be queried.
    pub(super) key_name: Option<String>,
    /// `i=` is in a subdomain of `d=`.
    is_for_subdomain: bool,
    /// `l=`, if present.
    pub(super) body_length: Option<u64>,
    /// Relation of `d=` to From.
    pub(super) relation: Relation,
    /// Reasons not to count even if it verifies.
    objections: Vec<Objection>,
}

/// Result of the cryptographic check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SignatureCheck {
    Verified,
    /// Correct except for the signature itself: the RSA key is so short that no library verifies
    /// with it any more (RFC 8301 §3.2). It never counts.
    KeyTooShort,
    /// The key look-up failed for now.
    Temporary(String),
    /// Not verified: the result word of RFC 8601 §2.7.1, the cause, and the explanation.
    Failed(&'static str, Cause, String),
}

/// A claim with its result.
pub(super) struct JudgedSignature {
    pub(super) claim: Claim,
    pub(super) check: SignatureCheck,
    objections: Vec<Objection>,
    key_bits: Option<usize>,
}

impl Claim {
    /// Reads one field. Never fails: a field that is no signature becomes a claim that proves
    /// nothing.
    pub(super) fn read(
        value: Bytes,
        from: &DomainName,
        rules: &IntakeRules,
        now: Timestamp,
    ) -> Self {
        let tags = TagList::read(&value);
        let signature = Signature::parse(&value).map_err(|error| error.to_string());
        let mut claim = Self {
            signature,
            domain: None,
            key_name: None,
            is_for_subdomain: false,
            body_length: tags.number("l").ok().flatten(),
            relation: Relation::Stranger,
            objections: tags.defect().map(|text| broken(text.to_owned())).into_iter().collect(),
            value: value.clone(),
        };
        claim.judge_names(&tags, from, rules);
        claim.judge_tags(&tags, rules, now);
        claim
    }

    /// Judges `d=`, `s=` and `i=`. mail-auth verifies with the names that it reads, so their key is
    /// looked up. If the field says something else (mail-auth takes the last of repeated tags), the
    /// signature may verify but does not count.
    fn judge_names(&mut self, tags: &TagList<'_>, from: &DomainName, rules: &IntakeRules) {
        let Ok(signature) = &self.signature else { return };
        let mut object = |cause, what: &str| {
            self.objections.push(Objection { cause, text: what.to_owned() });
        };
        for (tag, read) in [("d", &signature.d), ("s", &signature.s)] {
            if !tags.get(tag).is_some_and(|written| written.eq_ignore_ascii_case(read)) {
                let text = format!("{tag}= reads differently to different readers");
                object(Cause::NamesUnfit, &text);
            }
        }
        let Some(domain) = ascii_name(&signature.d) else {
            return object(Cause::NamesUnfit, "d= is not a host name");
        };
        let selector = signature.s.to_ascii_lowercase();
        if is_selector(&selector) {
            self.key_name = Some(format!("{selector}._domainkey.{domain}"));
        } else {
            object(Cause::NamesUnfit, "s= is not a host name");
        }
        let identity = signature.i.to_ascii_lowercase();
        match identity.rsplit_once('@') {
            None if identity.is_empty() => {}
            Some((_, host)) if host == domain.as_str() => {}
            Some((_, host)) if host.ends_with(&format!(".{domain}")) => {
                self.is_for_subdomain = true;
            }
            // RFC 6376 §6.1.1: such a signature must be ignored.
            _ => object(Cause::IdentityOutside, "i= lies outside d="),
        }
        self.relation = Relation::of(&domain, from, rules.authentication.alignment);
        self.domain = Some(domain);
    }

    fn judge_tags(&mut self, tags: &TagList<'_>, rules: &IntakeRules, now: Timestamp) {
        let Ok(signature) = &self.signature else { return };
        let rules = &rules.authentication;
        let mut object = |cause, text: &str| {
            self.objections.push(Objection { cause, text: text.to_owned() });
        };
        if tags.get("v") != Some("1") {
            object(Cause::VersionMissing, "v=1 is missing");
        }
        if signature.a == Algorithm::RsaSha1 {
            object(Cause::Sha1, "rsa-sha1 proves nothing (RFC 8301)");
        }
        let is_from = |name: &str| name.eq_ignore_ascii_case("from");
        if !tags.listed("h").any(is_from) || !signature.h.iter().any(|name| is_from(name)) {
            object(Cause::FromNotSigned, "From is not signed");
        }
        if tags.listed("h").count().max(signature.h.len()) > rules.max_signed_names {
            let text = format!("more than {} names in h=", rules.max_signed_names);
            object(Cause::TooManyNames, &text);
        }
        let is_known = |way: &str| way.eq_ignore_ascii_case("dns/txt");
        if tags.get("q").is_some() && !tags.listed("q").any(is_known) {
            object(Cause::KeyMethodUnknown, "q= names no known way to get the key");
        }
        let now = u64::try_from(now.seconds()).unwrap_or(0);
        match (tags.number("t"), tags.number("x")) {
            (Ok(signed), Ok(expires)) => {
                let ahead = signed.map_or(0, |t| t.saturating_sub(now));
                if ahead > rules.max_future_seconds {
                    // A clock is wrong; up to some days it may be either.
                    let soon = ahead <= rules.max_clock_seconds();
                    let cause = if soon { Cause::NotYetValid } else { Cause::SignedInFuture };
                    object(cause, &format!("t= is {ahead} seconds ahead of our clock"));
                }
                if expires.is_some_and(|x| x <= now) {
                    object(Cause::Expired, "it has expired (x=)");
                }
                if expires.is_some_and(|x| x <= signed.unwrap_or(0)) {
                    object(Cause::ExpiresBeforeSigned, "it expires before it was signed (x=)");
                }
            }
            (signed, expires) => {
                for problem in [signed.err(), expires.err()].into_iter().flatten() {
                    object(Cause::TagsBroken, &problem);
                }
            }
        }
        if let Err(problem) = tags.number("l") {
            object(Cause::TagsBroken, &problem);
        }
        // Tag names are case-sensitive (RFC 6376 §3.2), but not to mail-auth, which has used these.
        for (tag, read) in [("l", signature.l), ("t", signature.t), ("x", signature.x)] {
            if read != 0 && tags.get(tag).is_none() {
                object(Cause::TagsBroken, &format!("{tag}= is written in capitals"));
            }
        }
    }

    /// Combines the cryptographic result, the key, and the length of the canonical body, which is
    /// given if the signature has `l=`.
    pub(super) fn judge(
        mut self,
        check: SignatureCheck,
        keys: &Keys,
        body_length: Option<u64>,
        service: Service,
        rules: &IntakeRules,
    ) -> JudgedSignature {
        let mut objections = std::mem::take(&mut self.objections);
        if let (Some(covered), Some(length)) = (self.body_length, body_length)
            && covered != length
        {
            let text = format!("l= covers {covered} of {length} bytes of the body");
            objections.push(Objection { cause: Cause::BodyPartlySigned, text });
        }
        let key = self.key_name.as_deref().and_then(|name| keys.get(name));
        if let (Some(key), Ok(signature)) = (key, &self.signature) {
            objections.extend(key.facts.objections(
                signature.a,
                self.is_for_subdomain,
                rules.authentication.min_rsa_bits,
                rules.authentication.count_testing_keys,
                service,
            ));
        }
        let key_bits = key.and_then(|key| key.facts.bits);
        JudgedSignature { claim: self, check, objections, key_bits }
    }
}

impl JudgedSignature {
    /// Tells whether the signature verifies without objections.
    pub(super) fn counts(&self) -> bool {
        self.check == SignatureCheck::Verified && self.objections.is_empty()
    }

    /// Tells whether the signature verifies and the only objection is that by our clock it is made
    /// in the future.
    pub(super) fn is_to_come(&self) -> bool {
        self.check == SignatureCheck::Verified && !self.objections.is_empty() && self.may_count()
    }

    /// Tells whether there is no lasting objection.
    fn may_count(&self) -> bool {
        self.objections.iter().all(|one| one.cause == Cause::NotYetValid)
    }

    /// Applies the DMARC record of the From domain.
    pub(super) const fn apply_adkim(&mut self, adkim: &Adkim) {
        self.claim.relation = self.claim.relation.under(adkim);
    }

    /// Tells whether the signature verifies, or would, but does not count.
    pub(super) fn is_unacceptable(&self) -> bool {
        matches!(self.check, SignatureCheck::Verified | SignatureCheck::KeyTooShort)
            && !self.counts()
    }

    /// Tells whether the key look-up failed and the key could have changed the verdict.
    pub(super) fn is_undecided(&self) -> bool {
        matches!(self.check, SignatureCheck::Temporary(_))
            && self.claim.relation.may_align()
            && self.may_count()
    }

    /// `d=`, as written if it is no host name; a phrase if the field is unreadable.
    pub(super) fn signer(&self) -> String {
        match (&self.claim.domain, &self.claim.signature) {
            (Some(domain), _) => domain.to_string(),
            (None, Ok(signature)) => signature.d.chars().take(253).collect(),
            (None, Err(_)) => "unreadable signature".into(),
        }
    }

    /// Returns why the signature does not authenticate; None if it does.
    pub(super) fn reason(&self) -> Option<String> {
        match &self.check {
            SignatureCheck::Failed(_, _, why) | SignatureCheck::Temporary(why) => Some(why.clone()),
            SignatureCheck::Verified if self.objections.is_empty() => None,
            SignatureCheck::KeyTooShort if self.objections.is_empty() => {
                Some("the RSA key is too short".into())
            }
            SignatureCheck::Verified | SignatureCheck::KeyTooShort => {
                let texts: Vec<_> = self.objections.iter().map(|one| one.text.as_str()).collect();
                Some(texts.join("; "))
            }
        }
    }

    /// Returns the reasons as causes, each once.
    pub(super) fn causes(&self) -> Vec<Cause> {
        let mut causes = match &self.check {
            SignatureCheck::Failed(_, cause, _) => return vec![self.root_of(*cause)],
            SignatureCheck::Temporary(_) => return vec![Cause::KeyUnavailable],
            SignatureCheck::KeyTooShort => vec![Cause::KeyShort],
            SignatureCheck::Verified => Vec::new(),
        };
        for objection in &self.objections {
            if !causes.contains(&objection.cause) {
                causes.push(objection.cause);
            }
        }
        causes
    }

    /// Returns the underlying cause of a failure: unfit names have no key to find, and a signature
    /// with too many fields is not verified.
    fn root_of(&self, cause: Cause) -> Cause {
        let objects_to = |cause| self.objections.iter().any(|one| one.cause == cause);
        match cause {
            Cause::KeyMissing | Cause::KeyUnreadable if self.claim.key_name.is_none() => {
                Cause::NamesUnfit
            }
            Cause::BeyondLimits if objects_to(Cause::TooManyNames) => Cause::TooManyNames,
            other => other,
        }
    }

    /// `s=` as written, at most 253 characters.
    pub(super) fn selector(&self) -> Option<String> {
        let signature = self.claim.signature.as_ref().ok()?;
        Some(signature.s.chars().take(253).collect())
    }

    /// The result word of RFC 8601 §2.7.1; `policy` if the signature verifies but does not count.
    pub(super) fn result(&self) -> &'static str {
        match &self.check {
            SignatureCheck::Verified if self.objections.is_empty() => "pass",
            SignatureCheck::Verified | SignatureCheck::KeyTooShort => "policy",
            SignatureCheck::Temporary(_) => "temperror",
            SignatureCheck::Failed(word, _, _) => word,
        }
    }

    /// The names in `h=`, at most the first hundred.
    pub(super) fn signed_headers(&self) -> &[String] {
        let names = self.claim.signature.as_ref().map(|s| s.h.as_slice()).unwrap_or_default();
        names.get(..100).unwrap_or(names)
    }

    /// Returns the value that identifies the message if it arrives again: `b=` in canonical base64.
    /// Returns None if the signature could cover many messages: it has no `t=` and signs neither
    /// Date nor Message-ID. Also None if it does not count or align.
    pub(super) fn identity(&self, has: impl Fn(KnownField) -> bool) -> Option<String> {
        let signature = self.claim.signature.as_ref().ok()?;
        let names = self.signed_headers();
        let covers = |field: KnownField| {
            has(field) && names.iter().any(|signed| field.names(signed.as_bytes()))
        };
        let is_unique =
            || signature.t > 0 || covers(KnownField::Date) || covers(KnownField::MessageId);
        (self.claim.relation.is_aligned() && self.counts() && is_unique())
            .then(|| STANDARD.encode(&signature.b))
    }

    pub(super) fn summary(&self) -> dkim::Signature {
        let signature = self.claim.signature.as_ref().ok();
        let shown = |name: &String| {
            let mut shown: String = name.chars().take(100).collect();
            shown.make_ascii_lowercase();
            shown
        };
        dkim::Signature {
            domain: self.signer(),
            selector: self.selector(),
            algorithm: signature.map(|s| Word::Borrowed(algorithm(s.a))),
            key_bits: self.key_bits.map(count),
            result: self.result().into(),
            reason: self.reason(),
            causes: codes(&self.causes()),
            counts: self.counts(),
            aligned: self.claim.relation.is_aligned(),
            signed_headers: self.signed_headers().iter().map(shown).collect(),
        }
    }
}

/// Converts causes to the words of the evidence.
pub(super) fn codes(causes: &[Cause]) -> Vec<Word> {
    causes.iter().map(|cause| Word::Borrowed(cause.as_str())).collect()
}

/// Tells whether a `DKIM-Signature` names a signer that can never align with `from`, such as those
/// that servers on the way add. False if it cannot be read.
pub fn is_of_another(value: &[u8], from: &DomainName) -> bool {
    let tags = TagList::read(value);
    let signer = tags.get("d").filter(|_| tags.defect().is_none()).and_then(ascii_name);
    signer.is_some_and(|signer| !Relation::of(&signer, from, Alignment::Relaxed).is_aligned())
}

/// Returns a `DKIM-Signature` value so that values which the signature treats as equal become equal
/// (RFC 6376 §3.7): the signed part, canonical by its own `c=`; then `b=`, which is not signed,
/// without white space. Two parts, so that no text can shift from one to the other.
pub fn spelling(value: &[u8]) -> [Vec<u8>; 2] {
    let tags = TagList::read(value);
    let form = tags.get("c").and_then(|forms| forms.split('/').next()).map(str::trim);
    let is_relaxed = form.is_some_and(|form| form.eq_ignore_ascii_case("relaxed"));
    let form = if is_relaxed { Canonicalization::Relaxed } else { Canonicalization::Simple };
    let mut spelled = Vec::with_capacity(value.len());
    canonical::unsigned(b"", value, form, &mut spelled);
    let signature = tags.get("b").unwrap_or_default().bytes();
    [spelled, signature.filter(|octet| !octet.is_ascii_whitespace()).collect()]
}

/// An objection to the tags themselves.
const fn broken(text: String) -> Objection {
    Objection { cause: Cause::TagsBroken, text }
}

/// The name of an algorithm in `a=`.
const fn algorithm(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::RsaSha1 => "rsa-sha1",
        Algorithm::RsaSha256 => "rsa-sha256",
        Algorithm::Ed25519Sha256 => "ed25519-sha256",
        _ => "unknown",
    }
}

/// Returns the name if mail-auth and our parser read it alike and it is a host name in A-labels.
pub(super) fn host_name(read: &str, written: Option<&str>) -> Option<DomainName> {
    let as_read = written.is_some_and(|written| written.eq_ignore_ascii_case(read));
    if as_read { ascii_name(read) } else { None }
}

fn ascii_name(name: &str) -> Option<DomainName> {
    if name.is_ascii() { DomainName::parse(name).ok() } else { None }
}

/// Tells whether a text is a selector: labels of letters, digits and hyphens (RFC 6376 §3.1:
/// sub-domains of RFC 5321), and also underscores, which signers use and verifiers accept. The name
/// is below the signer's own `_domainkey`, so nobody else owns it. Unlike in a domain, the last
/// label may be a number.
pub(super) fn is_selector(text: &str) -> bool {
    text.len() <= 200
        && text.split('.').all(|label| {
            !label.is_empty()
                && label.len() <= 63
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        })
}
