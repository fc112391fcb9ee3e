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
    #[error("there is no such inbound key of this type in the scope of this request")]
    NoInboundKey,
    #[error("relays of type {0} are not available on this server")]
    NotOffered(RelayType),
    #[error("relays of type smtp have no inbound key: leave rotateInboundKey and verification out")]
    NoWayIn,
    #[error(
        "relays of type json ask no application: leave url, timeout, headers and successStatusCodes \
         out, and send rotateInboundKey: true to make the inboundUrl and its secret"
    )]
    NoApplication,
    #[error("url is required: the https:// URL of your application")]
    NoUrl,
    #[error(
        "timeout must be {} to {} milliseconds",
        ForwardRules::SHORTEST.as_millis(), longest.as_millis()
    )]
    Timeout { longest: Duration },
    #[error("successStatusCodes: too many: send at most {most}")]
    TooManyCodes { most: usize },
    #[error(
        "successStatusCodes: {REFUSES} means that your application refuses the message: leave it \
         out"
    )]
    CodeRefuses,
    #[error("successStatusCodes: {0} is not a final status: send codes from 200 to 599")]
    CodeEndsNothing(u16),
    #[error(transparent)]
    Header(#[from] HeaderError),
    #[error(transparent)]
    Verification(#[from] VerificationError),
    /// A sealed value that cannot be opened is replaced only by a request that sends a new one:
    /// this gateway may be the only one that lacks the key of the vault.
    #[error("{}; to set them again, send {what}", VaultError::NotOurs)]
    Closed { what: &'static str },
    #[error("the relay was changed by another request at the same time: read it again and retry")]
    Busy,
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    Store(#[from] StoreError),
}
