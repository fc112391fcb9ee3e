//! Mail that this process has committed and not yet indexed for search, kept so that it need not be
//! read back. Only on the embedded store, where no other gateway indexes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::account::Lineage;
use crate::domain::clock::Timestamp;
use crate::domain::id::{AccountId, MessageId};
use crate::domain::message::Mail;

/// Most bytes kept; later mail is read back.
const MOST: usize = 16 << 20;
/// Approximate bytes of a message besides its text, and of each entry of its lists.
const EACH: usize = 1024;

/// The mail that is kept. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct UnindexedCache(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    all: BTreeMap<MessageId, UnindexedMail>,
    octets: usize,
}

/// One message, as its index entry needs it.
#[derive(Clone, Debug)]
pub struct UnindexedMail {
    pub lineage: Lineage,
    pub agent: AccountId,
    pub at: Timestamp,
    pub mail: Arc<Mail>,
}

impl UnindexedCache {
    /// Keeps mail that was just committed, as far as there is room.
    pub fn keep(&self, arrived: impl Iterator<Item = (MessageId, UnindexedMail)>) {
        let mut waiting = self.waiting();
        for (id, one) in arrived {
            let octets = octets(&one.mail);
            if waiting.octets + octets > MOST {
                break;
            }
            waiting.octets += octets;
            waiting.all.insert(id, one);
        }
    }

    /// Takes out these messages, as far as they are kept. Forgets all older than the newest of
    /// them: they were deleted, or are read back. Without ids no message waits: forgets all.
    pub fn take(&self, ids: &[MessageId]) -> Vec<(MessageId, UnindexedMail)> {
        let Some(last) = ids.iter().max() else {
            *self.waiting() = Waiting::default();
            return Vec::new();
        };
        let mut old = {
            let mut waiting = self.waiting();
            let mut younger = waiting.all.split_off(last);
            let last = younger.remove_entry(last);
            let mut old = std::mem::replace(&mut waiting.all, younger);
            old.extend(last);
            waiting.octets -= old.values().map(|one| octets(&one.mail)).sum::<usize>();
            old
        };
        ids.iter().filter_map(|id| old.remove_entry(id)).collect()
    }

    /// Locks the mail. Nothing panics under the lock; if something did, more would be read back.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn octets(mail: &Mail) -> usize {
    let lists = [&mail.to, &mail.cc, &mail.reply_to, &mail.in_reply_to, &mail.references];
    let entries = lists.into_iter().map(Vec::len).sum::<usize>();
    let entries = 1 + entries + mail.attachments.len() + mail.findings.len();
    EACH * entries + mail.text.len() + mail.stripped_text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::address::Address;
    use crate::domain::sender::Sender;

    fn mail(octets: usize) -> UnindexedMail {
        let from = Sender { address: Address::parse("a@b.example").unwrap(), name: None };
        let mail = Mail { text: "x".repeat(octets), ..Mail::of(from) };
        let at = Timestamp::from_millis(0);
        UnindexedMail {
            lineage: Lineage::default(),
            agent: AccountId::new(1).unwrap(),
            at,
            mail: mail.into(),
        }
    }

    fn id(number: u128) -> MessageId {
        MessageId(uuid::Uuid::from_u128(number))
    }

    #[test]
    fn what_is_asked_for_is_taken_and_what_is_older_is_forgotten() {
        let unindexed = UnindexedCache::default();
        unindexed.keep((1..=5).map(|number| (id(number), mail(10))));
        let taken = unindexed.take(&[id(2), id(3), id(9), id(4)]);
        let taken: Vec<_> = taken.into_iter().map(|(id, _)| id).collect();
        assert_eq!(taken, [id(2), id(3), id(4)]);
        let left = |waiting: &Waiting| (waiting.octets, waiting.all.len());
        assert_eq!(left(&unindexed.waiting()), (0, 0));
        unindexed.keep((1..=5).map(|number| (id(number), mail(10))));
        assert_eq!(unindexed.take(&[id(2)]).len(), 1);
        assert_eq!(unindexed.waiting().all.len(), 3);
        assert!(unindexed.take(&[]).is_empty());
        assert_eq!(left(&unindexed.waiting()), (0, 0));
    }

    #[test]
    fn its_octets_are_bounded() {
        let unindexed = UnindexedCache::default();
        unindexed.keep((1..100).map(|number| (id(number), mail(1 << 20))));
        assert_eq!(unindexed.waiting().all.len(), 15);
        unindexed.keep([(id(0), mail(MOST))].into_iter());
        assert_eq!(unindexed.take(&[id(99)]).len(), 0);
        assert_eq!(unindexed.waiting().octets, 0);
    }
}
