//! The mailbox in the single RFC 5322 `From` field. Never the envelope, `Sender`, `Reply-To`,
//! `Resent-*` or a display name.

use super::address::Address;

/// Who a message says it is from. It is a claim until `verify` has found an aligned signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The one mailbox that policy, contacts and dedup compare.
    pub address: Address,
    /// The display name, decoded, without control characters; for people to read, never to judge.
    pub name: Option<String>,
}
