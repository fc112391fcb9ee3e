//! DKIM (RFC 6376).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Word;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dkim {
    /// `DKIM-Signature` fields that the message has.
    pub fields: u64,
    /// Those of them that were looked at.
    pub considered: u64,
    pub signatures: Arc<[Signature]>,
    #[serde(flatten)]
    pub rules: Rules,
}

/// The rules of `policies/intake.toml` that the signatures were held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rules {
    pub min_rsa_bits: u64,
    pub count_testing_keys: bool,
    pub max_future_seconds: u64,
    pub max_clock_seconds: u64,
}

/// One signature with its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Signature {
    /// `d=`, or what stands there.
    pub domain: String,
    /// `s=`, or what stands there.
    pub selector: Option<String>,
    /// As in `a=`.
    pub algorithm: Option<Word>,
    pub key_bits: Option<u64>,
    /// The word of RFC 8601 §2.7.1; `policy` where it verifies but does not count.
    pub result: Word,
    /// Why it does not authenticate, if it does not.
    pub reason: Option<String>,
    /// Why, as codes of `domain::cause`, each once.
    pub causes: Vec<Word>,
    pub counts: bool,
    pub aligned: bool,
    /// The names in `h=`, lower case.
    pub signed_headers: Vec<String>,
}
