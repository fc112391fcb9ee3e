//! The costly part: hashes of the body and public-key operations. It makes no queries and waits for
//! nothing, so that it can run on a thread where it delays no other message.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use mail_auth::arc::{ArcError, ArcResult};
use mail_auth::crypto::CryptoError;
use mail_auth::dkim::{DkimError, Signature};
use mail_auth::{
    AuthenticatedMessage, DkimOutput, DkimResult, DnsError, Error, MessageAuthenticator,
    Parameters, arc,
};
use mail_parser::HeaderForm;

use super::arc::{ArcChain, JudgementFacts, UnreadChain, verify_again};
use super::canonical::{self, Body};
use super::dkim::{Claim, JudgedSignature, SignatureCheck};
use super::evidence::micros;
use super::key::Service;
use super::keys::Keys;
use crate::domain::address::Address;
use crate::domain::cause::Cause;
use crate::domain::clock::Timestamp;
use crate::mail::fields::KnownField;
use crate::rules::IntakeRules;

/// Shortest RSA key that aws-lc verifies with, in bits.
const VERIFIABLE_BITS: usize = 1024;

/// All input of the examination, owned, so that it can move to another thread.
pub(super) struct ExaminationInput {
    pub(super) raw: Bytes,
    /// Replaces the header section of `raw` if fields were left out.
    pub(super) bounded: Option<Vec<u8>>,
    /// Offset of the body in `raw`.
    pub(super) body_at: usize,
    pub(super) sender: Address,
    pub(super) claims: Vec<Claim>,
    /// For each claim, whether it is kept there.
    pub(super) affordable: Vec<bool>,
    pub(super) chain: UnreadChain,
    pub(super) keys: Arc<Keys>,
    pub(super) rules: Arc<IntakeRules>,
    pub(super) is_tls_report: bool,
    pub(super) now: Timestamp,
    pub(super) verifier: MessageAuthenticator,
}

pub(super) struct Examination {
    pub(super) signatures: Vec<JudgedSignature>,
    pub(super) chain: ArcChain,
    /// Part of the time spent on the chain, in microseconds.
    pub(super) chain_micros: u64,
}

/// mail-auth reads another sender than our scanner.
pub(super) struct OtherSender;

impl ExaminationInput {
    pub(super) fn run(mut self) -> Result<Examination, OtherSender> {
        // With the empty line before it.
        let body = self.raw.get(self.body_at.saturating_sub(2)..).unwrap_or_default();
        // Strict mode would refuse even an exact `l=`, which counts.
        let message = match &self.bounded {
            None => AuthenticatedMessage::parse_with_opts(&self.raw, None, false),
            Some(header) => AuthenticatedMessage::parse_with_opts(body, Some(header), false),
        };
        let mut message = message.ok_or(OtherSender)?;
        if !shows(&message, &self.sender) {
            return Err(OtherSender);
        }
        let limit = self.rules.authentication.max_signed_names;
        message.retain_dkim_signatures(|signature| {
            if signature.h.len() <= limit { Ok(()) } else { Err(DkimError::UnsupportedVersion) }
        });
        let body = Body::new(message.raw_body());
        let checks = self.check_signatures(&message, &body);
        let service = if self.is_tls_report { Service::TlsReports } else { Service::Mail };
        let signatures = std::mem::take(&mut self.claims)
            .into_iter()
            .zip(checks)
            .map(|(claim, check)| {
                let form = claim.signature.as_ref().ok().map(|signature| signature.cb);
                let length = claim.body_length.and(form).map(|form| body.length(form));
                claim.judge(check, &self.keys, length, service, &self.rules)
            })
            .collect();
        let start = Instant::now();
        let chain = self.check_chain(&message, &body);
        Ok(Examination { signatures, chain, chain_micros: micros(start) })
    }

    fn check_signatures(
        &self,
        message: &AuthenticatedMessage<'_>,
        body: &Body<'_>,
    ) -> Vec<SignatureCheck> {
        let parameters = Parameters::new(message).with_cache(self.keys.as_ref());
        let outputs = at_once(self.verifier.verify_dkim(parameters)).unwrap_or_default();
        let outputs: Vec<_> =
            outputs.iter().filter(|output| output.signature().is_some()).collect();
        let parsed = message.dkim_signatures();
        // The n-th claim that is kept is the n-th field of that name for mail-auth.
        let fields: Vec<_> = message
            .headers()
            .iter()
            .filter(|(name, _)| KnownField::DkimSignature.names(name.trim_ascii()))
            .map(|(_, value)| *value)
            .collect();
        let is_strange = !outputs.is_empty() && canonical::has_bare_line_ends(message.raw_body());
        let check = |(nth, claim): (usize, &Claim)| {
            let signature = match &claim.signature {
                Ok(signature) => signature,
                Err(why) => {
                    let why = format!("unreadable: {why}");
                    return SignatureCheck::Failed("permerror", Cause::SignatureUnreadable, why);
                }
            };
            let is_kept = self.affordable.get(nth) == Some(&true);
            let before = self.affordable.iter().take(nth).filter(|kept| **kept).count();
            let field = fields
                .get(before)
                .filter(|_| is_kept)
                .filter(|field| field.strip_suffix(b"\r\n") == Some(&claim.value[..]));
            let place = field.and_then(|field| {
                parsed.iter().position(|known| std::ptr::eq(known.value.as_ptr(), field.as_ptr()))
            });
            let output = place
                .and_then(|place| outputs.get(place))
                .filter(|output| output.signature() == Some(signature));
            match (place, output) {
                (Some(_), Some(output)) if !is_strange && is_conclusive(output, claim) => {
                    self.read(output, claim)
                }
                (Some(place), Some(_)) => self.verify(message, body, place, claim, signature),
                _ => {
                    let why = "beyond the limits of this server".into();
                    SignatureCheck::Failed("policy", Cause::BeyondLimits, why)
                }
            }
        };
        self.claims.iter().enumerate().map(check).collect()
    }

    /// Translates mail-auth's result to the words of RFC 8601 §2.7.1.
    fn read(&self, output: &DkimOutput<'_>, claim: &Claim) -> SignatureCheck {
        match output.result() {
            DkimResult::Pass => SignatureCheck::Verified,
            DkimResult::TempError(error) => SignatureCheck::Temporary(error.to_string()),
            // No library verifies with so short a key (RFC 8301 §3.2), so its result is open. The
            // body hash matched; the key is the reason to report.
            DkimResult::Fail(Error::Crypto(CryptoError::FailedVerification))
                if self.is_short(claim) =>
            {
                SignatureCheck::KeyTooShort
            }
            DkimResult::Fail(error) => failed("fail", error),
            DkimResult::Neutral(error @ Error::Dkim(DkimError::BodyHashMismatch)) => {
                failed("fail", error)
            }
            DkimResult::Neutral(error) => failed("neutral", error),
            DkimResult::PermError(error) => failed("permerror", error),
            DkimResult::None => {
                SignatureCheck::Failed("none", Cause::SignatureUnreadable, "not evaluated".into())
            }
        }
    }

    fn is_short(&self, claim: &Claim) -> bool {
        let key = claim.key_name.as_deref().and_then(|name| self.keys.get(name));
        key.is_some_and(|key| key.facts.is_short(VERIFIABLE_BITS))
    }

    /// Verifies body hash and signature (RFC 6376 §3.7) over mail-auth's canonical header fields,
    /// whatever the tags say about time and identity.
    fn verify(
        &self,
        message: &AuthenticatedMessage<'_>,
        body: &Body<'_>,
        place: usize,
        claim: &Claim,
        signature: &Signature,
    ) -> SignatureCheck {
        if !body.matches(signature.cb, claim.body_length, signature.a, &signature.bh) {
            return failed("fail", &Error::Dkim(DkimError::BodyHashMismatch));
        }
        let facts = match self.keys.find(claim.key_name.as_deref().unwrap_or_default()) {
            Ok(key) => &key.facts,
            Err(error @ Error::Dns(DnsError::Resolver(_))) => {
                return SignatureCheck::Temporary(error.to_string());
            }
            Err(error) => return failed("permerror", &error),
        };
        if facts.is_short(VERIFIABLE_BITS) {
            return SignatureCheck::KeyTooShort;
        }
        match signed_header(message, place) {
            // mail-auth returns these only if x= is later than t=.
            None => {
                let why = "it expires before it was signed (x=)".into();
                SignatureCheck::Failed("permerror", Cause::ExpiresBeforeSigned, why)
            }
            Some(signed) if facts.verify(signature.a, &signed, &signature.b) => {
                SignatureCheck::Verified
            }
            Some(_) => failed("fail", &Error::Crypto(CryptoError::FailedVerification)),
        }
    }

    fn check_chain(&self, message: &AuthenticatedMessage<'_>, body: &Body<'_>) -> ArcChain {
        if self.chain.sets == 0 || self.chain.refusal.is_some() {
            return ArcChain::unread(&self.chain);
        }
        let parameters = Parameters::new(message).with_cache(self.keys.as_ref());
        let Some(output) = at_once(self.verifier.verify_arc(parameters)) else {
            return ArcChain::unread(&self.chain);
        };
        let around = JudgementFacts {
            from: self.sender.domain(),
            keys: &self.keys,
            rules: &self.rules,
            now: self.now,
        };
        // mail-auth counts a length in raw bytes and cuts elsewhere, so the hash of the whole body
        // must match too.
        let covers_body = |signature: &arc::Signature, length| {
            length == body.length(signature.cb)
                && body.matches(signature.cb, None, signature.a, &signature.bh)
        };
        let found = match output.result() {
            ArcResult::Neutral(Error::Arc(ArcError::SignatureExpired)) => {
                verify_again(&output, message, body, &self.keys)
            }
            found => found.clone(),
        };
        ArcChain::judge(&output, &found, covers_body, &around)
    }
}

/// Tells whether From has exactly one mailbox and it is the sender's. mail-auth returns it in
/// Unicode lower case, where different mailboxes can be equal (ẞ and ß). So the field is parsed
/// again, by the same parser, as written.
fn shows(message: &AuthenticatedMessage<'_>, sender: &Address) -> bool {
    let [only] = message.from_addresses() else { return false };
    let mut written = Vec::new();
    for (name, value) in message.headers() {
        if KnownField::From.names(name.trim_ascii()) {
            let read = HeaderForm::Addresses.parse(value);
            let list = read.value().as_address();
            let mailboxes = list.iter().flat_map(|list| list.mailboxes());
            written.extend(mailboxes.filter_map(|one| one.address().map(str::to_owned)));
        }
    }
    match written.as_slice() {
        [written] if written.to_lowercase() == *only => {
            Address::parse(written).is_ok_and(|found| found == *sender)
        }
        _ => false,
    }
}

/// Returns the output of a future that never waits, because every DNS answer is present; None if it
/// would wait.
pub(super) fn at_once<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Tells whether mail-auth's result stands. It does not in these cases. Expiry: mail-auth uses the
/// system's clock and stops there, but our clock decides, and an expired signature must be told
/// from a forged one. `i=` outside `d=`: it stops there too. `l=`: mail-auth cuts the raw body, and
/// takes `l=0` for all of it, where RFC 6376 §3.7 cuts the canonical body. `atps=` (RFC 6541) with
/// the author's domain: its result needs a look-up that is not made here.
fn is_conclusive(output: &DkimOutput<'_>, claim: &Claim) -> bool {
    claim.body_length.is_none()
        && !output.is_atps()
        && !matches!(
            output.result(),
            DkimResult::Neutral(Error::Dkim(DkimError::SignatureExpired))
                | DkimResult::Fail(Error::Dkim(DkimError::AuidMismatch))
        )
}

fn failed(word: &'static str, error: &Error) -> SignatureCheck {
    SignatureCheck::Failed(word, cause(error), error.to_string())
}

/// Returns the cause for mail-auth's error about a readable signature.
const fn cause(error: &Error) -> Cause {
    match error {
        Error::Dkim(DkimError::BodyHashMismatch) => Cause::BodyChanged,
        Error::Dkim(DkimError::PublicKeyRevoked) => Cause::KeyRevoked,
        Error::Dkim(DkimError::AuidMismatch) => Cause::IdentityOutside,
        Error::Dkim(DkimError::SignatureExpired) => Cause::Expired,
        Error::Dkim(DkimError::BodyLengthTag) => Cause::BodyPartlySigned,
        Error::Crypto(CryptoError::FailedVerification) => Cause::HeaderChanged,
        Error::Crypto(CryptoError::IncompatibleAlgorithms) => Cause::KeyOfAnotherKind,
        Error::Dns(DnsError::RecordNotFound(_)) => Cause::KeyMissing,
        Error::Dns(DnsError::Resolver(_)) => Cause::KeyUnavailable,
        // All other errors are about the key: its record, its kind, its base64.
        _ => Cause::KeyUnreadable,
    }
}

/// Returns the canonical header fields that the signature at this place signs (RFC 6376 §3.7).
fn signed_header(message: &AuthenticatedMessage<'_>, place: usize) -> Option<Vec<u8>> {
    let mut alone = message.clone();
    let mut nth = 0;
    alone.retain_dkim_signatures(|_| {
        let keep = nth == place;
        nth += 1;
        if keep { Ok(()) } else { Err(DkimError::SignatureExpired) }
    });
    alone.canonicalized_dkim_headers()
}
