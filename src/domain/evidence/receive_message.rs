//! A message that an account's own platform submitted.

use serde::{Deserialize, Serialize};

use super::Word;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceiveMessage {
    /// The account of the key; None for the operator.
    pub account_id: Option<i64>,
    pub source: Word,
}
