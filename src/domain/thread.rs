//! Threads: messages of one room that answer each other. They are linked by the Message-IDs that
//! they name (RFC 5322 §3.6.4). Anybody can write those, so a thread never leaves its room.

use std::collections::HashMap;

use super::id::{MessageId, ThreadId};

/// A digest of a Message-ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadKey(pub [u8; 16]);

/// Keys by which a message finds its thread, and later messages find this one. A message without
/// keys begins a thread that no other can join.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadKeys {
    /// Key of its own Message-ID.
    pub own: Option<ThreadKey>,
    /// Keys of the messages that it names; the first known one decides.
    pub named: Vec<ThreadKey>,
}

impl ThreadKeys {
    /// All keys in order of precedence. Its own comes last: a reply may have arrived first.
    pub fn all(&self) -> impl Iterator<Item = ThreadKey> {
        self.named.iter().chain(&self.own).copied()
    }

    /// Returns the thread of message `id` in a room with the `known` keys, and adds all its keys to
    /// them.
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
        // An unknown message is known once another one names it.
        assert_eq!(keys(4, &[9]).join(id(4), &mut known), thread(2));
        assert_eq!(keys(9, &[]).join(id(9), &mut known), thread(2));
        assert_eq!(keys(5, &[8]).join(id(5), &mut known), thread(5));
        assert_eq!(keys(6, &[8]).join(id(6), &mut known), thread(5));
        assert_eq!(ThreadKeys::default().join(id(7), &mut known), thread(7));
    }
}
