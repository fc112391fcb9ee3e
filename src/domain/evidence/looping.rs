//! Whether a message has been here before, for the address that it comes to.

use serde::{Deserialize, Serialize};

use super::Word;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loop {
    /// The field that was looked at.
    pub field: Word,
    pub address: String,
}
