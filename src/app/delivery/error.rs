//! Errors of webhooks and deliveries, each with the remedy.

use crate::domain::clock::Timestamp;
use crate::domain::custom_header::HeaderError;
use crate::store::StoreError;

use super::destinations::LONGEST_LABEL;

#[derive(Debug, thiserror::Error)]
pub enum DestinationError {
    #[error("there is no such webhook in the scope of this request")]
    NoWebhook,
    #[error("there is no such delivery in the scope of this request")]
    NoDelivery,
    #[error("a label has at most {LONGEST_LABEL} octets and no control characters")]
    Label,
    #[error(transparent)]
    Header(#[from] HeaderError),
    #[error("an account has at most {most} webhooks: remove one first")]
    TooMany { most: u64 },
    #[error(
        "this webhook is disabled: enable it first (POST /webhooks with its id and disabled false)"
    )]
    Disabled,
    #[error(
        "{most} former secrets are still signing: wait until the first of them ends ({first}), or \
         end them all at once with endFormer"
    )]
    TooManySecrets { most: usize, first: Timestamp },
    #[error("since lies in the future: nothing was made since then")]
    Future,
    #[error("{most} replays of this webhook are waiting already: try again when they are done")]
    TooManyReplays { most: u64 },
    #[error("this delivery is pending: it is tried again by itself (see nextAttemptAt)")]
    Pending,
    #[error("its webhook was removed: events go to webhooks that are in use")]
    Removed,
    #[error(transparent)]
    Store(#[from] StoreError),
}
