//! iprev (RFC 8601 §3): whether the client's address has a name that leads back to it.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iprev {
    /// The address.
    pub client: String,
}
