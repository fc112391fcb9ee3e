//! The store of a simulation, and its ledger: what clients sent and were told, beside what was
//! stored.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};

use crate::domain::address::Address;
use crate::domain::id::{AccountId, IntakeId};
use crate::domain::ports::{Client, Envelope, Intake, IntakeReply, Recipient};
use crate::domain::reason::Reason;
use crate::smtp::fake::RECORD;
use crate::testkit::dice::Dice;
use crate::testkit::seeds::Broken;

/// One fault that a simulation must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// Some messages are acknowledged, and not stored.
    Forgets,
    /// Some messages are stored twice.
    Doubles,
    /// Some messages lose their end.
    Shortens,
    /// Some messages lose a recipient.
    Misdirects,
    /// Some messages that are refused are stored.
    Denies,
}

/// The answer that a client got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Verdict {
    Accepted,
    /// By 4yz.
    Deferred,
    /// By 5yz.
    Refused,
    /// The connection ended before.
    None,
}

/// A message as its client knows it.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) raw: Vec<u8>,
    pub(super) recipients: Vec<String>,
    /// The client has sent its end, too.
    pub(super) is_whole: bool,
    pub(super) verdict: Verdict,
}

struct Stored {
    raw: Bytes,
    recipients: Vec<String>,
}

struct Ledger {
    dice: Dice,
    /// By the name that stands in its first line.
    sent: BTreeMap<String, Sent>,
    stored: BTreeMap<String, Vec<Stored>>,
    broken: Vec<String>,
    /// The server ends its sessions.
    is_over: bool,
    trace: DefaultHasher,
}

pub(super) struct Desk {
    flaw: Option<Flaw>,
    start: Instant,
    ledger: Mutex<Ledger>,
}

/// The fate of a message at the store.
enum Fate {
    Accepted,
    /// Stored, but the store does not know, or says so too late.
    Unknown,
    Refused,
    Unavailable,
}

impl Desk {
    pub(super) fn new(seed: u64, flaw: Option<Flaw>) -> Self {
        let ledger = Ledger {
            dice: Dice(seed),
            sent: BTreeMap::new(),
            stored: BTreeMap::new(),
            broken: Vec::new(),
            is_over: false,
            trace: DefaultHasher::new(),
        };
        Self { flaw, start: Instant::now(), ledger: Mutex::new(ledger) }
    }

    pub(super) fn breaks(&self, what: &str) {
        self.ledger.lock().unwrap().broken.push(what.to_owned());
    }

    /// From now on the server may close connections without a word.
    pub(super) fn stops(&self) {
        self.ledger.lock().unwrap().is_over = true;
    }

    /// A connection was closed while its client waited for a reply.
    pub(super) fn closes(&self) {
        if !self.ledger.lock().unwrap().is_over {
            self.breaks("a connection is closed without the reply to a command");
        }
    }

    pub(super) fn trace(&self, what: impl Hash) {
        let at = self.start.elapsed();
        (at, what).hash(&mut self.ledger.lock().unwrap().trace);
    }

    /// A client sends a message of this name, or knows more of it.
    pub(super) fn notes(&self, name: &str, sent: Sent) {
        self.trace((name, sent.is_whole, sent.verdict));
        self.ledger.lock().unwrap().sent.insert(name.to_owned(), sent);
    }

    /// Mostly at once, at times longer than a session waits.
    async fn takes(&self) {
        let takes = {
            let dice = &mut self.ledger.lock().unwrap().dice;
            let most = match dice.below(50) {
                0 => Duration::from_secs(120),
                1..5 => Duration::from_secs(5),
                _ => Duration::from_millis(20),
            };
            dice.within(most)
        };
        sleep(takes).await;
    }

    fn store(&self, envelope: &Envelope, raw: &Bytes) {
        let mut ledger = self.ledger.lock().unwrap();
        let name = raw.split(|octet| *octet == b'\r').next().unwrap();
        let name = String::from_utf8_lossy(name).into_owned();
        let mut recipients: Vec<_> =
            envelope.recipients.iter().map(|one| one.as_sent.clone()).collect();
        if self.flaw == Some(Flaw::Misdirects) && ledger.dice.once_in(4) {
            recipients.pop();
        }
        let times = match self.flaw {
            Some(Flaw::Forgets) if ledger.dice.once_in(4) => 0,
            Some(Flaw::Doubles) if ledger.dice.once_in(4) => 2,
            _ => 1,
        };
        let end = match self.flaw {
            Some(Flaw::Shortens) if ledger.dice.once_in(4) => raw.len() - 1,
            _ => raw.len(),
        };
        for _ in 0..times {
            let stored = Stored { raw: raw.slice(..end), recipients: recipients.clone() };
            ledger.stored.entry(name.clone()).or_default().push(stored);
        }
    }

    /// Compares both sides. Returns a digest of all that happened, or what was broken.
    pub(super) fn judged(&self) -> Result<u64, Broken> {
        let mut ledger = self.ledger.lock().unwrap();
        let Ledger { sent, stored, broken, trace, .. } = &mut *ledger;
        for (name, all) in &*stored {
            let Some(sent) = sent.get(name) else {
                broken.push(format!("{name:?} is there, and nobody sent it"));
                continue;
            };
            if all.len() > 1 {
                broken.push(format!("{name} is there twice"));
            }
            for one in all {
                if !sent.is_whole {
                    broken.push(format!("{name} is there without its end"));
                } else if one.raw != sent.raw {
                    broken.push(format!("{name} is not what was sent"));
                }
                if one.recipients != sent.recipients {
                    broken.push(format!("{name} has other recipients than were accepted"));
                }
            }
        }
        for (name, sent) in &*sent {
            match (sent.verdict, stored.contains_key(name)) {
                (Verdict::Accepted, false) => {
                    broken.push(format!("{name} was acknowledged and is not there"));
                }
                (Verdict::Refused, true) => {
                    broken.push(format!("{name} was refused for good and is there"));
                }
                _ => {}
            }
        }
        if broken.is_empty() { Ok(trace.finish()) } else { Err(Broken(broken.join("\n"))) }
    }
}

fn reply(reason: Option<Reason>, has_record: bool) -> IntakeReply {
    let record = has_record.then(|| IntakeId(RECORD.parse().unwrap()));
    IntakeReply { reason, detail: None, record, again: false }
}

impl Intake for Desk {
    fn turned_down(&self, _: &'static str) {}

    async fn free_space(&self) -> Result<Option<u64>, IntakeReply> {
        Ok(None)
    }

    async fn over_rate(&self, _: &Client, _: &str, _: &str) -> IntakeReply {
        reply(Some(Reason::RateLimited), true)
    }

    async fn recipient(&self, _: &Client, _: &str, path: &str) -> Result<Recipient, IntakeReply> {
        self.takes().await;
        let fate = self.ledger.lock().unwrap().dice.below(8);
        match fate {
            0 => return Err(reply(Some(Reason::UnknownRecipient), true)),
            1 => return Err(reply(Some(Reason::StoreUnavailable), false)),
            _ => {}
        }
        // Each is an Agent of its own.
        let number = path.bytes().filter(u8::is_ascii_digit).map(|digit| i64::from(digit - b'0'));
        Ok(Recipient {
            agent: AccountId::new(1 + number.sum::<i64>()),
            address: Address::parse(path).unwrap(),
            tag: None,
            as_sent: path.into(),
            shares: AccountId::new(1),
        })
    }

    async fn message(&self, envelope: Envelope, raw: Bytes) -> IntakeReply {
        self.trace(("decided", raw.len()));
        let fate = match self.ledger.lock().unwrap().dice.below(10) {
            0 => Fate::Refused,
            1 => Fate::Unavailable,
            2 => Fate::Unknown,
            _ => Fate::Accepted,
        };
        self.takes().await;
        let denies = self.flaw == Some(Flaw::Denies) && matches!(fate, Fate::Refused);
        if denies || matches!(fate, Fate::Accepted | Fate::Unknown) {
            self.store(&envelope, &raw);
        }
        self.takes().await;
        match fate {
            Fate::Accepted => reply(None, true),
            Fate::Refused => reply(Some(Reason::SenderNotAllowed), true),
            Fate::Unknown | Fate::Unavailable => reply(Some(Reason::StoreUnavailable), false),
        }
    }

    async fn refused(
        &self,
        _: Envelope,
        reason: Reason,
        _: String,
        _: Bytes,
        _: u64,
    ) -> IntakeReply {
        self.takes().await;
        reply(Some(reason), true)
    }
}
