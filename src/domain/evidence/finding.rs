//! A remark about the content of a message.

use serde::{Deserialize, Serialize};

use super::Word;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// One of `mail::findings::KINDS`.
    pub kind: Word,
    /// In plain words.
    pub detail: String,
    /// The place of the finding: `message` of the record, or a name in its metadata.
    pub field: Word,
    /// Range in that field in Unicode code points, end exclusive; None if the whole field is meant.
    pub start: Option<u64>,
    pub end: Option<u64>,
    /// Charset that `emailHtml` is decoded with, if the range is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charset: Option<Word>,
}
