//! DMARC (RFC 9989).

use serde::{Deserialize, Serialize};

use super::Word;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dmarc {
    /// The domain of From.
    pub from: String,
    /// Domains of the signatures that verify and count.
    pub dkim: Vec<String>,
    /// The SPF result; `spf_domain` is its domain.
    pub spf: Word,
    pub spf_domain: Option<String>,
    /// Alignment by the public suffix list, which decides.
    pub aligned_by_list: bool,
    /// Alignment by the tree of DMARC records; None without a record.
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
