//! Between policy and commit: asks the application of the nearest relay, of the Agent or of an
//! account above, about mail that came over SMTP (contract §2.1, §6). No transaction is open
//! meanwhile. The relay is part of the standing, which the commit reads again.

use std::time::Instant;

use super::judge::Judgement;
use super::step::step;
use super::{Examined, Gateway};
use crate::app::relay::RelayError;
use crate::domain::account::Lineage;
use crate::domain::evidence::{self, Facts, Step};
use crate::domain::ports::Recipient;
use crate::domain::reason::Reason;
use crate::domain::relay::{Forwarded, Hop, Relay, RelayType, Relayed};
use crate::domain::repeats::LogCause;
use crate::domain::verdict::Verdict;
use crate::store::{Accepted, StoreError};

/// Requests to applications about one message, at most: the relay may change once meanwhile. The
/// sending server waits for each.
const MAX_REQUESTS: usize = 2;

/// The requests made about one message, kept across re-decisions.
#[derive(Default)]
pub(super) struct ApplicationRequests {
    passed: Option<Passed>,
    made: usize,
}

/// A passing answer, kept so that the application is not asked twice.
struct Passed {
    relayed: Relayed,
    step: Step,
}

/// The nearest relay, at the Agent or above.
enum Nearest {
    Relay(Box<Relay>),
    None,
    /// The relay cannot be used: its stored secrets cannot be opened. The operator must act.
    Closed(RelayError),
}

/// Whether a judgement may be committed.
pub(super) enum RelayStep {
    /// Yes; the application may have turned the message down.
    Settled,
    /// No: another relay counts now than in the judgement.
    Changed,
}

impl Gateway {
    /// Asks the application of the relay that `judgement` rests on, if there is one, and writes the
    /// answer into the judgement. Does not ask about a message that has arrived before: it stores
    /// nothing new.
    pub(super) async fn ask_application(
        &self,
        mail: Examined<'_>,
        judgement: &mut Judgement,
        asks: &mut ApplicationRequests,
    ) -> Result<RelayStep, StoreError> {
        // A provider's own hop has already asked about posted mail (contract §6).
        if mail.envelope.posted.is_some() {
            return Ok(RelayStep::Settled);
        }
        let wanted = judgement.commit.intakes.iter().enumerate().find_map(|(at, intake)| {
            let accepted = intake.accepted.as_ref()?;
            Some((at, accepted.standing.relay?))
        });
        let Some((at, wanted)) = wanted else { return Ok(RelayStep::Settled) };
        let before = asks.passed.as_ref().filter(|passed| passed.relayed == wanted);
        let step = match before {
            Some(passed) => passed.step.clone(),
            None if self.store.arrived_before(&judgement.commit).await? => {
                return Ok(RelayStep::Settled);
            }
            None => {
                let began = Instant::now();
                let intake = judgement.commit.intakes.get(at);
                let Some(accepted) = intake.and_then(|intake| intake.accepted.as_ref()) else {
                    return Ok(RelayStep::Settled);
                };
                let recipient = mail.envelope.recipients.get(at);
                let (relay, hop) = match self.nearest(&accepted.message.lineage).await? {
                    Nearest::Relay(relay)
                        if relay.relayed() == wanted && asks.made == MAX_REQUESTS =>
                    {
                        (Some(relay), Hop::Deferred(CHANGING.to_owned()))
                    }
                    Nearest::Relay(relay) if relay.relayed() == wanted => {
                        asks.made += 1;
                        let request = forwarded(mail, recipient, accepted);
                        let whose = &accepted.message.lineage;
                        let hop = self.relays.pass(&relay, whose, &request).await;
                        // A relay that was deleted or changed meanwhile turns nothing down.
                        if hop != Hop::Passed
                            && !self.still(wanted, &accepted.message.lineage).await?
                        {
                            return Ok(RelayStep::Changed);
                        }
                        (Some(relay), hop)
                    }
                    Nearest::Relay(_) | Nearest::None => return Ok(RelayStep::Changed),
                    Nearest::Closed(error) => (None, Hop::Deferred(error.to_string())),
                };
                let step = evidence_step(wanted, relay.as_deref(), &hop, began);
                if hop != Hop::Passed {
                    turn_down(judgement, at, &hop, step);
                    return Ok(RelayStep::Settled);
                }
                asks.passed = Some(Passed { relayed: wanted, step: step.clone() });
                step
            }
        };
        if let Some(intake) = judgement.commit.intakes.get_mut(at) {
            intake.record.evidence.push(step);
        }
        Ok(RelayStep::Settled)
    }

    async fn still(&self, asked: Relayed, lineage: &Lineage) -> Result<bool, StoreError> {
        let now = self.nearest(lineage).await?;
        Ok(matches!(now, Nearest::Relay(relay) if relay.relayed() == asked))
    }

    async fn nearest(&self, lineage: &Lineage) -> Result<Nearest, StoreError> {
        match self.relays.nearest(RelayType::Smtp, lineage).await {
            Ok(Some(relay)) => Ok(Nearest::Relay(Box::new(relay))),
            Ok(None) => Ok(Nearest::None),
            Err(RelayError::Store(error)) => Err(error),
            Err(error) => {
                if let Some(left_out) = self.repeats.due(LogCause::Relay) {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(
                        error,
                        left_out,
                        "cannot use a relay: its messages are deferred"
                    );
                }
                Ok(Nearest::Closed(error))
            }
        }
    }
}

/// Shown to customers.
const CHANGING: &str = "the relay was changed repeatedly while its application was asked";

fn forwarded(
    Examined { envelope, raw, examination }: Examined<'_>,
    recipient: Option<&Recipient>,
    accepted: &Accepted,
) -> Forwarded {
    let client = &envelope.client;
    let as_sent = recipient.map(|recipient| recipient.as_sent.as_str()).unwrap_or_default();
    let tls = client.tls.as_ref().map(|tls| tls.version.clone());
    let digest: String = examination.digest.0.iter().map(|octet| format!("{octet:02x}")).collect();
    let mut headers = vec![
        ("content-type", "message/rfc822".to_owned()),
        ("x-gatepost-mail-from", format!("<{}>", envelope.reverse_path)),
        ("x-gatepost-rcpt-to", format!("<{as_sent}>")),
        ("x-gatepost-sender", accepted.message.mail.from.address.to_string()),
        ("x-gatepost-recipient", accepted.address.to_string()),
        ("x-gatepost-client-address", client.address.to_string()),
        ("x-gatepost-helo", client.helo.clone()),
        ("x-gatepost-sha256", digest),
    ];
    headers.extend(tls.map(|version| ("x-gatepost-tls", version)));
    let header = |(name, value): (&str, String)| (name.to_owned(), value.into_bytes());
    Forwarded {
        method: "POST".to_owned(),
        headers: headers.into_iter().map(header).collect(),
        body: raw.clone(),
    }
}

fn evidence_step(wanted: Relayed, relay: Option<&Relay>, hop: &Hop, began: Instant) -> Step {
    let detail = match hop {
        Hop::Passed => "the application let it pass",
        Hop::Refused => "the application refused it (406)",
        Hop::Deferred(why) => why,
    };
    let facts = Facts::Relay(evidence::relay::Relay {
        kind: RelayType::Smtp.as_str().into(),
        relay: wanted.id.to_string(),
        revision: wanted.revision,
        account_id: relay.map(|relay| relay.account.get()),
    });
    step(facts, hop.outcome().as_str(), detail, began)
}

/// Turns an acceptance into a refusal or deferral, of which only the record is stored.
fn turn_down(judgement: &mut Judgement, at: usize, hop: &Hop, step: Step) {
    let Some(intake) = judgement.commit.intakes.get_mut(at) else { return };
    let (reason, why) = match hop {
        Hop::Deferred(why) => (Reason::RelayUnavailable, Some(why)),
        Hop::Passed | Hop::Refused => (Reason::RelayRefused, None),
    };
    intake.record.evidence.push(step);
    intake.accepted = None;
    let record = &mut intake.record;
    record.verdict = Verdict::of(Some(reason));
    record.message = None;
    record.explanation = match why {
        Some(why) => format!("{} ({why})", reason.explanation()),
        None => reason.explanation().to_owned(),
    };
    judgement.answer.reason = Some(reason);
    judgement.answer.detail = None;
}
