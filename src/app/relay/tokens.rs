//! Remembers each one-time token of a provider with its content. A token with other content was
//! stolen. A token with the same content is the provider's retry, which does no harm (contract §2,
//! Repeats).

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Mutex;

use super::providers::Token;
use crate::app::locked::locked;
use crate::domain::id::AccountId;

/// The last `most` tokens of this gateway. When full, the account with the most tokens loses its
/// oldest, so no account displaces the tokens of others.
#[derive(Debug)]
pub(super) struct Tokens {
    most: usize,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    accounts: HashMap<AccountId, AccountTokens>,
    /// Accounts by how many tokens they have: a full memory must not cost each post a look at all.
    by_count: BTreeSet<(usize, AccountId)>,
    all: usize,
}

/// The tokens of one account; equal tokens of two accounts are unrelated.
#[derive(Debug, Default)]
struct AccountTokens {
    contents: HashMap<[u8; 32], [u8; 32]>,
    order: VecDeque<[u8; 32]>,
}

impl Tokens {
    pub(super) fn new(most: usize) -> Self {
        Self { most, seen: Mutex::default() }
    }

    /// Returns false if the token came with other content before, for this account.
    pub(super) fn admit(&self, account: AccountId, token: Token) -> bool {
        let mut seen = locked(&self.seen);
        let content = seen.accounts.get(&account).and_then(|one| one.contents.get(&token.token));
        if let Some(content) = content {
            return *content == token.content;
        }
        if seen.all >= self.most {
            seen.forget_one();
        }
        seen.remember(account, token);
        true
    }
}

impl Seen {
    fn remember(&mut self, account: AccountId, token: Token) {
        let one = self.accounts.entry(account).or_default();
        self.by_count.remove(&(one.order.len(), account));
        one.order.push_back(token.token);
        one.contents.insert(token.token, token.content);
        self.by_count.insert((one.order.len(), account));
        self.all += 1;
    }

    /// Forgets the oldest token of the account with the most.
    fn forget_one(&mut self) {
        let Some((_, account)) = self.by_count.pop_last() else { return };
        let Some(one) = self.accounts.get_mut(&account) else { return };
        let Some(oldest) = one.order.pop_front() else { return };
        one.contents.remove(&oldest);
        if one.order.is_empty() {
            self.accounts.remove(&account);
        } else {
            self.by_count.insert((one.order.len(), account));
        }
        self.all -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(number: i64) -> AccountId {
        AccountId::new(number).unwrap()
    }

    const fn token(token: u8, content: u8) -> Token {
        Token { token: [token; 32], content: [content; 32] }
    }

    #[test]
    fn a_token_stands_for_one_content_and_the_oldest_are_forgotten() {
        let tokens = Tokens::new(2);
        let admit = |one| tokens.admit(account(1), one);
        assert!(admit(token(1, 1)) && admit(token(1, 1)));
        assert!(!admit(token(1, 2)));
        assert!(admit(token(2, 2)) && !admit(token(1, 2)));
        assert!(admit(token(3, 3)) && admit(token(1, 2)));
        assert_eq!(tokens.seen.lock().unwrap().all, 2);
    }

    #[test]
    fn no_account_takes_or_pushes_out_the_token_of_another() {
        let tokens = Tokens::new(4);
        let (one, two) = (account(1), account(2));
        assert!(tokens.admit(one, token(1, 1)) && tokens.admit(two, token(1, 2)));
        for flood in 2..100 {
            assert!(tokens.admit(two, token(flood, 1)));
        }
        assert!(!tokens.admit(one, token(1, 9)), "still known");
        let seen = tokens.seen.lock().unwrap();
        let held: usize = seen.accounts.values().map(|one| one.contents.len()).sum();
        assert_eq!((seen.all, held), (4, 4));
    }
    #[test]
    fn the_account_with_the_most_is_found_without_a_look_at_all() {
        let tokens = Tokens::new(60);
        for number in 0..200 {
            let one = account(1 + i64::from(number) * i64::from(number) % 37);
            tokens.admit(one, token(number, 1));
            let seen = locked(&tokens.seen);
            let counts = seen.accounts.iter().map(|(id, one)| (one.order.len(), *id));
            assert_eq!(seen.by_count, counts.collect());
            let held: usize = seen.by_count.iter().map(|(count, _)| count).sum();
            assert_eq!((seen.all, held), (held, 60.min(usize::from(number) + 1)));
        }
    }
}
