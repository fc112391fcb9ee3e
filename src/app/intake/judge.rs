//! Steps 4 to 6: judges a message for each recipient, and prepares the commit.

use std::sync::Arc;
use std::time::Instant;

use super::loops::{BEEN_HERE, Visit, marker};
use super::step::step;
use super::{Examination, Examined, Gateway, thread};
use crate::domain::account::Lineage;
use crate::domain::address::Address;
use crate::domain::clock::Timestamp;
use crate::domain::contact::Handle;
use crate::domain::evidence::policy::Policy;
use crate::domain::evidence::{Evidence, Facts as Of};
use crate::domain::id::{IntakeId, Mint};
use crate::domain::intake_record::IntakeRecord;
use crate::domain::message::{Mail, Passage};
use crate::domain::policy::{Facts, decide};
use crate::domain::ports::{Envelope, IntakeReply, Recipient};
use crate::domain::reason::Reason;
use crate::domain::source::Source;
use crate::domain::verdict::Verdict;
use crate::store::{Accepted, AddressedAgent, Commit, Intake, NewMessage, Standing, StoreError};

/// The time of a decision, and whether remembered standings may be used.
#[derive(Clone, Copy)]
pub(super) struct Basis {
    pub now: Timestamp,
    /// Read every standing from the store, not from memory.
    pub anew: bool,
}

/// One verdict for the whole transaction, and the rows to commit.
pub(super) struct Judgement {
    pub commit: Commit,
    pub answer: IntakeReply,
}

/// Decides for one recipient, by the examination, its standing, and whether the message returns to
/// it. None means accepted.
pub fn judge(
    examination: &Examination,
    standing: &Standing,
    visit: Option<&Visit>,
) -> Option<Reason> {
    if !standing.answers {
        return Some(Reason::UnknownRecipient);
    }
    decide(Facts {
        recipient_active: standing.active,
        takes_mail: standing.takes_mail,
        looping: examination.looping || visit.is_some_and(|visit| visit.is_return),
        proof: examination.proof,
        mode: standing.mode,
        listed: standing.listed,
    })
}

#[derive(Clone, Copy, Debug)]
pub struct Case<'c> {
    pub envelope: &'c Envelope,
    /// As sent in RCPT.
    pub recipient: &'c str,
    /// The result of comparing delivery markers; None if the message has none.
    pub visit: Option<&'c Visit>,
    pub now: Timestamp,
}

/// A decision on one case.
pub(super) struct Decision {
    /// None means accepted.
    pub reason: Option<Reason>,
    pub explanation: String,
    pub evidence: Evidence,
}

/// Makes the record of the verdict on `case`. The caller sets its lineage, Agent and message.
pub fn record(
    case: &Case<'_>,
    examination: &Examination,
    standing: &Standing,
    mint: &Mint,
) -> IntakeRecord {
    let began = Instant::now();
    let reason = judge(examination, standing, case.visit);
    let explanation = explain(reason, examination);
    let evidence = evidence(case, examination, standing, reason, began);
    record_of(case, examination, Decision { reason, explanation, evidence }, mint)
}

pub(super) fn record_of(
    case: &Case<'_>,
    examination: &Examination,
    decision: Decision,
    mint: &Mint,
) -> IntakeRecord {
    let Decision { reason, explanation, evidence } = decision;
    let client = &case.envelope.client;
    IntakeRecord {
        id: IntakeId(mint.uuid()),
        at: case.now,
        source: Source::Email,
        lineage: Lineage::default(),
        agent: None,
        recipient: case.recipient.to_owned(),
        sender: examination.sender.clone().map(Handle::Mailbox),
        envelope_from: case.envelope.reverse_path.clone(),
        remote_address: client.address,
        helo: client.helo.clone(),
        verdict: Verdict::of(reason),
        explanation,
        message: None,
        size: examination.size,
        digest: Some(examination.digest),
        headers: examination.headers.clone(),
        evidence,
        count: 1,
        took: None,
    }
}

impl Gateway {
    /// Judges every recipient; returns None if the verdicts differ, since one reply must fit all,
    /// or if an application is to decide for one of several. A recipient to which the message
    /// returns (a loop) need not agree: it has the message, and must not cost the others their
    /// mail. Its own record says `loop_detected`, which is the reply only if the message returns to
    /// every recipient. Unless `basis.anew`, an acceptance may rest on a remembered standing.
    pub(super) async fn judge_all(
        &self,
        mail: Examined<'_>,
        basis: Basis,
    ) -> Result<Option<Judgement>, StoreError> {
        let Examined { envelope, examination, .. } = mail;
        let mut intakes = Vec::with_capacity(envelope.recipients.len());
        let (mut verdict, mut of_returns) = (None, None);
        for recipient in &envelope.recipients {
            let intake = self.judge_one(mail, recipient, basis).await?;
            let one = (intake.record.verdict.reason(), intake.record.id);
            intakes.push(intake);
            if one.0 == Some(Reason::LoopDetected) {
                of_returns.get_or_insert(one);
            } else if verdict.get_or_insert(one).0 != one.0 {
                return Ok(None);
            }
        }
        // An application is asked about one recipient, and its answer is the reply for all.
        let accepted = || intakes.iter().filter_map(|intake| intake.accepted.as_ref());
        let asked = envelope.posted.is_none();
        if asked && accepted().count() > 1 && accepted().any(|one| one.standing.relay.is_some()) {
            return Ok(None);
        }
        let Some((reason, record)) = verdict.or(of_returns) else { return Ok(None) };
        let detail = found(reason, examination).filter(|_| explains(reason));
        let answer = IntakeReply {
            reason,
            detail: detail.map(str::to_owned),
            record: Some(record),
            again: false,
        };
        Ok(Some(Judgement { commit: Commit { intakes, now: basis.now }, answer }))
    }

    async fn judge_one(
        &self,
        mail: Examined<'_>,
        recipient: &Recipient,
        Basis { now, anew }: Basis,
    ) -> Result<Intake, StoreError> {
        let Examined { envelope, raw, examination } = mail;
        let nobody = || StoreError::Corrupt {
            table: "accounts",
            detail: format!("{} has no Agent", recipient.as_sent),
        };
        let id = recipient.agent.ok_or_else(nobody)?;
        let corrupt = |detail: &str| StoreError::Corrupt {
            table: "accounts",
            detail: format!("Agent {id}: {detail}"),
        };
        // Without a readable From nobody is listed. The Agent's own address stands in for the
        // sender in the query; the verdict does not depend on the result.
        let sender = examination.sender.as_ref().unwrap_or(&recipient.address);
        let visit = examination.visit(self.store.identity().await?, &recipient.address);
        // Before the commit the relay must be read anew, not remembered: it is asked.
        let admits = |lately: &AddressedAgent| {
            let standing = &lately.standing;
            standing.relay.is_none() && judge(examination, standing, visit.as_ref()).is_none()
        };
        let lately = examination.mail.as_ref().filter(|_| !anew);
        let lately = lately.and_then(|_| self.standings.lately(recipient, sender));
        let agent = match lately.filter(admits) {
            Some(agent) => agent,
            None => {
                let now = self.store.addressed(id, &recipient.address, sender).await?;
                let now = now.ok_or_else(|| corrupt("does not exist, or has no policy"))?;
                if admits(&now) && examination.mail.is_some() {
                    self.standings.keep(recipient, sender, &now);
                }
                now
            }
        };
        let standing = agent.standing;
        let case = Case { envelope, recipient: &recipient.as_sent, visit: visit.as_ref(), now };
        let mut record = record(&case, examination, &standing, &self.mint);
        (record.lineage, record.agent) = (agent.lineage, Some(id));
        let reason = record.verdict.reason();
        let accepted = match (&examination.mail, reason) {
            (Some(mail), None) => {
                let message = self.new_message(&agent, recipient, mail, examination, now).await?;
                // An accepted message and its record share one row and one id.
                (record.id, record.message) = (IntakeId(message.id.0), Some(message.id));
                Some(Accepted {
                    standing,
                    address: recipient.address.clone(),
                    message,
                    raw: raw.clone(),
                    arrival_keys: examination.arrival_keys.clone(),
                    remembered_until: now.plus(self.rules.dedup.window()),
                })
            }
            // Never answers 250 for a message that is not stored.
            (None, None) => return Err(corrupt("would accept a message that was not parsed")),
            (_, Some(_)) => None,
        };
        Ok(Intake { record, accepted })
    }

    async fn new_message(
        &self,
        agent: &AddressedAgent,
        recipient: &Recipient,
        mail: &Arc<Mail>,
        examination: &Examination,
        now: Timestamp,
    ) -> Result<NewMessage, StoreError> {
        let corrupt = || StoreError::Corrupt {
            table: "accounts",
            detail: format!("the Agent of {} has no organization", recipient.address),
        };
        let organization = agent.lineage.organization.ok_or_else(corrupt)?;
        let id = recipient.agent.ok_or_else(corrupt)?;
        let marker = marker(self.store.identity().await?, &recipient.address);
        let automation = examination.automation.clone();
        Ok(NewMessage {
            id: self.mint.message(),
            lineage: agent.lineage,
            agent: id,
            agent_username: agent.username.clone(),
            organization,
            at: now,
            mail: Arc::clone(mail),
            thread: thread::keys(mail, self.rules.limits.max_thread_keys),
            tag: recipient.tag.clone(),
            digest: examination.digest,
            authentication: examination.results.clone(),
            passage: Passage { marker: Some(marker), automation },
        })
    }
}

/// Tells whether the findings of authentication explain this outcome: not refusals by the policy.
fn explains(reason: Option<Reason>) -> bool {
    !matches!(
        reason,
        None | Some(
            Reason::SenderNotAllowed
                | Reason::InactiveRecipient
                | Reason::InboundEmailOff
                | Reason::UnknownRecipient
        )
    )
}

/// Returns the finding behind a verdict. A loop without too many hops was found by its marker.
fn found(reason: Option<Reason>, examination: &Examination) -> Option<&str> {
    match reason {
        Some(Reason::LoopDetected) if !examination.looping => Some(BEEN_HERE),
        _ => examination.detail.as_deref(),
    }
}

/// Explains the outcome. A refusal by the allowlist shows the explanation of the reason alone.
fn explain(reason: Option<Reason>, examination: &Examination) -> String {
    let detail = found(reason, examination).unwrap_or_default();
    let told = examination.explanation.as_ref().filter(|_| reason != Some(Reason::LoopDetected));
    match (reason, told) {
        (None, _) => format!("Accepted: {detail}."),
        (Some(reason), _) if !explains(Some(reason)) => reason.explanation().to_owned(),
        (Some(reason), Some(told)) => format!("{} {told}", reason.explanation()),
        (Some(reason), None) if detail.is_empty() => reason.explanation().to_owned(),
        (Some(reason), None) => format!("{} ({detail})", reason.explanation()),
    }
}

fn evidence(
    case: &Case<'_>,
    examination: &Examination,
    standing: &Standing,
    reason: Option<Reason>,
    began: Instant,
) -> Evidence {
    let mut evidence = Evidence::of_message(&examination.steps);
    if let Some(visit) = case.visit {
        evidence.push(visit.step.clone());
    }
    let result = reason.map_or("accepted", Reason::as_str);
    let detail = reason.map_or("the sender is authenticated and admitted", Reason::explanation);
    let facts = Of::Policy(Policy {
        sender: examination.sender.as_ref().map(Address::to_string),
        mode: standing.mode.as_str().into(),
        listed: standing.listed,
        policy_version: standing.policy_version,
        recipient_active: standing.active,
        recipient_answers: standing.answers,
        recipient_takes_mail: standing.takes_mail,
    });
    evidence.push(step(facts, result, detail, began));
    evidence
}
