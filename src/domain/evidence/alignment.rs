//! Whether who signed speaks for the From domain, and what stood in the way.

use serde::{Deserialize, Serialize};

use super::Word;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alignment {
    /// The domain of From.
    pub from: String,
    /// Its organization by the public suffix list.
    pub organization: Option<String>,
    pub signers: Vec<Signer>,
    /// `alignment` of `policies/intake.toml`.
    pub rule: Word,
    /// By the DMARC record of the From domain: `relaxed`, `strict`, or `unknown`.
    pub adkim: Word,
    /// The name of the record that says so; empty where none does.
    pub record: String,
    /// Codes of `domain::cause`; of none it is authenticated, or the reason says it all.
    pub causes: Vec<Word>,
    /// Of which signature they are said: its domain and its selector.
    pub signer: String,
    pub selector: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signer {
    pub domain: String,
    pub organization: Option<String>,
    pub aligned: bool,
    pub counts: bool,
}
