//! The only place that answers "may I?" (contract §4, Scope of a key).
//!
//! A token becomes a [`Caller`]; a caller, a requested target and what the operation needs become a
//! [`Target`] with the [`Scope`] that the store wants. No route reads a target on its own, and
//! nobody else makes a scope.

mod caller;
mod features;
pub mod identity;
pub mod need;
pub mod token;
mod usage;

use std::sync::Arc;

pub use caller::{Caller, Target, identity_of};

use crate::domain::account::{Account, AccountType};
use crate::domain::clock::{Clock, Timestamp};
use crate::domain::feature::Feature;
use crate::domain::id::{AccountId, MessageId};
use crate::domain::scope::Scope;
use crate::rules::{AccessRules, AppRules};
use crate::store::{KeyHolder, Store, StoreError};
use identity::Level;
use need::{Effect, Need, TargetType};
use usage::Usage;

/// Why not.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    /// No key, or one that is unknown, revoked, expired, or of an inactive or deleted account, or
    /// of a member that was removed: one answer for all.
    #[error("the key is unknown, revoked, expired, or belongs to an inactive account")]
    NoKey,
    /// Outside the caller's hierarchy, or not there at all: one answer for both.
    #[error("the key does not reach this account")]
    OutOfScope,
    /// Whatever the target is.
    #[error("this operation needs a key of {} or above", .0.account_type())]
    TooNarrow(Level),
    /// Whatever the target is.
    #[error("this operation is for administrators, and the member who owns this key is none")]
    NotAdministrator,
    /// The caller may touch some Agents only, and this is about their organization.
    #[error(
        "the member who owns this key is restricted to some Agents (permittedAccountIds), and this \
         operation acts on more: set targetAccountId to one of them"
    )]
    Restricted,
    /// A key would be good for longer than the one that makes it.
    #[error(
        "this key expires at {0} and makes none that outlives it: send an expiresAt no later than \
         that"
    )]
    Outlives(Timestamp),
    /// The target is reached, but the operation makes no sense for it.
    #[error("this operation needs {}: set targetAccountId to one", .0.words())]
    WrongTarget(TargetType),
    /// The target is reached, but does not have what the operation is about.
    #[error(
        "the account does not have the feature {:?}: an account above it that has the feature \
         assigns it, by POST /features/assign",
        .0.as_str()
    )]
    NoFeature(Feature),
    /// Features are given from above.
    #[error(
        "nobody assigns features to itself: an account above this one does, as its partner or \
         reseller"
    )]
    OwnFeatures,
    /// Who gives must have.
    #[error("your account does not have the feature {:?}, and so cannot assign it", .0.as_str())]
    NotHeld(Feature),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Decides every right.
#[derive(Clone, Debug)]
pub struct Access {
    store: Store,
    clock: Clock,
    usage: Usage,
    /// They say which features accounts have by default.
    apps: Arc<AppRules>,
    /// Many ask again and again: their questions are asked together.
    together: bool,
}

impl Access {
    /// Decides over this store; keys expire by this clock, and their use is noted as coarsely as
    /// the rules say.
    pub fn new(store: Store, clock: Clock, rules: &AccessRules, apps: Arc<AppRules>) -> Self {
        let usage = Usage::new(store.clone(), rules.keys.last_used());
        Self { store, clock, usage, apps, together: false }
    }

    /// A copy for followers of the event log: over these connections, and each question
    /// with all who ask at the same time.
    #[must_use]
    pub fn of_followers(&self, store: Store) -> Self {
        Self { store, together: true, ..self.clone() }
    }

    /// Who holds this token? Asked of the store with every request, in one statement: what another
    /// gateway revoked a moment ago opens nothing here.
    pub async fn caller(&self, token: Option<&str>) -> Result<Caller, Denied> {
        // That it is no key is told as late as that nobody has it.
        let hash = token.and_then(token::hash).unwrap_or(token::NOBODYS);
        let found = match self.together {
            true => self.store.key_holder_with_others(hash).await?,
            false => self.store.key_holder(hash).await?,
        };
        let found = found.ok_or(Denied::NoKey)?;
        let now = self.clock.now();
        if found.key.is_expired(now) {
            return Err(Denied::NoKey);
        }
        self.usage.seen(&found.key, now);
        let KeyHolder { key, account, member } = found;
        let level = identity::level(&identity_of(&account, member.as_ref()));
        Ok(Caller { key, account, member, level: level.ok_or(Denied::OutOfScope)? })
    }

    /// What whoever has a signed link to a message may read: its Agent's rows, while the Agent and
    /// all above it are active; `None` also where there is no such message.
    pub async fn bearer(&self, message: MessageId) -> Result<Option<Scope>, StoreError> {
        let agent = self.store.agent_of_message(message).await?;
        Ok(agent.map(|agent| Scope::subtree(agent, AccountType::Agent)))
    }

    /// The scope of the operator on the command line: an account, and everything below it.
    pub const fn of_operator(account: &Account) -> Scope {
        Scope::subtree(account.id, account.kind)
    }

    /// What the caller acts on: itself, or `requested` if it lies in its hierarchy. What the key
    /// cannot do whatever the target is, is said before anything is looked up.
    pub async fn target(
        &self,
        caller: &Caller,
        requested: Option<AccountId>,
        need: Need,
    ) -> Result<Target, Denied> {
        if let Some(own) = itself(caller, requested, need) {
            return Ok(own);
        }
        if caller.level < need.scope {
            return Err(Denied::TooNarrow(need.scope));
        }
        if need.administrators && !caller.is_administrator() {
            return Err(Denied::NotAdministrator);
        }
        if need.unrestricted && caller.permitted().is_some() {
            return Err(Denied::Restricted);
        }
        let found = match requested {
            None => (caller.account.clone(), None),
            Some(id) if id == caller.account.id => (caller.account.clone(), None),
            Some(id) if self.together => {
                let found = self.store.account_or_member_with_others(id).await?;
                found.ok_or(Denied::OutOfScope)?
            }
            Some(id) => self.store.account_or_member(id).await?.ok_or(Denied::OutOfScope)?,
        };
        let (account, member) = found;
        if !caller.reaches(&account) {
            return Err(Denied::OutOfScope);
        }
        let stranger = member.as_ref().is_some_and(|one| Some(one) != caller.member.as_ref());
        let scope = Scope::subtree(account.id, account.kind);
        let scope = match caller.permitted() {
            None => scope,
            Some(agents) if agents.contains(&account.id) => scope,
            // Of what lies between itself and its Agents, and of other members, it learns nothing.
            Some(_) if account.id != caller.account.id || stranger => {
                return Err(Denied::OutOfScope);
            }
            Some(_) if need.effect == Effect::Write || !need.narrows || member.is_some() => {
                return Err(Denied::Restricted);
            }
            Some(agents) => scope.only(agents.to_vec()),
        };
        let fits = match &member {
            Some(_) => need.target == TargetType::Identity,
            None => need.target.takes(account.kind),
        };
        if !fits {
            return Err(Denied::WrongTarget(need.target));
        }
        // Last of all, so that of an account out of reach nothing is learnt by it.
        if let Some(feature) = need.feature {
            self.has(&account, feature).await?;
        }
        Ok(Target { account, member, scope })
    }
}

/// A member that acts on itself: nothing that it is restricted by lies there.
fn itself(caller: &Caller, requested: Option<AccountId>, need: Need) -> Option<Target> {
    let member = caller.member.as_ref()?;
    let own = requested.is_none_or(|id| id.get() == member.id.get());
    (own && need.target == TargetType::Identity).then(|| Target {
        account: caller.account.clone(),
        member: Some(member.clone()),
        // Of the account's rows none are the member's own.
        scope: Scope::subtree(caller.account.id, caller.account.kind).only(Vec::new()),
    })
}
