//! Relays (contract §6): a hop through the account's own application before a message is processed.

pub mod inbound;
pub mod providers;
pub mod signers;
mod tokens;

use crate::app::vault::Vault;
use crate::domain::audit::{Act, Actor};
use crate::domain::id::Mint;
use crate::store::Store;

/// The use cases.
#[derive(Clone, Debug)]
pub struct Relays {
    store: Store,
    vault: Vault,
    mint: Mint,
    /// Who is said to have done what is done here.
    actor: Actor,
}

impl Relays {
    /// Over this store; what is secret is sealed by this vault.
    pub const fn new(store: Store, vault: Vault, mint: Mint) -> Self {
        Self { store, vault, mint, actor: Actor::OPERATOR }
    }

    /// The same for somebody else.
    #[must_use]
    pub fn by(&self, actor: &Actor) -> Self {
        Self { actor: actor.clone(), ..self.clone() }
    }

    fn act(&self) -> Act<'_> {
        self.actor.at(self.mint.clock().now())
    }
}
