//! Steps 1 to 3: scan, authenticate, summarise. Establishes facts, faults included; decides
//! nothing.

use std::sync::Arc;
use std::time::Instant;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;

use super::arrival;
use super::session;
use super::step::step;
use crate::domain::address::Address;
use crate::domain::automation::Automation;
use crate::domain::clock::Timestamp;
use crate::domain::evidence::results::Results;
use crate::domain::evidence::scan::Scan;
use crate::domain::evidence::{Facts, Step};
use crate::domain::marker::Marker;
use crate::domain::message::{Digest, Mail};
use crate::domain::policy::Proof;
use crate::domain::ports::Envelope;
use crate::domain::reason::Reason;
use crate::mail::fields::KnownField;
use crate::mail::line_ends::refused_on_the_wire;
use crate::mail::machine;
use crate::mail::scan::{self, Fault, Headers};
use crate::rules::IntakeRules;
use crate::verify::{Authenticator, Question};

/// Messages larger than this (bytes) are read on the blocking pool, so that no session waits for
/// another one's attachment. For smaller ones the hand-over costs more than the work.
const LARGE: usize = 256 * 1024;

#[derive(Clone, Debug)]
pub struct Examination {
    pub proof: Proof,
    /// The message has too many hops.
    pub looping: bool,
    /// The mailbox in From, if one could be found.
    pub sender: Option<Address>,
    /// Whether a person or a machine sent it; None if the scan failed.
    pub automation: Option<Automation>,
    /// Delivery markers in the message, for any address.
    pub markers: Vec<Marker>,
    /// Present if the proof is `Authenticated`.
    pub mail: Option<Arc<Mail>>,
    /// The finding in words fit for the SMTP reply.
    pub detail: Option<String>,
    /// Why authentication failed, in plain words for people.
    pub explanation: Option<String>,
    /// Bytes of the message.
    pub size: u64,
    pub digest: Digest,
    /// The header section, bounded, for the record.
    pub headers: Vec<u8>,
    /// An earlier message to the same Agent with any of these keys is this message.
    pub arrival_keys: Vec<[u8; 32]>,
    /// Digests of the signatures that identify the message (`b=`), whatever else it contains.
    pub signatures: Vec<Digest>,
    /// The results of all methods; None if the scan failed.
    pub results: Option<Arc<Results>>,
    pub steps: Arc<Vec<Step>>,
}

pub async fn examine(
    authenticator: &Authenticator,
    rules: &IntakeRules,
    envelope: &Envelope,
    raw: &Bytes,
    now: Timestamp,
) -> Examination {
    let mut examination = Examination::begin(rules, envelope, raw, now).await;
    let began = Instant::now();
    let scanned = scan::scan(raw, &rules.limits);
    let headers = match scanned.and_then(|found| found.permit(envelope.smtputf8).map(|()| found)) {
        Ok(headers) => headers,
        Err(fault) => {
            examination.sender.clone_from(&fault.from);
            examination.fail(Facts::Scan, &fault, began);
            return examination;
        }
    };
    let sender = headers.from.address.clone();
    let facts = Facts::Scan(Scan { from: Some(sender.to_string()) });
    examination.add([step(facts, "pass", "one From field with one mailbox", began)]);
    examination.sender = Some(sender.clone());
    let began = Instant::now();
    let signs = machine::signs(&headers, envelope.reverse_path.is_empty(), &rules.limits);
    examination.add([step(
        Facts::Automation(signs.facts),
        signs.automation.origin.as_str(),
        describe(&signs.automation),
        began,
    )]);
    (examination.automation, examination.markers) = (Some(signs.automation), signs.markers);
    let question = Question {
        raw,
        headers: &headers,
        client: &envelope.client,
        reverse_path: &envelope.reverse_path,
        is_tls_report: envelope.report_address().is_some(),
        now,
    };
    let found = authenticator.check(question).await;
    examination.proof = found.proof;
    examination.detail = Some(found.detail);
    examination.explanation = Some(found.explanation).filter(|text| !text.is_empty());
    examination.results = Some(Arc::new(found.results));
    examination.add(found.steps);
    if found.proof == Proof::Authenticated {
        let body_at = headers.body_at;
        let body = on_pool(raw, move |raw| sha256(raw.get(body_at..).unwrap_or_default())).await;
        examination.arrival_keys = arrival::keys(&found.signatures, &headers, body, &examination);
        examination.signatures = found.signatures.iter().map(|b| sha256(b.as_bytes())).collect();
        let began = Instant::now();
        match summarise(raw, &headers, found.unsigned, rules).await {
            Ok(mail) => examination.mail = Some(Arc::new(mail)),
            Err(fault) => examination.fail(Facts::Content, &fault, began),
        }
    }
    examination
}

/// Examines a message from a file, which no SMTP session has checked: framing that a session
/// refuses at the end of DATA is refused here, and nothing else is checked.
pub async fn examine_file(
    authenticator: &Authenticator,
    rules: &IntakeRules,
    envelope: &Envelope,
    raw: &Bytes,
    now: Timestamp,
) -> Examination {
    let began = Instant::now();
    let Some(detail) = on_pool(raw, refused_on_the_wire).await else {
        return examine(authenticator, rules, envelope, raw, now).await;
    };
    let mut examination = Examination::begin(rules, envelope, raw, now).await;
    let fault = Fault { reason: Reason::Malformed, detail, from: None };
    examination.fail(Facts::Framing, &fault, began);
    examination
}

impl Examination {
    async fn begin(rules: &IntakeRules, envelope: &Envelope, raw: &Bytes, now: Timestamp) -> Self {
        let kept = rules.record.max_kept_header_bytes;
        Self {
            proof: Proof::Unproven(Reason::SenderInvalid),
            looping: false,
            sender: None,
            automation: None,
            markers: Vec::new(),
            mail: None,
            detail: None,
            explanation: None,
            size: u64::try_from(raw.len()).unwrap_or(u64::MAX),
            digest: on_pool(raw, sha256).await,
            headers: scan::section(raw, kept).to_vec(),
            arrival_keys: Vec::new(),
            signatures: Vec::new(),
            results: None,
            steps: Arc::new(session::arrival(envelope, raw.len(), now)),
        }
    }

    fn add(&mut self, steps: impl IntoIterator<Item = Step>) {
        Arc::make_mut(&mut self.steps).extend(steps);
    }

    /// Records the fault as the last step, of this kind.
    fn fail(&mut self, kind: fn(Scan) -> Facts, fault: &Fault, began: Instant) {
        if fault.reason == Reason::LoopDetected {
            self.looping = true;
        }
        self.proof = Proof::Unproven(fault.reason);
        self.detail = Some(fault.detail.clone());
        self.explanation = None;
        let facts = kind(Scan { from: fault.from.as_ref().map(Address::to_string) });
        self.add([step(facts, "fail", fault.detail.as_str(), began)]);
    }
}

fn describe(automation: &Automation) -> String {
    match automation.signs.as_slice() {
        [] => "nothing says that a machine sent it".to_owned(),
        signs => format!("no automatic answer should be sent: {}", signs.join(", ")),
    }
}

/// Fails with the fault of the content. `unsigned` are the fields that the signature leaves open.
async fn summarise(
    raw: &Bytes,
    headers: &Headers<'_>,
    unsigned: Vec<KnownField>,
    rules: &IntakeRules,
) -> Result<Mail, Fault> {
    if raw.len() <= LARGE {
        return crate::mail::summarise(raw, headers, &unsigned, &rules.limits);
    }
    let limits = rules.limits.clone();
    on_pool(raw, move |raw| {
        let headers = scan::scan(raw, &limits)?;
        crate::mail::summarise(raw, &headers, &unsigned, &limits)
    })
    .await
}

/// Runs work over a message: here if the message is small, on the blocking pool if it is large.
/// Work on the pool goes on if this is dropped; its panic is raised here.
async fn on_pool<T: Send + 'static>(
    raw: &Bytes,
    work: impl FnOnce(&[u8]) -> T + Send + 'static,
) -> T {
    if raw.len() <= LARGE {
        return work(raw);
    }
    let raw = raw.clone();
    match tokio::task::spawn_blocking(move || work(&raw)).await {
        Ok(done) => done,
        // The task cannot be cancelled, so it panicked: the session ends as if the work had run
        // here.
        Err(failed) => std::panic::resume_unwind(failed.into_panic()),
    }
}

pub fn sha256(bytes: &[u8]) -> Digest {
    let mut octets = [0; 32];
    octets.copy_from_slice(digest(&SHA256, bytes).as_ref());
    Digest(octets)
}
