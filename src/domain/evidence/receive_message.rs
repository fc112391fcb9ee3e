//! A message that an account's own platform handed in.

use serde::{Deserialize, Serialize};

use super::Word;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceiveMessage {
    /// The account of the key; `None` of the operator.
    pub account_id: Option<i64>,
    pub source: Word,
}
