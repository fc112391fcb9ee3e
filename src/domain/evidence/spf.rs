//! SPF (RFC 7208): recorded, and never what accepts or refuses.

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
    /// Our own name, `%{r}`.
    pub receiver: String,
    /// `None` where the identity is no host name.
    #[serde(flatten)]
    pub evaluated: Option<Evaluated>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evaluated {
    /// Terms that asked the DNS, and those of them that found nothing (RFC 7208 §4.6.4).
    pub lookups: u32,
    pub void_lookups: u32,
    /// The library's result over the same answers, if it has one.
    pub library: Option<Word>,
    /// The library's result, where ours is another.
    pub corrected_from: Option<Word>,
}
