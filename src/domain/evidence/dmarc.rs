//! DMARC (RFC 9989).

use serde::{Deserialize, Serialize};

use super::Word;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dmarc {
    /// The domain of From.
    pub from: String,
    /// The domains of the signatures that verify and count.
    pub dkim: Vec<String>,
    /// The result of SPF, and the domain that it is about.
    pub spf: Word,
    pub spf_domain: Option<String>,
    /// By the public suffix list, which decides.
    pub aligned_by_list: bool,
    /// By the tree of DMARC records; `None` where there is no record.
    pub aligned_by_tree: Option<bool>,
    /// The record that applies.
    pub published: Option<Published>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    pub p: Word,
    pub sp: Word,
    pub np: Word,
    pub t: bool,
    pub adkim: Word,
    pub aspf: Word,
}
