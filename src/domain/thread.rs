//! Messages of one room that answer each other. What links them are the Message-IDs that they name
//! (RFC 5322 §3.6.4), which anybody can write: a thread never leaves its room.

use std::collections::HashMap;

use super::id::{MessageId, ThreadId};

/// A digest of a Message-ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadKey(pub [u8; 16]);

/// By what a message finds its thread, and is found by later ones; a message without keys begins a
/// thread that nothing can join.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadKeys {
    /// Of its own Message-ID.
    pub own: Option<ThreadKey>,
    /// Of the messages that it names, the first one that is known counts.
    pub named: Vec<ThreadKey>,
}

impl ThreadKeys {
    /// All of them, in the order in which they count. Its own comes last: an answer may have
    /// overtaken it.
    pub fn all(&self) -> impl Iterator<Item = ThreadKey> {
        self.named.iter().chain(&self.own).copied()
    }

    /// The thread of the message `id` in a room where these are `known`; what it names is known
    /// from then on.
    pub fn join(&self, id: MessageId, known: &mut HashMap<ThreadKey, ThreadId>) -> ThreadId {
        let found = self.all().find_map(|key| known.get(&key).copied());
        let thread = found.unwrap_or(ThreadId(id.0));
        for key in self.all() {
            known.entry(key).or_insert(thread);
        }
        thread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(own: u8, named: &[u8]) -> ThreadKeys {
        let key = |number| ThreadKey([number; 16]);
        ThreadKeys { own: Some(key(own)), named: named.iter().copied().map(key).collect() }
    }

    fn id(number: u128) -> MessageId {
        MessageId(uuid::Uuid::from_u128(number))
    }

    #[test]
    fn the_first_that_is_known_counts() {
        let mut known = HashMap::new();
        let thread = |number| ThreadId(id(number).0);
        assert_eq!(keys(1, &[]).join(id(1), &mut known), thread(1));
        assert_eq!(keys(2, &[]).join(id(2), &mut known), thread(2));
        assert_eq!(keys(3, &[9, 2, 1]).join(id(3), &mut known), thread(2));
        // What nobody had seen is now known by who named it.
        assert_eq!(keys(4, &[9]).join(id(4), &mut known), thread(2));
        assert_eq!(keys(9, &[]).join(id(9), &mut known), thread(2));
        assert_eq!(keys(5, &[8]).join(id(5), &mut known), thread(5));
        assert_eq!(keys(6, &[8]).join(id(6), &mut known), thread(5));
        assert_eq!(ThreadKeys::default().join(id(7), &mut known), thread(7));
    }
}
