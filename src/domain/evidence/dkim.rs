//! DKIM (RFC 6376).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Word;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dkim {
    /// Number of `DKIM-Signature` fields in the message.
    pub fields: u64,
    /// Number of those fields that were examined.
    pub considered: u64,
    pub signatures: Arc<[Signature]>,
    #[serde(flatten)]
    pub rules: Rules,
}

/// The rules of `policies/intake.toml` applied to the signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rules {
    pub min_rsa_bits: u64,
    pub count_testing_keys: bool,
    pub max_future_seconds: u64,
    pub max_clock_seconds: u64,
}

/// One signature with its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Signature {
    /// `d=`, as written if it is no domain.
    pub domain: String,
    /// `s=`, as written if it is no selector.
    pub selector: Option<String>,
    /// As in `a=`.
    pub algorithm: Option<Word>,
    pub key_bits: Option<u64>,
    /// The result word of RFC 8601 §2.7.1; `policy` if the signature verifies but does not count.
    pub result: Word,
    /// Why it does not authenticate; None if it does.
    pub reason: Option<String>,
    /// All reasons as codes of `domain::cause`, each once.
    pub causes: Vec<Word>,
    pub counts: bool,
    pub aligned: bool,
    /// The names in `h=`, lower case.
    pub signed_headers: Vec<String>,
}
