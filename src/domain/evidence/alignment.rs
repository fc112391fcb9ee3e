//! Alignment: whether a signer speaks for the From domain.

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
    /// From the DMARC record of the From domain: `relaxed`, `strict`, or `unknown`.
    pub adkim: Word,
    /// Name of the DMARC record with adkim; empty if there is none.
    pub record: String,
    /// Codes of `domain::cause`; empty if the sender is authenticated, or if the reason is enough.
    pub causes: Vec<Word>,
    /// `d=` of the signature that the causes are about; `selector` is its `s=`.
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
