//! Errors about relays and inbound keys, each with the remedy.

use std::time::Duration;

use crate::app::vault::VaultError;
use crate::domain::custom_header::HeaderError;
use crate::domain::relay::{REFUSES, RelayType};
use crate::rules::ForwardRules;
use crate::store::StoreError;

use super::verification::VerificationError;

#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    #[error("there is no such relay of this type in the scope of this request")]
    NoRelay,
    #[error("this server sets up no relays of type {0}")]
    NotOffered(RelayType),
    #[error("mail comes in over SMTP without a key: leave rotateInboundKey and verification out")]
    NoWayIn,
    #[error("url is required: the https:// URL of your application")]
    NoUrl,
    #[error(
        "timeout must be {} to {} milliseconds",
        ForwardRules::SHORTEST.as_millis(), longest.as_millis()
    )]
    Timeout { longest: Duration },
    #[error("successStatusCodes: there are at most {most}")]
    TooManyCodes { most: usize },
    #[error("successStatusCodes: {REFUSES} is how your application refuses: leave it out")]
    CodeRefuses,
    #[error("successStatusCodes: {0} ends no request: send codes from 200 to 599")]
    CodeEndsNothing(u16),
    #[error(transparent)]
    Header(#[from] HeaderError),
    #[error(transparent)]
    Verification(#[from] VerificationError),
    /// A sealed value that cannot be opened is replaced only by a request that sends a new one:
    /// this gateway may be the only one that lacks the key of the vault.
    #[error("{}; for that send {what} along", VaultError::NotOurs)]
    Closed { what: &'static str },
    #[error("the relay was changed by another request at the same time: read it again and retry")]
    Busy,
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    Store(#[from] StoreError),
}
