//! The mailbox in the single RFC 5322 `From` field. Never the envelope, `Sender`, `Reply-To`,
//! `Resent-*` or a display name.

use super::address::Address;

/// The author that a message claims; proven only once `verify` has found an aligned signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The mailbox that policies, contacts and repeats compare.
    pub address: Address,
    /// The display name, decoded, without control characters; shown to people, never used in
    /// decisions.
    pub name: Option<String>,
}
