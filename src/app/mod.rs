//! The use cases: the only caller of `verify` and `store` together.

pub mod delivery;
pub mod mailbox;
