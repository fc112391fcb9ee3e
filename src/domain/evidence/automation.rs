//! Signs that a machine sent a message.

use serde::{Deserialize, Serialize};

use super::Word;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Automation {
    pub auto_submitted: Vec<String>,
    pub null_reverse_path: bool,
    pub precedence: Vec<String>,
    pub list_id: Option<String>,
    /// Names of the mailing-list fields present.
    pub list_fields: Vec<Word>,
    pub auto_response_suppress: Vec<String>,
    pub report_type: Option<String>,
    pub delivery_markers: u64,
    pub received_fields: u64,
}
