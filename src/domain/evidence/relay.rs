//! The application that was asked about a message.

use serde::{Deserialize, Serialize};

use super::Word;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Relay {
    #[serde(rename = "type")]
    pub kind: Word,
    /// Its id.
    pub relay: String,
    pub revision: i64,
    /// Whose it is; `None` where it could not be read.
    pub account_id: Option<i64>,
}
