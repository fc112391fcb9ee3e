//! Takes in messages that a provider posts (contract §6). Checks the provider's proof, asks the
//! account's own application, and then authenticates, judges and commits the message as if it had
//! come over SMTP.
//!
//! Recipients whose verdicts could differ get a transaction each, and one answer stands for all. If
//! one is deferred, the provider should retry; those that have the message are recognised then
//! (contract §2, Repeats). Else the message is accepted if one recipient accepted it, and refused
//! if none did.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tracing::{info, warn};

use super::applications::Applications;
use super::providers::{
    Ages, Broken, CertificateError, Forged, Post, ProviderMail, Refusal, Unavailable, json,
    mailgun, postmark, sendgrid, ses, sns,
};
use super::sns_certificates::{SnsCertificateError, SnsCertificates};
use super::tokens::Tokens;
use super::{RelayError, Relays};
use crate::app::intake::{Gateway, RefusedMessage};
use crate::domain::id::{AccountId, IntakeId};
use crate::domain::path::{self, PathKind};
use crate::domain::ports::{Client, Envelope, Intake as _, IntakeReply, Posted, Recipient};
use crate::domain::reason::Reason;
use crate::domain::relay::{Forwarded, Hop, RelayType, Verification, WayIn};
use crate::domain::repeats::{LogCause, Repeats};
use crate::domain::source::Source;
use crate::mail::line_ends::{as_received, refused_on_the_wire};
use crate::rules::{BareLineEnds, InboundRules};

/// A request may name as many recipients as fill so many transactions.
const TRANSACTIONS: usize = 10;

/// Requests larger than this (bytes) are read on the blocking pool.
const LARGE: usize = 256 * 1024;

/// A post that is refused, and why.
#[derive(Clone, Copy, Debug)]
pub struct RefusedPost<'p> {
    pub words: &'p str,
    pub size: usize,
    /// In plain words.
    pub proof: &'static str,
    pub source: Source,
}

#[derive(Clone)]
pub struct Inbound {
    gateway: Arc<Gateway>,
    relays: Relays,
    applications: Applications,
    signers: SnsCertificates,
    tokens: Arc<Tokens>,
    rules: Arc<InboundRules>,
    bare_line_ends: BareLineEnds,
    repeats: Repeats,
}

impl std::fmt::Debug for Inbound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbound").finish_non_exhaustive()
    }
}

/// The outcome of a request that the provider proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostOutcome {
    /// A recipient accepted the message, and none deferred it.
    Accepted(Vec<IntakeId>),
    /// Every recipient refused the message.
    Refused { words: String, records: Vec<IntakeId> },
    /// A recipient deferred the message.
    Deferred { words: String, records: Vec<IntakeId> },
    /// The request brought no message.
    Noted(&'static str),
}

/// The provider's proof fails, or the request cannot be read now.
#[derive(Debug, thiserror::Error)]
pub enum InboundError {
    #[error(transparent)]
    Forged(#[from] Forged),
    #[error(transparent)]
    Broken(#[from] Broken),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error(transparent)]
    Relays(#[from] RelayError),
}

enum Read {
    Mail(ProviderMail),
    Noted(&'static str),
}

impl Inbound {
    /// Asks the applications of `relays`, then hands messages to `gateway`; `bare_line_ends` is
    /// the rule of its SMTP.
    pub fn new(
        gateway: Arc<Gateway>,
        relays: Relays,
        signers: SnsCertificates,
        rules: Arc<InboundRules>,
        bare_line_ends: BareLineEnds,
    ) -> Self {
        let tokens = Arc::new(Tokens::new(rules.proofs.tokens));
        let applications = Applications::new(relays.clone(), rules.application);
        let repeats = Repeats::default();
        Self { gateway, relays, applications, signers, tokens, rules, bare_line_ends, repeats }
    }

    pub fn max_request_bytes(&self) -> usize {
        let message = self.gateway.max_message_bytes();
        message.saturating_mul(self.rules.requests.message_times)
    }

    pub fn rules(&self) -> &InboundRules {
        &self.rules
    }

    /// Returns the account and verification of this inbound key; None if the key is unknown.
    pub async fn way(&self, kind: RelayType, key: &str) -> Result<Option<WayIn>, RelayError> {
        self.relays.way(kind, key).await
    }

    /// Takes in one request, which came from the address `from`.
    pub async fn take(
        &self,
        way: WayIn,
        from: IpAddr,
        request: Forwarded,
    ) -> Result<PostOutcome, InboundError> {
        let size = request.body.len();
        let mail = match self.read(&way.verification, &request).await {
            Ok(Read::Mail(mail)) => mail,
            Ok(Read::Noted(what)) => {
                let (account, provider) = (way.account.id, way.verification.kind().as_str());
                info!(account.id = %account, provider, what, "provider noted");
                return Ok(PostOutcome::Noted(what));
            }
            Err(refusal) => return self.refuse(&way, from, refusal, size).await,
        };
        if mail.token.is_some_and(|token| !self.tokens.admit(way.account.id, token)) {
            return self.refuse(&way, from, Forged::Token.into(), size).await;
        }
        self.deliver(&way, mail, from, &request).await
    }

    /// Checks that the account's own adapter signed this request, and returns its `webhook-id`. A
    /// request that it did not sign is recorded.
    pub async fn signed(
        &self,
        way: &WayIn,
        from: IpAddr,
        request: &Forwarded,
    ) -> Result<String, InboundError> {
        let Verification::Json { secret } = &way.verification else {
            return Err(Forged::Json.into());
        };
        let (ages, now) = (self.ages(), self.relays.mint.clock().now());
        let (secret, copy) = (secret.clone(), request.clone());
        let read = on_pool(request.body.len(), move || {
            json::read(&Post { headers: &copy.headers, body: &copy.body }, &secret, &ages, now)
        });
        match read.await {
            Ok(id) => Ok(id),
            Err(refusal) => {
                let refused = self.refuse(way, from, refusal, request.body.len()).await;
                refused.and(Err(Forged::Json.into()))
            }
        }
    }

    /// Records and answers a request that was not read; one that is [`Unavailable`] is not
    /// recorded.
    async fn refuse(
        &self,
        way: &WayIn,
        from: IpAddr,
        refusal: Refusal,
        size: usize,
    ) -> Result<PostOutcome, InboundError> {
        let kind = way.verification.kind();
        let error = match refusal {
            Refusal::Unavailable(error) => return Err(error.into()),
            Refusal::Mode(error) => {
                let words = error.to_string();
                let answer = self.record_refusal(way, from, unread(kind, &words, size)).await;
                return Ok(sum(&[answer]));
            }
            Refusal::Forged(error) => InboundError::from(error),
            Refusal::Broken(error) => error.into(),
        };
        self.record_refusal(way, from, unread(kind, &error.to_string(), size)).await;
        Err(error)
    }

    /// Logs for the operator, and records for the account, why a request was refused: the provider
    /// may drop the message without telling anybody.
    pub async fn record_refusal(
        &self,
        way: &WayIn,
        from: IpAddr,
        post: RefusedPost<'_>,
    ) -> IntakeReply {
        let RefusedPost { words, size, proof, source } = post;
        let (account, kind) = (&way.account, way.verification.kind());
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        if let Some(left_out) = self.repeats.due(LogCause::Provider) {
            const SAID: &str = "request of a provider refused";
            warn!(account.id = %account.id, provider = kind.as_str(), reason = words, left_out, "{SAID}");
        }
        let posted = posted(kind, proof);
        let envelope = envelope(client(None, None, from), String::new(), posted);
        let (reason, detail, head) = (Reason::Malformed, words, &[][..]);
        let refused = RefusedMessage { reason, detail, head, size, source };
        self.gateway.refused_within(account, &envelope, refused).await
    }

    async fn read(
        &self,
        verification: &Verification,
        request: &Forwarded,
    ) -> Result<Read, Refusal> {
        if let Verification::Ses { topic } = verification {
            return self.read_sns(topic.as_deref(), request).await;
        }
        let (ages, now) = (self.ages(), self.relays.mint.clock().now());
        let (verification, copy) = (verification.clone(), request.clone());
        let mail = on_pool(request.body.len(), move || {
            let post = Post { headers: &copy.headers, body: &copy.body };
            match &verification {
                Verification::Mailgun { signing_key } => {
                    mailgun::read(&post, signing_key, &ages, now)
                }
                Verification::Sendgrid { public_key } => {
                    let key = public_key.as_deref().map(sendgrid::PublicKey::parse);
                    // An unreadable key must not count as no key.
                    match key {
                        Some(None) => Err(Forged::SendgridKey.into()),
                        key => sendgrid::read(&post, key.flatten().as_ref(), &ages, now),
                    }
                }
                Verification::Postmark { basic } => {
                    let login = basic
                        .clone()
                        .map(|(username, password)| postmark::Login { username, password });
                    postmark::read(&post, login.as_ref())
                }
                // Read elsewhere: `read_sns`, `signed`.
                Verification::Ses { .. } | Verification::Json { .. } => Err(Broken::Sns.into()),
            }
        });
        mail.await.map(Read::Mail)
    }

    /// Reads a request of SNS. A subscription is confirmed before it is noted.
    async fn read_sns(&self, topic: Option<&str>, request: &Forwarded) -> Result<Read, Refusal> {
        let post = Post { headers: &request.headers, body: &request.body };
        let said = sns::SnsBody::read(&post, topic)?;
        let signer = self.signers.certificate(&said.certificate()?).await;
        let signer = signer.map_err(|error| match error {
            SnsCertificateError::Unreachable(error) => {
                Refusal::from(Unavailable::Certificate(error))
            }
            // A page from a middlebox, or a certificate cut short: the provider's retry may
            // succeed.
            SnsCertificateError::Certificate(error @ CertificateError::Unreadable) => {
                Unavailable::CertificateUnreadable(error).into()
            }
            SnsCertificateError::Certificate(error) => Forged::from(error).into(),
        })?;
        match said.believe(&signer, &self.ages(), self.relays.mint.clock().now())? {
            sns::SnsRequest::Message(message) => {
                ses::read(&message, topic.is_some()).map(Read::Mail)
            }
            sns::SnsRequest::Farewell => Ok(Read::Noted("the subscription has ended")),
            sns::SnsRequest::Confirmation(url) => {
                let asked = self.signers.confirm(&url).await;
                asked.map_err(Unavailable::Subscribe)?;
                Ok(Read::Noted("the subscription is confirmed"))
            }
        }
    }

    fn ages(&self) -> Ages {
        let proofs = &self.rules.proofs;
        let (covering, bare) = (proofs.covering(), proofs.bare());
        Ages { covering, bare, signed: proofs.signed(), ahead: proofs.ahead() }
    }

    async fn deliver(
        &self,
        way: &WayIn,
        mail: ProviderMail,
        from: IpAddr,
        request: &Forwarded,
    ) -> Result<PostOutcome, InboundError> {
        let (account, kind) = (&way.account, way.verification.kind());
        let (mail, content) = on_pool(mail.raw.len(), move || {
            let content = mail.content();
            (mail, content)
        })
        .await;
        let ProviderMail { raw, reverse_path, recipients, client: said, helo, proof, .. } = mail;
        let client = client(said, helo, from);
        let size = u64::try_from(raw.len()).unwrap_or(u64::MAX);
        // The provider's envelope is no cleaner than what SMTP gave the provider (RFC 5321 §4.1.2).
        let parsed = path::parse(reverse_path.as_bytes(), PathKind::Reverse, true);
        let reverse_path = parsed.unwrap_or_else(|_| path::shown(&reverse_path));
        let raw = self.as_mail(raw).await;
        let most = self.rules.requests.max_recipients;
        let all = most.saturating_mul(TRANSACTIONS);
        let words = match recipients.len() {
            0 => Some("the message has no recipient".to_owned()),
            more if more > all => Some(format!("more than {all} recipients")),
            _ => None,
        };
        if let Some(words) = words {
            let whole = envelope(client, reverse_path, posted(kind, proof));
            let reason = Reason::Malformed;
            let source = Source::Email;
            let refused = RefusedMessage { reason, detail: &words, head: &[], size, source };
            return Ok(sum(&[self.gateway.refused_within(account, &whole, refused).await]));
        }
        let (mut answers, mut groups) = (Vec::new(), Groups::default());
        for path in &recipients {
            let asked = self.gateway.recipient_within(account, &client, &reverse_path, path).await;
            match asked {
                Ok(recipient) => groups.add(recipient),
                Err(answer) => answers.push(answer),
            }
        }
        let mut posted = posted(kind, proof);
        let mut reason = None;
        if !groups.is_empty() {
            let asked = self.applications.ask(account, kind, content, request).await;
            match asked? {
                None => {}
                Some(Hop::Passed) => posted.relayed = true,
                Some(Hop::Refused) => {
                    reason =
                        Some((Reason::RelayRefused, "the application answered 406".to_owned()));
                }
                Some(Hop::Deferred(why)) => reason = Some((Reason::RelayUnavailable, why)),
            }
        }
        let reason = reason.or_else(|| self.unfit(&raw));
        let envelopes = groups.all(most).map(|recipients| {
            let whole = envelope(client.clone(), reverse_path.clone(), posted.clone());
            Envelope { recipients, ..whole }
        });
        let envelopes: Vec<_> = envelopes.collect();
        let Some((reason, words)) = reason else {
            answers.extend(self.gateway.messages(&envelopes, &raw).await);
            return Ok(sum(&answers));
        };
        for whole in envelopes {
            let refused = self.gateway.refused(whole, reason, words.clone(), raw.clone(), size);
            answers.push(refused.await);
        }
        Ok(sum(&answers))
    }

    /// Restores the line ends of mail, as an SMTP session would: forms and JSON may have changed
    /// them.
    async fn as_mail(&self, raw: Bytes) -> Bytes {
        let bare = self.bare_line_ends;
        on_pool(raw.len(), move || Bytes::from(as_received(raw.to_vec(), bare))).await
    }

    /// Returns why an SMTP session would have refused the message, if it would.
    fn unfit(&self, raw: &Bytes) -> Option<(Reason, String)> {
        let most = self.gateway.max_message_bytes();
        if raw.len() > most {
            return Some((Reason::TooLarge, format!("more than {most} bytes")));
        }
        refused_on_the_wire(raw).map(|words| (Reason::Malformed, words))
    }
}

#[derive(Default)]
struct Groups {
    /// By organization.
    sharing: BTreeMap<AccountId, Vec<Recipient>>,
    alone: Vec<Recipient>,
}

impl Groups {
    /// Adds a recipient unless the provider has named it before.
    fn add(&mut self, recipient: Recipient) {
        let group = match recipient.shares {
            Some(organization) => self.sharing.entry(organization).or_default(),
            None => &mut self.alone,
        };
        let same = |known: &Recipient| {
            known.agent == recipient.agent && known.address == recipient.address
        };
        if !group.iter().any(same) {
            group.push(recipient);
        }
    }

    fn is_empty(&self) -> bool {
        self.sharing.is_empty() && self.alone.is_empty()
    }

    /// Returns the transactions, each with at most `most` recipients.
    fn all(self, most: usize) -> impl Iterator<Item = Vec<Recipient>> {
        let parts = move |group: Vec<Recipient>| {
            group.chunks(most.max(1)).map(<[_]>::to_vec).collect::<Vec<_>>()
        };
        let alone = self.alone.into_iter().map(|one| vec![one]);
        self.sharing.into_values().flat_map(parts).chain(alone)
    }
}

fn client(said: Option<IpAddr>, helo: Option<String>, from: IpAddr) -> Client {
    let address = said.unwrap_or(from).to_canonical();
    Client { address, helo: helo.unwrap_or_default(), esmtp: true, tls: None }
}

/// A post of which nothing was proven. Records of adapters are never mail.
const fn unread(kind: RelayType, words: &str, size: usize) -> RefusedPost<'_> {
    let source = if matches!(kind, RelayType::Json) { Source::Chat } else { Source::Email };
    RefusedPost { words, size, proof: "nothing was examined", source }
}

/// The proof of a record that an account's own adapter posted.
pub const fn signed_by(kind: RelayType) -> Posted {
    posted(kind, json::PROOF)
}

const fn posted(kind: RelayType, proof: &'static str) -> Posted {
    Posted { provider: kind.as_str(), proof, relayed: false }
}

/// Assumes SMTPUTF8, because no provider says whether the sender asked for it.
const fn envelope(client: Client, reverse_path: String, posted: Posted) -> Envelope {
    let recipients = Vec::new();
    let (posted, open_for) = (Some(posted), Duration::ZERO);
    Envelope { client, reverse_path, recipients, smtputf8: true, posted, open_for }
}

/// Combines the answers for all recipients into one.
fn sum(answers: &[IntakeReply]) -> PostOutcome {
    let records = answers.iter().filter_map(|answer| answer.record).collect();
    let words = |answer: &IntakeReply| {
        let reason = answer.reason.map(Reason::explanation).unwrap_or_default();
        answer.detail.as_ref().map_or_else(|| reason.to_owned(), |why| format!("{reason} ({why})"))
    };
    let temporary = answers.iter().find(|answer| answer.reason.is_some_and(Reason::is_temporary));
    if let Some(answer) = temporary {
        return PostOutcome::Deferred { words: words(answer), records };
    }
    if answers.iter().any(|answer| answer.reason.is_none()) {
        return PostOutcome::Accepted(records);
    }
    let words = answers.first().map_or_else(|| "the message has no recipient".to_owned(), words);
    PostOutcome::Refused { words, records }
}

/// Runs work over so many bytes here if they are few, on the blocking pool if they are many.
async fn on_pool<T: Send + 'static>(octets: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
    if octets <= LARGE {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // The task cannot be cancelled, so it panicked: panic as if it had run here.
        Err(failed) => std::panic::resume_unwind(failed.into_panic()),
    }
}
