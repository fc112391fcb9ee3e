//! Our own look at a message: its framing, its header section, its content.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scan {
    /// The mailbox in From, as far as one could be found.
    pub from: Option<String>,
}
