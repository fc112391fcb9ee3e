//! The recipient's policy, as it was applied.

use serde::{Deserialize, Serialize};

use super::Word;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    pub sender: Option<String>,
    pub mode: Word,
    pub listed: bool,
    #[serde(default)]
    pub policy_version: i64,
    pub recipient_active: bool,
    #[serde(default = "yes")]
    pub recipient_answers: bool,
    #[serde(default = "yes")]
    pub recipient_takes_mail: bool,
}

const fn yes() -> bool {
    true
}
