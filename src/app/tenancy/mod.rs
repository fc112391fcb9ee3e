//! Accounts and what belongs to them: keys, members, domains, addresses, inbound policies.
//!
//! `http` and `cli` call this room. `access` has decided before whether the caller may; the command
//! line acts as the operator, who may do everything. A change and its audit entry are one
//! transaction; `store/tenancy` has its locks and gates. Nothing is kept in memory.

mod accounts;
mod addresses;
pub mod details;
mod domains;
mod error;
mod inbound_policy;
mod keys;
mod masking;
mod members;
pub mod record;

use std::sync::Arc;

pub use accounts::NewNode;
pub use addresses::Claiming;
pub use domains::{Proof, proof_name};
pub use error::TenancyError;
pub use inbound_policy::{AllowedPage, ListChange};
pub use keys::{KeyTerms, NewKey};
pub use members::Invitation;

use crate::domain::audit::Actor;
use crate::domain::id::Mint;
use crate::rules::AccessRules;
use crate::store::Store;

#[derive(Clone, Debug)]
pub struct Tenancy {
    store: Store,
    mint: Mint,
    rules: Arc<AccessRules>,
    actor: Actor,
}

done_by!(Tenancy, mint.clock());

impl Tenancy {
    /// Acts as the operator.
    pub const fn new(store: Store, mint: Mint, rules: Arc<AccessRules>) -> Self {
        Self { store, mint, rules, actor: Actor::OPERATOR }
    }
}
