//! Whether a message has already reached this address.

use serde::{Deserialize, Serialize};

use super::Word;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loop {
    /// The header field examined.
    pub field: Word,
    pub address: String,
}
