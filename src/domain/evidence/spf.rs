//! SPF (RFC 7208): recorded only; no verdict rests on it.

use serde::{Deserialize, Serialize};

use super::Word;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spf {
    /// The client's address.
    pub client: String,
    pub helo: String,
    pub reverse_path: String,
    /// `mailfrom` or `helo`.
    pub identity: Word,
    /// The value of `%{r}`: the name of this server.
    pub receiver: String,
    /// None if the identity is not a host name.
    #[serde(flatten)]
    pub evaluated: Option<Evaluated>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evaluated {
    /// Terms that queried the DNS, and terms whose query found nothing (RFC 7208 §4.6.4).
    pub lookups: u32,
    pub void_lookups: u32,
    /// Result of mail-auth over the same answers, if it has one.
    pub library: Option<Word>,
    /// Result of mail-auth, if ours differs.
    pub corrected_from: Option<Word>,
}
