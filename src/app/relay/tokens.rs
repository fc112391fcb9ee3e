//! Signs that a provider gives once, and what each stood for here: one that stands before something
//! else was stolen. The same again is the provider's own retry, which does no harm (contract §2, Repeats).

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use super::providers::Token;
use crate::domain::id::AccountId;

/// So many of them, the last ones. Each gateway remembers its own. Where there are too many, the account
/// that has most forgets its oldest: nobody pushes out those of others.
#[derive(Debug)]
pub(super) struct Tokens {
    most: usize,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    accounts: HashMap<AccountId, OfOne>,
    all: usize,
}

/// A token of one account is none of another's, whoever chose it.
#[derive(Debug, Default)]
struct OfOne {
    contents: HashMap<[u8; 32], [u8; 32]>,
    order: VecDeque<[u8; 32]>,
}

impl Tokens {
    pub(super) fn new(most: usize) -> Self {
        Self { most, seen: Mutex::default() }
    }

    /// Whether it has stood for nothing else in this account.
    pub(super) fn admit(&self, account: AccountId, token: Token) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let content = seen.accounts.get(&account).and_then(|one| one.contents.get(&token.token));
        if let Some(content) = content {
            return *content == token.content;
        }
        while seen.all >= self.most && seen.forget_one() {}
        let one = seen.accounts.entry(account).or_default();
        one.order.push_back(token.token);
        one.contents.insert(token.token, token.content);
        seen.all += 1;
        true
    }
}

impl Seen {
    /// Forgets the oldest of whoever has most; `false` where there is none.
    fn forget_one(&mut self) -> bool {
        let most = self.accounts.iter().max_by_key(|(id, one)| (one.order.len(), **id));
        let Some(account) = most.map(|(id, _)| *id) else { return false };
        let Some(one) = self.accounts.get_mut(&account) else { return false };
        let Some(oldest) = one.order.pop_front() else { return false };
        one.contents.remove(&oldest);
        if one.order.is_empty() {
            self.accounts.remove(&account);
        }
        self.all -= 1;
        true
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
}
