//! Signs that a provider gives once, and what each stood for here: one that stands before something
//! else was stolen. The same again is the provider's own retry, which does no harm (contract §2.6).

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use super::providers::Token;

/// So many of them, the last ones. Each gateway remembers its own.
#[derive(Debug)]
pub(super) struct Tokens {
    most: usize,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    contents: HashMap<[u8; 32], [u8; 32]>,
    order: VecDeque<[u8; 32]>,
}

impl Tokens {
    pub(super) fn new(most: usize) -> Self {
        Self { most, seen: Mutex::default() }
    }

    /// Whether it has stood for nothing else.
    pub(super) fn admit(&self, token: Token) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(content) = seen.contents.get(&token.token) {
            return *content == token.content;
        }
        while seen.order.len() >= self.most {
            let Some(oldest) = seen.order.pop_front() else { break };
            seen.contents.remove(&oldest);
        }
        seen.order.push_back(token.token);
        seen.contents.insert(token.token, token.content);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stands_for_one_content_and_the_oldest_are_forgotten() {
        let tokens = Tokens::new(2);
        let token = |token, content| Token { token: [token; 32], content: [content; 32] };
        assert!(tokens.admit(token(1, 1)) && tokens.admit(token(1, 1)));
        assert!(!tokens.admit(token(1, 2)));
        assert!(tokens.admit(token(2, 2)) && !tokens.admit(token(1, 2)));
        assert!(tokens.admit(token(3, 3)) && tokens.admit(token(1, 2)));
        assert_eq!(tokens.seen.lock().unwrap().contents.len(), 2);
    }
}
