//! A report of a sender on TLS (RFC 8460), to which no policy of an Agent applies.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsReport {
    /// The address for reports.
    pub address: String,
}
