//! Authenticates the sender of a message; the only room that uses mail-auth.
//!
//! [`Authenticator::check`] takes a [`Question`] about one message and returns its
//! [`Authentication`]. `app::intake` and `gatepost check` call it, after the strict scan of the
//! header section. A message is authenticated by one DKIM signature that verifies, counts and is
//! aligned with From (contract §2), or by the ARC chain of a sealer that the operator trusts.
//! Nothing else authenticates it, and a missing reason to refuse never does. SPF, DMARC and ARC are
//! evaluated and recorded. Of DMARC only `adkim=s` matters, which makes alignment strict.
//!
//! This room never decides about a recipient, writes, alters a message, makes a DNS query without a
//! deadline, or uses a DNS answer for another purpose than the query's. Locks, of the caches and of
//! one message's answers, are held for a moment. A panic in the examination defers the message.

mod alignment;
mod answer;
mod arc;
mod bounds;
mod cache;
mod canonical;
mod conclusion;
mod dkim;
mod dmarc;
mod evidence;
mod examine;
mod iprev;
mod key;
mod keys;
mod lookups;
mod resolver;
mod results;
mod servers;
mod spf;
mod tags;
#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::Semaphore;

pub use self::alignment::is_public_suffix;
use self::conclusion::{Findings, Verified};
use self::dkim::Claim;
pub use self::dkim::{is_of_another, spelling};
use self::evidence::micros;
use self::examine::{Examination, ExaminationInput, OtherSender};
pub use self::iprev::Reverse;
use self::keys::Keys;
use self::resolver::Resolver;
pub use self::resolver::Servers;
pub use self::servers::{LargeAnswers, ServerReport, ask_each};
use crate::domain::clock::Timestamp;
use crate::domain::evidence::Step;
use crate::domain::evidence::results::Results;
use crate::domain::policy::Proof;
use crate::domain::ports::Client;
use crate::mail::fields::KnownField;
use crate::mail::scan::Headers;
use crate::metrics::Metrics;
use crate::rules::IntakeRules;

/// Why an [`Authenticator`] cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error("cannot read the DNS servers of the system: {0}")]
    SystemServers(String),
    #[error("no DNS server is configured")]
    NoServers,
    #[error(
        "cannot create the DNS resolver: {0} (it needs the CA certificates of the system: install \
         ca-certificates)"
    )]
    Resolver(String),
}

/// Why a DNS query has no answer for now; for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unanswered(String);

/// A message and how it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Question<'q> {
    /// The message as received, with dots unstuffed and nothing else changed.
    pub raw: &'q Bytes,
    /// The header section from our own scanner, with the one mailbox of From.
    pub headers: &'q Headers<'q>,
    pub client: &'q Client,
    /// As sent, without angle brackets; empty for `<>`.
    pub reverse_path: &'q str,
    /// The message reports on TLS: keys for such mail alone count as well (RFC 8460 §3).
    pub is_tls_report: bool,
    pub now: Timestamp,
}

/// The result for one message.
#[derive(Clone, Debug, PartialEq)]
pub struct Authentication {
    pub proof: Proof,
    /// `b=` of the aligned signatures that count and identify this one message: base64 without
    /// white space. Another arrival with one of these may be the same message (contract §2,
    /// Repeats).
    pub signatures: Vec<String>,
    /// One line of ASCII for the SMTP reply, at most 200 bytes.
    pub detail: String,
    /// Meaningful fields that the proof does not cover. The proof is the aligned signature, or the
    /// newest signature of the ARC chain that replaces it. Empty without a proof.
    pub unsigned: Vec<KnownField>,
    /// The causes that prevented authentication, in plain words with domain and selector; empty if
    /// there are none. The step `alignment` stores it as `causes`, `signer` and `selector`.
    pub explanation: String,
    /// `dkim`, `alignment`, `spf`, `arc`, `dmarc`, `iprev`.
    pub steps: [Step; 6],
    pub results: Results,
}

/// Authenticates messages; cheap to clone, shared by all sessions.
#[derive(Clone)]
pub struct Authenticator {
    resolver: Resolver,
    rules: Arc<IntakeRules>,
    hostname: Arc<str>,
    places: Arc<Semaphore>,
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticator").field("hostname", &self.hostname).finish_non_exhaustive()
    }
}

/// Why a message could not be examined.
enum Unexamined {
    /// mail-auth reads another From than our scanner.
    OtherSender,
    /// No thread became free in time, or the examination panicked.
    Busy,
}

impl Authenticator {
    /// `hostname` is the name of this server: the authserv-id, and the receiver in SPF macros. Must
    /// be called inside the runtime that will run the checks.
    pub fn new(servers: Servers, rules: &IntakeRules, hostname: &str) -> Result<Self, VerifyError> {
        Ok(Self {
            resolver: Resolver::new(servers, rules)?,
            rules: Arc::new(rules.clone()),
            hostname: hostname.into(),
            places: Arc::new(Semaphore::new(rules.authentication.max_offloaded)),
        })
    }

    /// Measures the queries of the DNS.
    #[must_use]
    pub fn measured_by(self, metrics: Metrics) -> Self {
        Self { resolver: self.resolver.measured_by(metrics), ..self }
    }

    pub fn hostname(&self) -> &str {
        &self.hostname
    }

    /// Authenticates one message. Its queries end within `dns.message_budget_seconds`. Never fails:
    /// if the result cannot be decided for now, the proof says so.
    pub async fn check(&self, question: Question<'_>) -> Authentication {
        let now = tokio::time::Instant::now();
        let dns = &self.rules.dns;
        let deadline = now + dns.message_budget();
        let sender = &question.headers.from.address;
        // SPF and iprev are only recorded. They run beside DKIM, each at most for its own budget.
        let (mut verified, spf, iprev) = tokio::join!(
            self.verify(&question, deadline),
            spf::check(
                self.spf_input(deadline.min(now + dns.spf_budget())),
                question.client,
                question.reverse_path,
            ),
            iprev::check(
                &self.resolver,
                question.client.address,
                deadline.min(now + dns.iprev_budget()),
            ),
        );
        let signers: Vec<_> = verified
            .signatures
            .iter()
            .filter(|signature| signature.counts())
            .filter_map(|signature| signature.claim.domain.as_ref())
            .collect();
        let input = dmarc::DmarcInput {
            resolver: &self.resolver,
            sender,
            signers: &signers,
            spf: &spf,
            alignment: self.rules.authentication.alignment,
            deadline: deadline.min(tokio::time::Instant::now() + dns.dmarc_budget()),
        };
        let dmarc = dmarc::check(input).await;
        verified.apply_adkim(&dmarc.adkim);
        let headers = question.headers;
        Findings { headers, rules: &self.rules, verified, spf, dmarc, iprev }.conclude()
    }

    /// Looks up the keys, then verifies the signatures and the chain.
    async fn verify(&self, question: &Question<'_>, deadline: tokio::time::Instant) -> Verified {
        let start = Instant::now();
        let headers = question.headers;
        let claims = self.claims(question);
        let chain = arc::UnreadChain::read(headers, &self.rules);
        let chain_names = chain.key_names.clone();
        // Ask for the keys of aligned signatures first, so that added signatures and seals cannot
        // crowd them out.
        let (aligned, others): (Vec<_>, Vec<_>) =
            claims.iter().partition(|claim| claim.relation.is_aligned());
        let names = aligned.into_iter().chain(others).filter_map(|claim| claim.key_name.clone());
        let names = names.chain(chain_names.iter().cloned());
        let keys = Arc::new(Keys::fetch(&self.resolver, names, deadline).await);
        let hashes = self.rules.authentication.max_body_hashes;
        let affordable = bounds::affordable(&claims, hashes);
        let input = ExaminationInput {
            raw: question.raw.clone(),
            bounded: bounds::bounded(headers, &affordable, chain.refusal.is_none()),
            affordable,
            body_at: headers.body_at,
            sender: headers.from.address.clone(),
            claims,
            chain,
            keys: Arc::clone(&keys),
            rules: Arc::clone(&self.rules),
            is_tls_report: question.is_tls_report,
            now: question.now,
            verifier: self.resolver.mail_auth().clone(),
        };
        let (signatures, chain, chain_micros, failure) = match self.examine(input, deadline).await {
            Ok(done) => (done.signatures, Some(done.chain), done.chain_micros, None),
            Err(failure) => (Vec::new(), None, 0, Some(failure)),
        };
        // Without the time of the chain.
        let dkim_micros = micros(start).saturating_sub(chain_micros);
        Verified { keys, chain_names, signatures, chain, failure, dkim_micros, chain_micros }
    }

    fn spf_input(&self, deadline: tokio::time::Instant) -> spf::SpfInput<'_> {
        spf::SpfInput {
            resolver: &self.resolver,
            hostname: &self.hostname,
            max_voids: self.rules.dns.max_void_lookups,
            deadline,
        }
    }

    /// Reads the first `max_signatures` signature fields, readable or not: each costs a look-up.
    fn claims(&self, question: &Question<'_>) -> Vec<Claim> {
        let headers = question.headers;
        let from = headers.from.address.domain();
        headers
            .all(KnownField::DkimSignature)
            .take(self.rules.authentication.max_signatures)
            .map(Bytes::copy_from_slice)
            .map(|value| Claim::read(value, from, &self.rules, question.now))
            .collect()
    }

    /// Runs the costly part: small messages on this thread, large ones on a blocking thread, for
    /// which they wait until `deadline` or as long as one query. `places` limits these threads; a
    /// thread keeps its place to the end, even if this future is dropped.
    async fn examine(
        &self,
        input: ExaminationInput,
        deadline: tokio::time::Instant,
    ) -> Result<Examination, Unexamined> {
        let outcome = if input.raw.len() <= self.rules.authentication.offload_above_bytes {
            catch_unwind(AssertUnwindSafe(|| input.run())).map_err(|_| Unexamined::Busy)?
        } else {
            // Slow key look-ups may have used up the time; that alone must not defer the message.
            let least = tokio::time::Instant::now() + self.rules.dns.query_timeout();
            let deadline = deadline.max(least);
            let place = Arc::clone(&self.places).acquire_owned();
            let place = match tokio::time::timeout_at(deadline, place).await {
                Ok(Ok(place)) => place,
                _ => return Err(Unexamined::Busy),
            };
            tokio::task::spawn_blocking(move || {
                let outcome = input.run();
                drop(place);
                outcome
            })
            .await
            .map_err(|_| Unexamined::Busy)?
        };
        outcome.map_err(|OtherSender| Unexamined::OtherSender)
    }
}
