//! Rooms: the conversations of one contact with one Agent.

use std::fmt;
use std::str::FromStr;

use super::id::{AccountId, ContactId, IdError};

/// Shown as `"<contactId>:<agentId>"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Room {
    pub contact: ContactId,
    pub agent: AccountId,
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.contact, self.agent)
    }
}

impl FromStr for Room {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let (contact, agent) = text.split_once(':').ok_or(IdError)?;
        Ok(Self { contact: contact.parse()?, agent: agent.parse()? })
    }
}

/// Length of a preview in characters.
const PREVIEW: usize = 200;

/// Returns the beginning of a message on one line: of its own text, or of all its text if it only
/// quotes.
pub fn preview(stripped: &str, text: &str) -> String {
    let words = |text: &str| {
        let mut line = String::new();
        for word in text.split_whitespace() {
            if line.len() >= 4 * PREVIEW {
                break;
            }
            line.push_str(if line.is_empty() { "" } else { " " });
            line.extend(word.chars().take(PREVIEW));
        }
        line.chars().take(PREVIEW).collect::<String>()
    };
    let own = words(stripped);
    if own.is_empty() { words(text) } else { own }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_is_one_line_of_bounded_length() {
        assert_eq!(preview("Thank\r\n you! ", "x"), "Thank you!");
        assert_eq!(preview(" \r\n", "> before"), "> before");
        assert_eq!(preview("", ""), "");
        assert_eq!(preview(&"ä ".repeat(1_000_000), ""), "ä ".repeat(100));
        assert_eq!(preview(&"ä".repeat(1_000_000), "").chars().count(), PREVIEW);
    }
}
