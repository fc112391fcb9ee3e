//! The application that was asked about a message.

use serde::{Deserialize, Serialize};

use super::Word;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Relay {
    #[serde(rename = "type")]
    pub kind: Word,
    pub relay: String,
    pub revision: i64,
    /// The account that owns the relay; None if it could not be read.
    pub account_id: Option<i64>,
}
