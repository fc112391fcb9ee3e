//! The provider that posted a message, and the proof.

use serde::{Deserialize, Serialize};

use super::Word;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provider {
    pub provider: Word,
    pub proof: Word,
    /// The account's own application was asked and let the message pass.
    pub relayed: bool,
}
