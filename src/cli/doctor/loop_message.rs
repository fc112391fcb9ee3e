//! `--send-test`: a real message through the running server, from a sender of the Agent's own domain,
//! signed by a key whose record the operator publishes once; then the way of the message through the
//! store to its first delivery. Until the record is published, an unsigned message, which the server
//! must refuse.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::{WITHIN, ports};
use crate::app::access::Access;
use crate::app::doctor::{Check, CheckSubject, CheckTopic};
use crate::cli::dev::letter::Letter;
use crate::cli::local::{one_line, record_of};
use crate::cli::send::{key_file, read_key};
use crate::cli::{Failure, reading};
use crate::disk;
use crate::domain::address::Address;
use crate::domain::causes::with_causes;
use crate::domain::delivery::State;
use crate::domain::id::{IntakeId, MessageId, Mint};
use crate::domain::intake_record::IntakeRecord;
use crate::domain::reason::Reason;
use crate::domain::verdict::Verdict;
use crate::run::{self, Settings};
use crate::store::{DeliveryRecord, Location, Store, StoreError, StorePlace};
use crate::testkit::presented::reachable;
use crate::testkit::signer::{Key, Signer};
use crate::testkit::smtp_client::{Replies, Transaction, deliver};

/// The selector of the test's key, and its sender.
const NAME: &str = "gatepost-doctor";
/// The folder of the key in that of the embedded store.
const FOLDER: &str = "doctor";
/// Longest wait for the replies: verification has its own, shorter limit.
const REPLIES: Duration = Duration::from_secs(45);
/// Longest wait for the record, which may be written behind the reply.
const RECORD: Duration = Duration::from_secs(8);
/// Longest wait for the first attempt of each webhook.
const DELIVERY: Duration = Duration::from_secs(20);
/// Pause between two looks at the deliveries.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct TestMessage {
    to: Address,
    /// The file of the key; None if no message is signed.
    key: Option<PathBuf>,
}

impl TestMessage {
    /// Reads the arguments; None if no message is wanted.
    pub(super) fn read(
        to: Option<&str>,
        key: Option<PathBuf>,
        place: &StorePlace,
    ) -> Result<Option<Self>, Failure> {
        let Some(to) = to else { return Ok(None) };
        let to = Address::parse(to).map_err(|error| format!("--send-test: {to:?}: {error}"))?;
        let own = || match &place.database {
            Location::Folder(folder) => {
                Some(folder.join(FOLDER).join(key_file(NAME, to.domain().as_str())))
            }
            Location::Postgres(_) => None,
        };
        let key = key.or_else(own);
        Ok(Some(Self { to, key }))
    }

    /// Sends the message, and follows it.
    pub(super) async fn send(&self, settings: &Settings, store: &Store, mint: &Mint) -> Vec<Check> {
        let topic = || Check::of(CheckSubject::Message, self.to.to_string());
        if settings.smtp.port() == 0 || ports::wants_proxy_header(settings, settings.smtp) {
            let detail = "the address of --smtp takes no message from this machine";
            let advice = "name the address of the running server (--smtp HOST:PORT)";
            return vec![topic().failure(detail, advice)];
        }
        let prepared = self.signer().and_then(|signer| Ok((signer, self.letter(mint)?)));
        let (signer, raw) = match prepared {
            Ok(prepared) => prepared,
            Err(failure) => {
                let advice = "correct the key, or remove the file: a new key is made";
                return vec![topic().failure(failure.to_string(), advice)];
            }
        };
        let published = match &signer {
            Some(signer) => is_published(signer, settings).await,
            None => false,
        };
        match &signer {
            Some(signer) if published => {
                vec![self.send_signed(signer, &raw, settings, store).await]
            }
            _ => {
                let unsigned = self.send_unsigned(&raw, settings, store).await;
                vec![unsigned, Self::unpublished(topic(), signer.as_ref())]
            }
        }
    }

    /// Reads the key, or makes it the first time.
    fn signer(&self) -> Result<Option<Signer>, Failure> {
        let Some(path) = &self.key else { return Ok(None) };
        if !path.exists() {
            disk::make_folder(path.parent().unwrap_or(Path::new(".")))?;
            disk::write_new(path, Key::generate_ed25519()?.to_pem().as_bytes())?;
        }
        Ok(Some(Signer::new(read_key(path)?, self.to.domain().as_str(), NAME)))
    }

    fn unpublished(topic: CheckTopic, signer: Option<&Signer>) -> Check {
        let record = signer.and_then(|signer| Some((signer, signer.key().txt_record().ok()?)));
        match record {
            None => topic.skipped(
                "no signed message was sent: on PostgreSQL, name a file for its key (--test-key)",
            ),
            Some((signer, record)) => topic
                .skipped("no signed message was sent: publish this record, then run this again")
                .paste(format!("{}. TXT \"{record}\"", signer.key_name())),
        }
    }

    async fn send_unsigned(&self, raw: &[u8], settings: &Settings, store: &Store) -> Check {
        let topic = Check::of(CheckSubject::Message, self.to.to_string());
        let record = match self.deliver(raw, settings, store).await {
            Ok(record) => record,
            Err(why) => return why.told(topic),
        };
        let id = record.id;
        match record.verdict {
            Verdict::Refused(Reason::DkimMissing) => topic.ok(format!(
                "an unsigned message was refused as it must be (record {id}): the server takes mail \
                 in, verifies it and writes records"
            )),
            Verdict::Accepted => topic.failure(
                format!("an unsigned message was accepted (record {id})"),
                format!("see why: gatepost intake show {id}"),
            ),
            Verdict::Refused(reason) | Verdict::Deferred(reason) => other_end(topic, &record, reason),
        }
    }

    async fn send_signed(
        &self,
        signer: &Signer,
        raw: &[u8],
        settings: &Settings,
        store: &Store,
    ) -> Check {
        let topic = Check::of(CheckSubject::Message, self.to.to_string());
        let raw = match signer.sign(raw) {
            Ok(raw) => raw,
            Err(error) => return topic.failure(error.to_string(), "make a new key"),
        };
        let record = match self.deliver(&raw, settings, store).await {
            Ok(record) => record,
            Err(why) => return why.told(topic),
        };
        match (record.verdict, record.message) {
            (Verdict::Accepted, Some(message)) => follow(topic, message, store).await,
            (Verdict::Accepted, None) => topic
                .failure("it was accepted, and no message is stored", "see the log of the server"),
            (Verdict::Refused(Reason::SenderNotAllowed), _) => topic.warning(
                format!(
                    "the signature was verified (record {}), and the policy does not list the \
                     sender",
                    record.id
                ),
                format!(
                    "right for a test of verification; to see a delivery: gatepost policy allow {} \
                     {}",
                    self.to,
                    self.sender()
                ),
            ),
            (Verdict::Refused(reason) | Verdict::Deferred(reason), _) => {
                other_end(topic, &record, reason)
            }
        }
    }

    fn sender(&self) -> String {
        format!("{NAME}@{}", self.to.domain())
    }

    fn letter(&self, mint: &Mint) -> Result<Vec<u8>, Failure> {
        let letter = Letter {
            name: "Gatepost doctor",
            from: &self.sender(),
            subject: "Test message of gatepost doctor".to_owned(),
            form: "plain",
            text: "An operator sent this message by `gatepost doctor --send-test`.".to_owned(),
        };
        letter.raw(&self.to.to_string(), mint)
    }

    /// Delivers a message to the running server, and reads its record.
    async fn deliver(
        &self,
        raw: &[u8],
        settings: &Settings,
        store: &Store,
    ) -> Result<IntakeRecord, Untold> {
        let server = reachable(settings.smtp);
        let (from, to) = (self.sender(), [self.to.to_string()]);
        let transaction = Transaction { helo: "localhost", from: &from, to: &to, raw };
        let replies: Replies = match timeout(REPLIES, deliver(server, &transaction)).await {
            Ok(Ok(replies)) => replies,
            Ok(Err(error)) => return Err(Untold::Unsent(format!("{server}: {error}"))),
            Err(_) => return Err(Untold::Unsent(format!("{server}: no reply in time"))),
        };
        let reply = one_line(replies.settling());
        let id = record_of(&reply).and_then(|id| id.parse::<IntakeId>().ok());
        let Some(id) = id else { return Err(Untold::WithoutRecord(reply)) };
        let partner = reading::partner(store).await?;
        let Some(partner) = partner else { return Err(Untold::Elsewhere(reply)) };
        let scope = Access::of_operator(&partner);
        let until = Instant::now() + RECORD;
        loop {
            match store.intake_record(&scope, id).await? {
                Some(record) => return Ok(record),
                None if Instant::now() >= until => return Err(Untold::Elsewhere(reply)),
                // The server writes records of refusals behind its reply.
                None => sleep(PAUSE).await,
            }
        }
    }
}

/// Why there is no record of a message.
#[derive(Debug, thiserror::Error)]
enum Untold {
    #[error("no message could be sent to {0}")]
    Unsent(String),
    #[error("the server answered without a record: {0}")]
    WithoutRecord(String),
    #[error("the store has no record of the message that the server answered: {0}")]
    Elsewhere(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Untold {
    fn told(&self, topic: CheckTopic) -> Check {
        let advice = match self {
            Self::Unsent(_) => "start the server, or name its address (--smtp HOST:PORT)",
            Self::WithoutRecord(_) => "follow the reply, then run this again",
            Self::Elsewhere(_) => {
                "name the store of the server that listens there (--data or --database-url)"
            }
            Self::Store(_) => "see that the database runs",
        };
        topic.failure(with_causes(self), advice)
    }
}

/// Whether the DNS has the record of the key now.
async fn is_published(signer: &Signer, settings: &Settings) -> bool {
    let (dns, rules) = (settings.dns.as_deref(), &settings.rules.intake);
    let Ok(record) = signer.key().txt_record() else { return false };
    let Ok(dns) = run::authenticator(dns, rules, &settings.hostname) else { return false };
    let found = dns.texts(signer.key_name(), Instant::now() + WITHIN).await.unwrap_or_default();
    let plain = |text: &str| text.split_whitespace().collect::<String>();
    let texts = found.iter().map(|text| plain(&String::from_utf8_lossy(text)));
    texts.collect::<Vec<_>>().contains(&plain(&record))
}

/// The check of a message that ended otherwise than expected.
fn other_end(topic: CheckTopic, record: &IntakeRecord, reason: Reason) -> Check {
    let (verdict, id) = (record.verdict, record.id);
    let detail = format!("it was {verdict} ({reason}, record {id}): {}", record.explanation);
    topic.failure(detail, reason.advice())
}

/// Waits for the first attempt of each delivery of a stored message.
async fn follow(topic: CheckTopic, message: MessageId, store: &Store) -> Check {
    let until = Instant::now() + DELIVERY;
    let stored = format!("it was verified, accepted and stored (message {})", message.0);
    loop {
        let deliveries = match store.deliveries_of(message, 1).await {
            Ok(deliveries) => deliveries,
            Err(error) => return topic.failure(with_causes(&error), "see that the database runs"),
        };
        if deliveries.is_empty() {
            return topic
                .ok(format!("{stored}; no webhook hears of it, and readers of the events do"));
        }
        let waiting = deliveries.iter().filter(|one| one.attempts.is_empty()).count();
        if waiting == 0 {
            return attempted(topic, &stored, &deliveries);
        }
        if Instant::now() >= until {
            return topic.failure(
                format!("{stored}; {waiting} deliveries have no attempt yet"),
                "see whether the webhook rests or is disabled: gatepost webhook list",
            );
        }
        sleep(PAUSE).await;
    }
}

fn attempted(topic: CheckTopic, stored: &str, deliveries: &[DeliveryRecord]) -> Check {
    let is_delivered = |one: &DeliveryRecord| {
        // The state is read before the attempts.
        let status = one.attempts.last().and_then(|attempt| attempt.status);
        one.state == State::Delivered || status.is_some_and(|status| (200..300).contains(&status))
    };
    let failed = deliveries.iter().find(|one| !is_delivered(one));
    let Some(failed) = failed else {
        return topic.ok(format!("{stored}, and {} webhooks answered 2xx", deliveries.len()));
    };
    let attempt = failed.attempts.last();
    let why = attempt.map_or_else(String::new, |attempt| match (attempt.status, &attempt.error) {
        (Some(status), _) => format!("answered {status}"),
        (None, Some(error)) => error.clone(),
        (None, None) => "gave no answer".to_owned(),
    });
    topic.warning(
        format!("{stored}, and the webhook {} {why}", failed.destination.0),
        "mend the receiver: it is tried again (gatepost webhook list)",
    )
}
