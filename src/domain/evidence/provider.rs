//! Who posted a message, and what proved it.

use serde::{Deserialize, Serialize};

use super::Word;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provider {
    pub provider: Word,
    pub proof: Word,
    /// The account's own application was asked and let it pass.
    pub relayed: bool,
}
