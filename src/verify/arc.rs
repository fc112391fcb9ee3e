//! ARC (RFC 8617): evaluated and recorded. A chain replaces an aligned signature only if the
//! operator trusts its sealer by name; by default no sealer is trusted.

use mail_auth::arc::{ArcError, Seal, Signature};
use mail_auth::crypto::{Algorithm, CryptoError};
use mail_auth::dkim::Canonicalization;
use mail_auth::{ArcOutput, ArcResult, AuthenticatedMessage, DnsError, Error};

use super::alignment::{Adkim, Relation};
use super::canonical::{self, Body};
use super::dkim::{host_name, is_selector};
use super::key::Service;
use super::keys::Keys;
use super::tags::TagList;
use crate::domain::clock::Timestamp;
use crate::domain::domain_name::DomainName;
use crate::domain::evidence::arc::Chain;
use crate::domain::evidence::count;
use crate::mail::fields::KnownField;
use crate::mail::scan::Headers;
use crate::rules::IntakeRules;

/// Most sets of a chain (RFC 8617 §4.2.1).
const MAX_SETS: usize = 50;

/// Facts about a chain before verification.
pub(super) struct UnreadChain {
    /// Number of sets that the message claims to have.
    pub(super) sets: usize,
    /// Why the chain is not verified at all.
    pub(super) refusal: Option<String>,
    /// Names of the keys of the newest signature and of all seals.
    pub(super) key_names: Vec<String>,
}

pub(super) struct ArcChain {
    pub(super) result: &'static str,
    pub(super) detail: String,
    sets: usize,
    /// `d=` of the newest seal.
    pub(super) sealer: Option<String>,
    /// Names in `h=` of the newest signature.
    pub(super) signed: Vec<String>,
    /// The chain may replace an aligned signature.
    pub(super) stands_in: bool,
    /// It might, but a key look-up failed.
    pub(super) undecided: bool,
    /// It will, but by our clock it is sealed in the future.
    pub(super) to_come: bool,
    /// Relation to From of the domain that the sealer reports as verified.
    pub(super) relation: Relation,
}

/// Other facts that the judgement needs.
pub(super) struct JudgementFacts<'c> {
    pub(super) from: &'c DomainName,
    pub(super) keys: &'c Keys,
    pub(super) rules: &'c IntakeRules,
    pub(super) now: Timestamp,
}

impl JudgementFacts<'_> {
    /// Whether this key may sign by this algorithm.
    fn allow(&self, domain: &str, selector: &str, algorithm: Algorithm) -> bool {
        let rules = &self.rules.authentication;
        let key = key_name(domain, selector).and_then(|name| self.keys.get(&name));
        key.is_some_and(|key| {
            let (bits, testing) = (rules.min_rsa_bits, rules.count_testing_keys);
            key.facts.objections(algorithm, false, bits, testing, Service::Mail).is_empty()
        })
    }
}

impl UnreadChain {
    pub(super) fn read(headers: &Headers<'_>, rules: &IntakeRules) -> Self {
        let seals: Vec<_> = headers.all(KnownField::ArcSeal).collect();
        let signatures: Vec<_> = headers.all(KnownField::ArcMessageSignature).collect();
        let results = headers.all(KnownField::ArcAuthenticationResults).count();
        let sets = seals.len().max(signatures.len()).max(results);
        let mut plan = Self { sets, refusal: None, key_names: Vec::new() };
        let mut with_length = 0;
        let mut newest: Option<Signature> = None;
        if sets > MAX_SETS {
            plan.refusal = Some(format!("more than {MAX_SETS} sets"));
            return plan;
        }
        for value in signatures {
            let tags = TagList::read(value);
            with_length += usize::from(tags.get("l").is_some());
            let Ok(signature) = Signature::parse(value) else { continue };
            let names = tags.listed("h").count().max(signature.h.len());
            if names > rules.authentication.max_signed_names {
                plan.refusal = Some("too many names in h=".into());
            }
            if newest.as_ref().is_none_or(|newest| newest.i < signature.i) {
                newest = Some(signature);
            }
        }
        // Each length costs one more hash of the body.
        if with_length > 1 {
            plan.refusal = Some("several signatures with l=".into());
        }
        let newest = newest.map(|signature| (signature.d, signature.s));
        let seals = seals.iter().filter_map(|value| Seal::parse(value).ok());
        plan.key_names = newest
            .into_iter()
            .chain(seals.map(|seal| (seal.d, seal.s)))
            .filter_map(|(domain, selector)| key_name(&domain, &selector))
            .collect();
        plan
    }
}

fn key_name(domain: &str, selector: &str) -> Option<String> {
    let domain = DomainName::parse(domain).ok().filter(|_| domain.is_ascii())?;
    is_selector(selector).then(|| format!("{}._domainkey.{domain}", selector.to_ascii_lowercase()))
}

impl ArcChain {
    /// The result if there is no chain, or if it is not verified.
    pub(super) fn unread(chain: &UnreadChain) -> Self {
        let (result, detail) = match &chain.refusal {
            Some(refusal) => ("fail", refusal.clone()),
            None => ("none", "no chain".into()),
        };
        Self::word(result, detail, chain.sets)
    }

    /// A result that replaces nothing.
    const fn word(result: &'static str, detail: String, sets: usize) -> Self {
        let relation = Relation::Stranger;
        let (stands_in, undecided, to_come) = (false, false, false);
        let signed = Vec::new();
        Self { result, detail, sets, sealer: None, signed, stands_in, undecided, to_come, relation }
    }

    /// Applies the DMARC record of the From domain.
    pub(super) fn apply_adkim(&mut self, adkim: &Adkim) {
        self.relation = self.relation.under(adkim);
        self.stands_in &= self.relation.may_align();
        self.undecided &= self.relation.may_align();
        self.to_come &= self.relation.may_align();
    }

    /// Tells whether the chain authenticates the message.
    pub(super) const fn authenticates(&self) -> bool {
        self.stands_in && self.relation.is_aligned()
    }

    /// Judges a chain that mail-auth has examined, with the result `found`. `covers_body` tells
    /// whether a signature with this `l=` covers the whole body.
    pub(super) fn judge(
        output: &ArcOutput<'_>,
        found: &ArcResult,
        covers_body: impl Fn(&Signature, u64) -> bool,
        around: &JudgementFacts<'_>,
    ) -> Self {
        let (mut result, mut detail) = word(found);
        let newest = output.chain().last();
        let defect = defect(output);
        if let Some(defect) = &defect
            && result == "pass"
        {
            (result, detail) = ("fail", format!("{defect}; mail-auth would say pass"));
        }
        let seconds = u64::try_from(around.now.seconds()).unwrap_or(0);
        let is_over = |one: &Signature| one.x > 0 && (one.x <= seconds || one.x <= one.t);
        let is_over = newest.is_some_and(|set| is_over(set.signature.header));
        if is_over && result == "pass" {
            (result, detail) = ("fail", "the newest signature has expired (x=)".into());
        }
        let sealer = newest.map(|set| set.seal.header.d.chars().take(253).collect());
        let signed = newest.map(|set| set.signature.header.h.clone()).unwrap_or_default();
        let mut chain = Self { sealer, signed, ..Self::word(result, detail, output.chain().len()) };
        // There are ARC fields, but mail-auth found no chain.
        if chain.result == "none" {
            (chain.result, chain.detail) = ("fail", "a set is incomplete".into());
        }
        let Some(set) = newest else { return chain };
        let (seal, signature) = (set.seal.header, set.signature.header);
        let seal_tags = TagList::read(set.seal.value);
        let tags = TagList::read(set.signature.value);
        let sealer = host_name(&seal.d, seal_tags.get("d"));
        let Some(sealer) =
            sealer.filter(|name| around.rules.authentication.trusted_arc_sealers.contains(name))
        else {
            return chain;
        };
        let rules = &around.rules.authentication;
        let ahead = signature.t.max(seal.t).saturating_sub(seconds);
        let soon = ahead <= rules.max_clock_seconds();
        chain.relation = reported(set.results.value, around);
        let sound = tags.defect().is_none()
            && seal_tags.defect().is_none()
            && host_name(&signature.d, tags.get("d")) == Some(sealer)
            && signature.h.iter().any(|name| name.eq_ignore_ascii_case("from"))
            && signature.a != Algorithm::RsaSha1
            && seal.a != Algorithm::RsaSha1
            && !is_over
            && soon
            && tags.number("l").is_ok_and(|l| l.is_none_or(|l| covers_body(signature, l)))
            && chain.relation.is_aligned();
        match found {
            ArcResult::Pass => {
                let counts = sound
                    && defect.is_none()
                    && around.allow(&seal.d, &seal.s, seal.a)
                    && around.allow(&signature.d, &signature.s, signature.a);
                chain.to_come = counts && ahead > rules.max_future_seconds;
                chain.stands_in = counts && !chain.to_come;
            }
            ArcResult::TempError(_) => chain.undecided = sound,
            _ => {}
        }
        chain
    }

    pub(super) fn summary(&self) -> Chain {
        Chain {
            result: self.result.into(),
            sets: count(self.sets),
            sealer: self.sealer.clone(),
            stands_in: self.authenticates(),
        }
    }
}

/// Verifies a chain (RFC 8617 §5.2) that mail-auth does not verify, because its newest signature
/// has expired by the system's clock. Our clock decides, and a stored record is verified as of its
/// own day.
pub(super) fn verify_again(
    output: &ArcOutput<'_>,
    message: &AuthenticatedMessage<'_>,
    body: &Body<'_>,
    keys: &Keys,
) -> ArcResult {
    let chain = output.chain();
    let Some(newest) = chain.last() else { return ArcResult::None };
    let (field, signature) = (&newest.signature, newest.signature.header);
    let length = TagList::read(field.value).number("l").ok().flatten();
    if !body.matches(signature.cb, length, signature.a, &signature.bh) {
        return ArcResult::Neutral(Error::Arc(ArcError::BodyHashMismatch));
    }
    let holds = |(domain, selector): (&str, &str), algorithm, signed: &[u8], signature: &[u8]| {
        let name = key_name(domain, selector).unwrap_or_default();
        match keys.find(&name) {
            Ok(key) if key.facts.verify(algorithm, signed, signature) => Ok(()),
            Ok(_) => Err(ArcResult::Fail(Error::Crypto(CryptoError::FailedVerification))),
            Err(error @ Error::Dns(DnsError::Resolver(_))) => Err(ArcResult::TempError(error)),
            Err(error) => Err(ArcResult::PermError(error)),
        }
    };
    let mut signed = canonical::fields(message.headers(), &signature.h, signature.ch);
    canonical::unsigned(field.name, field.value, signature.ch, &mut signed);
    let names = (signature.d.as_str(), signature.s.as_str());
    let mut result = holds(names, signature.a, &signed, &signature.b);
    let mut before = Vec::new();
    for set in chain {
        let relaxed = Canonicalization::Relaxed;
        canonical::field(set.results.name, set.results.value, relaxed, &mut before);
        canonical::field(set.signature.name, set.signature.value, relaxed, &mut before);
        let (field, seal) = (&set.seal, set.seal.header);
        let mut signed = before.clone();
        canonical::unsigned(field.name, field.value, relaxed, &mut signed);
        result = result.and_then(|()| holds((&seal.d, &seal.s), seal.a, &signed, &seal.b));
        canonical::field(field.name, field.value, relaxed, &mut before);
    }
    result.err().unwrap_or(ArcResult::Pass)
}

fn word(result: &ArcResult) -> (&'static str, String) {
    let word = match result {
        ArcResult::Pass => "pass",
        // RFC 8617 §4.4 has no third result: a chain is valid or not.
        ArcResult::Fail(_) | ArcResult::Neutral(_) | ArcResult::PermError(_) => "fail",
        ArcResult::TempError(_) => "temperror",
        ArcResult::None => "none",
    };
    (word, result.to_string())
}

/// Finds defects that mail-auth accepts: missing required tags (RFC 8617 §4.1.2, §4.1.3), repeated
/// tags (RFC 6376 §3.2), SHA-1 (RFC 8301), and a signature over seals, which §4.1.2 forbids. Checks
/// all seals and the newest signature.
fn defect(output: &ArcOutput<'_>) -> Option<String> {
    let lacks = |value: &[u8], tags: &TagList<'_>, needed: &[&str]| {
        // `TagList` skips empty tags, because many DKIM signers write them.
        let entries = value.split(|octet| *octet == b';').map(<[u8]>::trim_ascii);
        let empty = entries.rev().skip(1).any(<[u8]>::is_empty);
        let empty = empty.then(|| "a tag is empty".to_owned());
        let missing = needed.iter().find(|name| tags.get(name).is_none_or(str::is_empty));
        let missing = missing.map(|name| format!("{name}= is missing"));
        tags.defect().map(str::to_owned).or(empty).or(missing)
    };
    for set in output.chain() {
        let (seal, tags) = (set.seal.header, TagList::read(set.seal.value));
        let sha1 = (seal.a == Algorithm::RsaSha1).then(|| "made with SHA-1".into());
        if let Some(why) = lacks(set.seal.value, &tags, &["i", "a", "b", "cv", "d", "s"]).or(sha1) {
            return Some(format!("seal {}: {why}", seal.i));
        }
    }
    let newest = output.chain().last()?;
    let (signature, tags) = (newest.signature.header, TagList::read(newest.signature.value));
    let signs_seals = || signature.h.iter().any(|name| name.eq_ignore_ascii_case("arc-seal"));
    let why = lacks(newest.signature.value, &tags, &["i", "a", "b", "bh", "d", "h", "s"])
        .or_else(|| (signature.a == Algorithm::RsaSha1).then(|| "made with SHA-1".into()))
        .or_else(|| signs_seals().then(|| "it signs a seal".into()))?;
    Some(format!("signature {}: {why}", signature.i))
}

/// Returns the closest relation to From among the domains with dkim=pass in the sealer's own report
/// (`i=N; authserv-id; method=result …`, RFC 8601 §2.2).
fn reported(value: &[u8], around: &JudgementFacts<'_>) -> Relation {
    let text = String::from_utf8_lossy(value);
    let parts = plain_parts(&text).unwrap_or_default();
    let relation = |part: &String| {
        let mut words = part.split_ascii_whitespace();
        if !words.next().is_some_and(|first| first.eq_ignore_ascii_case("dkim=pass")) {
            return None;
        }
        let property = |wanted: &str| {
            let mut values = part.split_ascii_whitespace().filter_map(|word| {
                let (name, value) = word.split_once('=')?;
                name.eq_ignore_ascii_case(wanted).then_some(value)
            });
            // A property given twice is ignored.
            values.next().filter(|_| values.next().is_none())
        };
        let domain = property("header.d")
            .or_else(|| property("header.i")?.rsplit_once('@').map(|(_, domain)| domain));
        let mode = around.rules.authentication.alignment;
        let domain = domain.filter(|domain| domain.is_ascii())?;
        Some(Relation::of(&DomainName::parse(domain).ok()?, around.from, mode))
    };
    let found: Vec<_> = parts.iter().skip(1).filter_map(relation).collect();
    let mut nearest = [Relation::Itself, Relation::Related].into_iter();
    nearest.find(|one| found.contains(one)).unwrap_or(Relation::Stranger)
}

/// Splits at semicolons and removes comments and quotes. Returns None if a comment or quote stays
/// open.
fn plain_parts(text: &str) -> Option<Vec<String>> {
    let (mut parts, mut part) = (Vec::new(), String::new());
    let (mut depth, mut quoted) = (0_u32, false);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' if quoted || depth > 0 => {
                // Quoted characters have no meaning here.
                characters.next()?;
            }
            '"' if depth == 0 => quoted = !quoted,
            // Quoted text is one value: it must not become several words.
            _ if quoted => part.push(if character.is_whitespace() { '_' } else { character }),
            '(' => depth += 1,
            ')' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    part.push(' ');
                }
            }
            _ if depth > 0 => {}
            ';' => parts.push(std::mem::take(&mut part)),
            _ => part.push(character),
        }
    }
    parts.push(part);
    (!quoted && depth == 0).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rules;

    #[test]
    fn the_sealers_report_is_read_for_what_it_says() {
        let rules = Rules::defaults().unwrap().intake;
        let from = DomainName::parse("good.example").unwrap();
        let keys = Keys::default();
        let now = Timestamp::from_millis(0);
        let around = JudgementFacts { from: &from, keys: &keys, rules: &rules, now };
        for (text, expected) in [
            ("i=1; mx.lists.example; dkim=pass header.d=good.example", true),
            ("i=1; mx; dkim=pass header.d=a.good.example; dkim=pass header.d=good.example", true),
            ("i=1; mx; spf=fail; dkim=pass (ok) header.i=@mail.good.example header.s=a", true),
            ("i=1; mx; dkim=pass header.d=evil.example", false),
            ("i=1; mx; dkim=fail header.d=good.example", false),
            ("i=1; mx; spf=pass (dkim=pass header.d=good.example)", false),
            ("i=1; mx; spf=pass (; dkim=pass header.d=good.example) x=1", false),
            ("i=1; mx; spf=pass smtp.x=\"; dkim=pass header.d=good.example\"", false),
            ("i=1; mx; dkim=pass header.d=evil.example header.d=good.example", false),
            ("i=1; mx; dkim=pass reason=\"a header.d=good.example\" header.d=evil.example", false),
            ("i=1; mx; dkim=pass header.d=good.example (open", false),
            ("dkim=pass header.d=good.example", false),
            ("", false),
        ] {
            assert_eq!(reported(text.as_bytes(), &around).is_aligned(), expected, "{text}");
        }
    }
}
