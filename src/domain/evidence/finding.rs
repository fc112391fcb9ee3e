//! A remark about the content of a message.

use serde::{Deserialize, Serialize};

use super::Word;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// One of `mail::findings::KINDS`.
    pub kind: Word,
    /// In plain words.
    pub detail: String,
    /// The place that it is about: `message` of the record, or a name in its metadata.
    pub field: Word,
    /// Where in it: the first character and the one behind the last, in Unicode code points; `None`
    /// where the whole field is meant.
    pub start: Option<u64>,
    pub end: Option<u64>,
    /// The charset that `emailHtml` is decoded by, where the place is in that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charset: Option<Word>,
}
