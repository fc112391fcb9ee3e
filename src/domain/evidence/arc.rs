//! ARC (RFC 8617).

use serde::{Deserialize, Serialize};

use super::Word;

/// Without a chain if the message could not be examined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arc {
    #[serde(flatten)]
    pub chain: Option<Chain>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Chain {
    pub result: Word,
    pub sets: u64,
    /// `d=` of the newest seal.
    pub sealer: Option<String>,
    /// The chain replaces an aligned signature.
    pub stands_in: bool,
}
