//! Our own scan of a message: framing, header section, content.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scan {
    /// The mailbox in From; None if none was found.
    pub from: Option<String>,
}
