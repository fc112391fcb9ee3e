//! A client that was refused at MAIL or RCPT.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipient {
    /// The forward-path as sent, without angle brackets; empty at MAIL.
    pub path: String,
}
