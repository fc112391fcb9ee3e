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
    #[error("label must have at most {LONGEST_LABEL} bytes and no control characters")]
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
        "{most} former secrets still sign: wait until the first of them ends ({first}), or end all \
         of them now with endFormer"
    )]
    TooManySecrets { most: usize, first: Timestamp },
    #[error("since lies in the future: send a time in the past")]
    Future,
    #[error("{most} replays of this webhook are already waiting: try again when they are done")]
    TooManyReplays { most: u64 },
    #[error("this delivery is pending: wait for its next attempt (see nextAttemptAt)")]
    Pending,
    #[error("the webhook of this delivery was removed, so the delivery cannot be sent again")]
    Removed,
    #[error(transparent)]
    Store(#[from] StoreError),
}
