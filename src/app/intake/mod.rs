//! The one path of a message: `Gateway::take_in`.
//!
//! Called by the SMTP room through `domain::ports::Intake`. A message is examined once (scanned,
//! authenticated, summarised), judged for each recipient by a pure function, counted against rates,
//! shown to the application of a relay if there is one, and committed in one durable transaction
//! with its record, its events and its deliveries. Only then is it answered. A refusal leaves only
//! its record, which may be written behind the reply.
//!
//! The first decision may use remembered standings. The commit reads them again; if one changed,
//! nothing is written, and the message is decided anew by what the store says now. A failure of the
//! store is answered 4xx. Only after an error of the commit, or if the future is dropped during it,
//! the message may be stored all the same; the sender's retry is then recognised as a repeat.
//!
//! Mail to the address for reports on TLS (`tls_report`) leaves the path behind the examination.
//!
//! No webhook is called here: deliveries are committed, and the dispatcher is only woken. Locks are
//! in memory (directory, standings, rates), one at a time, never across an await.

mod arrival;
mod directory;
mod examine;
pub mod judge;
mod loops;
mod posted;
pub mod preview;
mod rate_limits;
pub mod reception;
mod recipient;
mod refusal;
mod relay_step;
mod session;
mod standings;
mod step;
mod thread;
pub mod tls_report;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tracing::{error, info};

use crate::domain::address::Address;
use crate::domain::evidence::count;
use crate::domain::id::{AccountId, IntakeId, MessageId, Mint};
use crate::domain::policy::Proof;
use crate::domain::ports::{Client, Envelope, Intake, IntakeReply, Recipient, Wake};
use crate::domain::reason::Reason;
use crate::domain::repeats::{LogCause, Repeats};
use crate::domain::source::Source;
use crate::domain::verdict::Verdict;
use crate::metrics::Metrics;
use crate::rules::IntakeRules;
use crate::store::{Commit, Committed, Store, StoreError};
use crate::traces::{Traces, Transaction};
use crate::verify::Authenticator;

use self::judge::Basis;
use self::rate_limits::RateLimits;
use self::recipient::RcptQuestion;
use self::relay_step::{ApplicationRequests, RelayStep};
use self::standings::Standings;
use crate::app::relay::Relays;
use crate::app::tls_reports::TlsReports;

pub use directory::{Directory, Resolved};
pub use examine::{Examination, examine, examine_file, sha256};
pub use judge::{Case, judge};
pub use loops::{Visit, marker};
pub use refusal::RefusedMessage;

/// Decisions per message: after this many changes of a policy meanwhile, the message is deferred.
const DECISIONS: usize = 6;

#[derive(Clone, Copy)]
struct Examined<'m> {
    envelope: &'m Envelope,
    raw: &'m Bytes,
    examination: &'m Examination,
}

pub struct Gateway {
    store: Store,
    authenticator: Arc<Authenticator>,
    rules: Arc<IntakeRules>,
    mint: Mint,
    wake: Arc<dyn Wake>,
    directory: Directory,
    standings: Standings,
    rate_limits: RateLimits,
    relays: Relays,
    repeats: Repeats,
    /// Takes reports of senders on TLS, in mail to an address of their own.
    reports: Option<TlsReports>,
    metrics: Metrics,
    traces: Traces,
}

impl Gateway {
    /// Stores mail in `store`; `relays` asks the applications of accounts.
    pub fn new(
        store: Store,
        authenticator: Arc<Authenticator>,
        rules: Arc<IntakeRules>,
        relays: Relays,
        wake: Arc<dyn Wake>,
    ) -> Self {
        let directory = Directory::new(store.clone(), None, rules.directory);
        let standings = Standings::new(rules.directory.named_entries);
        let rate_limits = RateLimits::new(rules.rates);
        let (mint, repeats) = (relays.mint().clone(), Repeats::default());
        Self {
            store,
            authenticator,
            rules,
            mint,
            wake,
            directory,
            standings,
            rate_limits,
            relays,
            repeats,
            reports: None,
            metrics: Metrics::default(),
            traces: Traces::default(),
        }
    }

    /// Measures messages and refusals.
    #[must_use]
    pub fn measured_by(self, metrics: Metrics) -> Self {
        Self { metrics, ..self }
    }

    /// Traces transactions.
    #[must_use]
    pub fn traced_by(self, traces: Traces) -> Self {
        Self { traces, ..self }
    }

    /// Sets the address of the Agent that gets mail for `postmaster`.
    #[must_use]
    pub fn with_postmaster(mut self, postmaster: Option<Address>) -> Self {
        self.directory.postmaster = postmaster;
        self
    }

    pub fn max_message_bytes(&self) -> usize {
        self.rules.limits.max_message_bytes
    }

    /// Logs a failure of the store and defers the message.
    fn trouble(&self, error: &StoreError) -> IntakeReply {
        if let Some(left_out) = self.repeats.due(LogCause::Deferred(error.public_cause())) {
            error!(
                error = error as &dyn std::error::Error,
                left_out, "the store failed; the sender is asked to retry"
            );
        }
        match error {
            StoreError::Full(_) => IntakeReply { reason: Some(Reason::NoSpace), ..unavailable() },
            _ => unavailable(),
        }
    }

    /// Counts and logs a message that was answered.
    fn answered(&self, envelope: &Envelope, bytes: u64, reply: &IntakeReply, began: Instant) {
        if reply.record.is_none() && !envelope.recipients.is_empty() {
            let (intakes, size) = (&[][..], bytes);
            let ended = Transaction { envelope, intakes, reply, size, began, commit: None };
            self.traces.transaction(&ended);
        }
        let (tls, took) = (envelope.client.tls.as_ref(), began.elapsed());
        let tls = tls.map(|tls| tls.version.as_str());
        self.metrics.message(Verdict::of(reply.reason), bytes, tls, took);
        log(envelope, bytes, reply, took);
    }

    /// Returns the reply after a refusal was counted, or could not be.
    fn counted_reply(
        &self,
        counted: Result<IntakeId, StoreError>,
        reason: Reason,
        detail: Option<&str>,
    ) -> IntakeReply {
        let reply = |record| IntakeReply {
            reason: Some(reason),
            detail: detail.map(str::to_owned),
            record: Some(record),
            again: false,
        };
        let reply = counted.map_or_else(|error| self.trouble(&error), reply);
        self.recipient_answered(reply)
    }

    /// Counts a refusal or a deferral at RCPT or MAIL.
    fn recipient_answered(&self, reply: IntakeReply) -> IntakeReply {
        if let Some(reason) = reply.reason {
            self.metrics.recipient_refused(reason);
        }
        reply
    }

    async fn take_in(&self, envelope: &Envelope, raw: &Bytes) -> Result<IntakeReply, StoreError> {
        let (arrived, began) = (self.mint.clock().now(), Instant::now());
        let examination = examine(&self.authenticator, &self.rules, envelope, raw, arrived).await;
        self.metrics.examined(&examination.steps, examination.results.as_deref());
        let mail = Examined { envelope, raw, examination: &examination };
        match envelope.report_address() {
            Some(recipient) => self.take_report(mail, recipient, began).await,
            None => self.decide(mail, began).await,
        }
    }

    /// Continues the path after the examination.
    async fn decide(&self, mail: Examined<'_>, began: Instant) -> Result<IntakeReply, StoreError> {
        let Examined { envelope, examination, .. } = mail;
        if examination.proof == Proof::Undecidable(Reason::TooBusy) {
            // This server's fault, not a verdict on the message: no record (contract §2.3).
            return Ok(IntakeReply { reason: Some(Reason::TooBusy), ..unavailable() });
        }
        let mut requests = ApplicationRequests::default();
        for tried in 0..DECISIONS {
            // Messages are listed by the time of acceptance; look-ups may have taken long.
            let basis = Basis { now: self.mint.clock().now(), anew: tried > 0 };
            let mut judgement = match self.judge_all(mail, basis).await? {
                Some(judgement) => judgement,
                None if basis.anew => break,
                None => continue,
            };
            let taken = match self.within_rates(&judgement.commit, examination) {
                Ok(taken) => taken,
                // No commit would check the remembered standing, so decide anew before deferring.
                Err(_) if !basis.anew => continue,
                // A repeat counts nothing, and its sender must be told so (contract §2, Repeats).
                Err(_) if self.store.arrived_before(&judgement.commit).await? => None,
                // Not traced: its record may count many, of which each would have the one trace.
                Err(over) => return self.defer_over_rate(judgement.commit, over).await,
            };
            match self.ask_application(mail, &mut judgement, &mut requests).await? {
                RelayStep::Settled => {}
                RelayStep::Changed => {
                    taken.into_iter().for_each(|one| one.give_back(Instant::now()));
                    continue;
                }
            }
            for intake in &mut judgement.commit.intakes {
                intake.record.took = Some(began.elapsed());
            }
            let (intakes, size) = (judgement.commit.intakes.as_slice(), examination.size);
            let commit_began = Instant::now();
            let trace = |reply: &IntakeReply| {
                let commit = Some([commit_began, Instant::now()]);
                let ended = Transaction { envelope, intakes, reply, size, began, commit };
                self.traces.transaction(&ended);
            };
            if judgement.commit.intakes.iter().all(|intake| intake.accepted.is_none()) {
                self.store.note(&judgement.commit).await?;
                trace(&judgement.answer);
                return Ok(judgement.answer);
            }
            // An error gives nothing back: the commit may have been written.
            match self.store.commit(&judgement.commit).await? {
                Committed::Stale => taken.into_iter().for_each(|one| one.give_back(Instant::now())),
                Committed::Done(earlier) => {
                    // A message that an application turned down stays counted: the application was
                    // asked.
                    if let Some(taken) = taken.filter(|_| judgement.answer.reason.is_none()) {
                        taken.settle(&judgement.commit.intakes, &earlier, Instant::now());
                    }
                    self.wake.wake();
                    let again = is_repeat(&judgement.commit, &earlier);
                    let answer = IntakeReply { again, ..judgement.answer };
                    trace(&answer);
                    return Ok(answer);
                }
            }
        }
        // The recipients no longer agree, or the policy keeps changing: nothing was written, and
        // the sender's retry is decided from the start.
        info!(
            recipients = envelope.recipients.len(),
            "message deferred: the policy changed while it was applied"
        );
        Ok(unavailable())
    }
}

impl Intake for Gateway {
    fn turned_down(&self, label: &'static str) {
        self.metrics.turned_down(label);
    }

    async fn free_space(&self) -> Result<Option<u64>, IntakeReply> {
        let free = self.store.free_space().await;
        free.map_err(|error| self.recipient_answered(self.trouble(&error)))
    }

    async fn over_rate(&self, client: &Client, reverse_path: &str, path: &str) -> IntakeReply {
        let reason = Reason::RateLimited;
        let counted = match self.directory.find(path).await {
            Ok(found) => {
                let asked = RcptQuestion { client, reverse_path, path };
                self.count(asked, &found.listing, reason).await
            }
            Err(error) => Err(error),
        };
        self.counted_reply(counted, reason, None)
    }

    async fn recipient(
        &self,
        client: &Client,
        reverse_path: &str,
        path: &str,
    ) -> Result<Recipient, IntakeReply> {
        self.find_recipient(RcptQuestion { client, reverse_path, path }).await
    }

    async fn message(&self, envelope: Envelope, raw: Bytes) -> IntakeReply {
        let undecided = Undecided::of(self, &envelope, count(raw.len()));
        let taken = self.take_in(&envelope, &raw).await;
        undecided.answered(taken.unwrap_or_else(|error| self.trouble(&error)))
    }

    async fn refused(
        &self,
        envelope: Envelope,
        reason: Reason,
        detail: String,
        head: Bytes,
        size: u64,
    ) -> IntakeReply {
        let source = Source::Email;
        let refused = RefusedMessage { reason, detail: &detail, head: &head, size, source };
        let undecided = Undecided::of(self, &envelope, size);
        let recorded = self.record_refusal(&envelope, refused, undecided.began).await;
        undecided.answered(recorded.unwrap_or_else(|error| self.trouble(&error)))
    }
}

/// A message on which the gateway is to decide. If the front end drops the question, because the
/// answer took too long or the server ends, the sender is asked to retry, and the message counts as
/// deferred; it may be stored all the same, and the retry is then a repeat.
struct Undecided<'m> {
    gateway: &'m Gateway,
    envelope: &'m Envelope,
    bytes: u64,
    began: Instant,
    is_answered: bool,
}

impl<'m> Undecided<'m> {
    fn of(gateway: &'m Gateway, envelope: &'m Envelope, bytes: u64) -> Self {
        Self { gateway, envelope, bytes, began: Instant::now(), is_answered: false }
    }

    /// Counts and logs the answer, and hands it on.
    fn answered(mut self, reply: IntakeReply) -> IntakeReply {
        self.is_answered = true;
        self.gateway.answered(self.envelope, self.bytes, &reply, self.began);
        reply
    }
}

impl Drop for Undecided<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.gateway.answered(self.envelope, self.bytes, &unavailable(), self.began);
        }
    }
}

/// Tells whether every accepted message of the commit had arrived before, so nothing new was
/// stored.
fn is_repeat(commit: &Commit, earlier: &[Option<MessageId>]) -> bool {
    let accepted = || commit.intakes.iter().zip(earlier).filter(|(one, _)| one.accepted.is_some());
    accepted().count() > 0 && accepted().all(|(_, earlier)| earlier.is_some())
}

const fn unavailable() -> IntakeReply {
    IntakeReply { reason: Some(Reason::StoreUnavailable), detail: None, record: None, again: false }
}

/// Logs the answer to a message: one line for each.
fn log(envelope: &Envelope, bytes: u64, reply: &IntakeReply, took: Duration) {
    let tls = envelope.client.tls.as_ref();
    info!(
        outcome = Verdict::of(reply.reason).as_str(),
        reason = reply.reason.map(Reason::as_str),
        record.id = reply.record.map(|id| id.to_string()),
        agent.id = envelope.recipients.first().and_then(|to| to.agent).map(AccountId::get),
        recipients = envelope.recipients.len(),
        client.address = %envelope.client.address,
        tls.version = tls.map(|tls| tls.version.as_str()),
        tls.cipher = tls.map(|tls| tls.cipher.as_str()),
        bytes,
        took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        again = reply.again,
        "message decided"
    );
}
