//! How much of one sender's mail is taken in a minute: of each sender, and of each sender to one
//! Agent (a room). What is more is deferred, so that a loop which nothing else ends goes no faster,
//! and an Agent is not buried by what it admits (contract §2, Replies: `rate_limited`).
//!
//! Asked for mail that is authenticated and admitted, and counted when it is committed: a forger
//! uses up nobody's rate. Counted in memory, by each gateway for itself.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tracing::info;

use super::Gateway;
use super::step::step;
use crate::domain::address::Address;
use crate::domain::clock::Timestamp;
use crate::domain::id::{AccountId, MessageId};
use crate::domain::ports::Answer;
use crate::domain::rate::{Rate, Tallies};
use crate::domain::reason::Reason;
use crate::domain::verdict::Verdict;
use crate::rules::IntakeRates;
use crate::store::{Commit, Intake, StoreError};

/// The clock was set back if it shows this much less than before.
const SET_BACK: Duration = Duration::from_secs(60);

/// The counts of one gateway.
#[derive(Debug)]
pub(super) struct Flood {
    rules: IntakeRates,
    counted: Mutex<Counted>,
}

#[derive(Debug)]
struct Counted {
    senders: Tallies<Address>,
    rooms: Tallies<(Address, AccountId)>,
    last: Timestamp,
}

/// What is over its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Sender,
    Room,
}

/// A message that has been counted. Unless it is settled it does not count after all: its commit
/// failed, or it is decided anew.
#[derive(Debug)]
pub(super) struct Taken<'f> {
    flood: &'f Flood,
    sender: Address,
    sender_is_free: bool,
    /// Of these the room is, each once.
    agents: BTreeSet<AccountId>,
}

impl Flood {
    pub(super) fn new(rules: IntakeRates) -> Self {
        let counted = Counted {
            senders: Tallies::new(rules.max_tracked),
            rooms: Tallies::new(rules.max_tracked),
            last: Timestamp::from_millis(0),
        };
        Self { rules, counted: Mutex::new(counted) }
    }

    /// Counts one message of `sender` to these Agents, if it is within all rates.
    pub(super) fn take(
        &self,
        sender: &Address,
        agents: BTreeSet<AccountId>,
        now: Timestamp,
    ) -> Result<Taken<'_>, Over> {
        let mut counted = self.counted();
        let at = counted.moment(now);
        let rooms: Vec<_> = agents.iter().map(|agent| (sender.clone(), *agent)).collect();
        if self.sender_rate().is_some_and(|rate| !counted.senders.may(sender, rate, at)) {
            return Err(Over::Sender);
        }
        if let Some(rate) = self.room_rate() {
            if !rooms.iter().all(|room| counted.rooms.may(room, rate, at)) {
                return Err(Over::Room);
            }
            rooms.iter().for_each(|room| counted.rooms.add(room, rate, at));
        }
        if let Some(rate) = self.sender_rate() {
            counted.senders.add(sender, rate, at);
        }
        drop(counted);
        Ok(Taken { flood: self, sender: sender.clone(), sender_is_free: true, agents })
    }

    fn sender_rate(&self) -> Option<Rate> {
        Rate::per_minute(self.rules.sender_messages_per_minute)
    }

    fn room_rate(&self) -> Option<Rate> {
        Rate::per_minute(self.rules.room_messages_per_minute)
    }

    /// In words fit for the reply.
    fn words(&self, over: Over) -> String {
        let IntakeRates { sender_messages_per_minute, room_messages_per_minute, .. } = self.rules;
        match over {
            Over::Sender => format!("over {sender_messages_per_minute} a minute from this sender"),
            Over::Room => {
                format!("over {room_messages_per_minute} a minute from this sender to one Agent")
            }
        }
    }

    /// Nothing panics while it holds the lock; if something did, the counts would be whole.
    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counted {
    /// Since the epoch. Whoever was ahead would stay so until a clock that was set back is there
    /// again: so everybody begins anew.
    fn moment(&mut self, now: Timestamp) -> Duration {
        if now < self.last.minus(SET_BACK) {
            self.senders.clear();
            self.rooms.clear();
        }
        self.last = now;
        Duration::from_millis(u64::try_from(now.millis()).unwrap_or(0))
    }
}

impl Taken<'_> {
    /// The commit is done: for each recipient, in their order, the earlier message that this one is
    /// the same as. What is stored counts, and what was there before does not.
    pub(super) fn settle(mut self, intakes: &[Intake], earlier: &[Option<MessageId>]) {
        let stored = intakes.iter().zip(earlier).filter(|(_, earlier)| earlier.is_none());
        for accepted in stored.filter_map(|(intake, _)| intake.accepted.as_ref()) {
            self.agents.remove(&accepted.message.agent);
            self.sender_is_free = false;
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut counted = self.flood.counted();
        if let Some(rate) = self.flood.room_rate() {
            for agent in &self.agents {
                counted.rooms.give_back(&(self.sender.clone(), *agent), rate);
            }
        }
        if let Some(rate) = self.flood.sender_rate().filter(|_| self.sender_is_free) {
            counted.senders.give_back(&self.sender, rate);
        }
    }
}

impl Gateway {
    /// Counts an accepted message, if it is within its rates; `None` for what is not accepted.
    pub(super) fn within_rates(&self, commit: &Commit) -> Result<Option<Taken<'_>>, Over> {
        let accepted = || commit.intakes.iter().filter_map(|intake| intake.accepted.as_ref());
        let Some(first) = accepted().next() else { return Ok(None) };
        let agents = accepted().map(|one| one.message.agent).collect();
        self.flood.take(&first.message.mail.from.address, agents, commit.now).map(Some)
    }

    /// Defers what was to be accepted. All that is deferred in one room and minute leaves one
    /// record, and one line in the log.
    pub(super) async fn put_off(&self, commit: Commit, over: Over) -> Result<Answer, StoreError> {
        let began = Instant::now();
        let reason = Reason::RateLimited;
        let words = self.flood.words(over);
        let rate = match over {
            Over::Sender => "sender",
            Over::Room => "room",
        };
        let mut answer = Answer { reason: Some(reason), detail: Some(words.clone()), record: None };
        for Intake { mut record, .. } in commit.intakes {
            let inputs = json!({
                "over": rate,
                "senderMessagesPerMinute": self.flood.rules.sender_messages_per_minute,
                "roomMessagesPerMinute": self.flood.rules.room_messages_per_minute,
            });
            if let Value::Array(steps) = &mut record.steps {
                steps.push(step("rates", reason.as_str(), &words, inputs, began));
            }
            record.verdict = Verdict::of(Some(reason));
            record.explanation = format!("{} ({words})", reason.explanation());
            record.message = None;
            let sender = record.sender.as_ref().map(Address::to_string).unwrap_or_default();
            let counted = self.store.count_refusal(&record, &sender).await?;
            if counted == record.id {
                let agent = record.agent.map(AccountId::get);
                info!(agent.id = agent, record.id = %counted, over = rate, "mail is deferred");
            }
            answer.record.get_or_insert(counted);
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        Address::parse(text).unwrap()
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_750_000_000_000 + millis)
    }

    fn flood(sender: u32, room: u32) -> Flood {
        Flood::new(IntakeRates {
            sender_messages_per_minute: sender,
            room_messages_per_minute: room,
            max_tracked: 9,
        })
    }

    /// Takes one that is stored for all of these Agents.
    fn take(flood: &Flood, sender: &str, agents: &[i64], millis: i64) -> Result<(), Over> {
        let agents: BTreeSet<_> = agents.iter().map(|id| AccountId::new(*id).unwrap()).collect();
        let mut taken = flood.take(&address(sender), agents, at(millis))?;
        (taken.agents, taken.sender_is_free) = (BTreeSet::new(), false);
        Ok(())
    }

    const ALICE: &str = "alice@good.example";

    #[test]
    fn a_room_that_is_full_leaves_other_rooms_alone() {
        let flood = flood(9, 2);
        assert_eq!(take(&flood, ALICE, &[1], 0), Ok(()));
        assert_eq!(take(&flood, "ALICE@good.example", &[1], 0), Ok(()));
        assert_eq!(take(&flood, ALICE, &[1], 1), Err(Over::Room));
        assert_eq!(take(&flood, "bob@good.example", &[1], 1), Ok(()));
        assert_eq!(take(&flood, ALICE, &[2], 1), Ok(()));
        // One that is full holds up the transaction, and what is held up does not count.
        assert_eq!(take(&flood, ALICE, &[1, 2], 1), Err(Over::Room));
        assert_eq!(take(&flood, ALICE, &[2], 1), Ok(()));
        assert_eq!(take(&flood, ALICE, &[1], 29_999), Err(Over::Room));
        assert_eq!(take(&flood, ALICE, &[1], 30_000), Ok(()));
    }

    #[test]
    fn a_sender_has_one_rate_for_all() {
        let flood = flood(3, 2);
        assert_eq!(take(&flood, ALICE, &[1, 2, 3], 0), Ok(()));
        assert_eq!(take(&flood, ALICE, &[4], 0), Ok(()));
        assert_eq!(take(&flood, ALICE, &[5], 0), Ok(()));
        assert_eq!(take(&flood, ALICE, &[6], 0), Err(Over::Sender));
        assert_eq!(take(&flood, ALICE, &[6], 20_000), Ok(()));
        let any = self::flood(0, 0);
        assert!((0..999).all(|_| take(&any, ALICE, &[1], 0).is_ok()));
        let rooms = self::flood(0, 1);
        assert_eq!(take(&rooms, ALICE, &[1], 0), Ok(()));
        assert_eq!(take(&rooms, ALICE, &[1], 0), Err(Over::Room));
    }

    #[test]
    fn what_is_not_stored_does_not_count() {
        let flood = flood(1, 1);
        let one = || [AccountId::new(1).unwrap()].into();
        for _ in 0..9 {
            drop(flood.take(&address(ALICE), one(), at(0)).unwrap());
        }
        // The same again, which was there before.
        flood.take(&address(ALICE), one(), at(0)).unwrap().settle(&[], &[]);
        let held = flood.take(&address(ALICE), one(), at(0)).unwrap();
        assert_eq!(flood.take(&address(ALICE), one(), at(0)).unwrap_err(), Over::Sender);
        drop(held);
        assert_eq!(take(&flood, ALICE, &[1], 0), Ok(()));
    }

    #[test]
    fn a_clock_that_is_set_back_holds_up_nobody() {
        let flood = flood(9, 1);
        assert_eq!(take(&flood, ALICE, &[1], 0), Ok(()));
        assert_eq!(take(&flood, ALICE, &[1], -500), Err(Over::Room), "a step of NTP is no excuse");
        assert_eq!(take(&flood, ALICE, &[1], -3_600_000), Ok(()));
        assert_eq!(take(&flood, ALICE, &[1], -3_600_000), Err(Over::Room));
        assert_eq!(take(&flood, ALICE, &[1], 3_600_000), Ok(()));
    }
}
