//! The results of all methods together, as a message's record shows them (`authentication`).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Word, arc, dkim};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Results {
    pub spf: Spf,
    pub dkim: Arc<[dkim::Signature]>,
    pub dmarc: Dmarc,
    pub arc: Option<arc::Chain>,
    pub iprev: Iprev,
    /// `d=` of the signature that authenticates.
    pub aligned_domain: Option<String>,
    /// Fields of meaning that the proof does not cover, lower case.
    pub unsigned_headers: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spf {
    pub result: Word,
    /// Domain of MAIL FROM, or of HELO for the null reverse-path.
    pub domain: Option<String>,
    pub identity: Word,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dmarc {
    pub result: Word,
    /// The policy that the From domain publishes.
    pub policy: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iprev {
    pub result: Word,
    /// The confirmed name.
    pub name: Option<String>,
}
