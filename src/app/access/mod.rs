//! Decides every right: the only place that answers "may I?" (contract §4, Scope of a key).
//!
//! A token becomes a [`Caller`]. A caller, a requested target and the [`need::Need`] of the
//! operation become a [`Target`], with the [`Scope`] that the store asks for. No route reads a
//! target on its own, and no other room makes a scope. A failure of the store is [`Denied::Store`].
//! The one lock, in `usage`, is in memory and never held across an await.

mod caller;
mod credential;
mod features;
pub mod identity;
pub mod need;
mod sessions;
pub mod token;
mod usage;

use std::sync::Arc;

pub use caller::{Caller, Target, identity_of};
pub use credential::Credential;
pub use sessions::{ConsoleLink, LinkError, SignedIn, Visitor, csrf, csrf_matches};

use crate::domain::account::{Account, AccountType};
use crate::domain::clock::{Clock, Timestamp};
use crate::domain::feature::{Feature, Offer};
use crate::domain::id::{AccountId, MessageId, Mint};
use crate::domain::scope::Scope;
use crate::rules::{AccessRules, AppRules, ConsoleRules};
use crate::store::{KeyHolder, Store, StoreError};
use identity::Level;
use need::{Effect, Need, TargetType};
use usage::Usage;

#[derive(Debug, thiserror::Error)]
pub enum Denied {
    /// No key was sent, or the key is unknown, revoked or expired, or its account is inactive or
    /// deleted, or its member was removed. One error for all, so that a caller learns nothing about
    /// keys.
    #[error("the key is unknown, revoked, expired, or belongs to an inactive account")]
    NoKey,
    /// The target lies outside the caller's hierarchy, or does not exist: one error for both.
    #[error("the key does not reach this account")]
    OutOfScope,
    #[error("this operation needs a key of {} or above", .0.account_type())]
    TooNarrow(Level),
    #[error(
        "this operation needs an administrator, and the member or the worker who has this key is \
         not one"
    )]
    NotAdministrator,
    #[error(
        "the member who owns this key is restricted to some Agents (permittedAccountIds), and this \
         operation acts on more: set targetAccountId to one of them"
    )]
    Restricted,
    #[error(
        "this key expires at {0} and cannot make a key that lives longer: send an expiresAt no \
         later than that"
    )]
    Outlives(Timestamp),
    /// The target is in reach, but the operation does not apply to its type.
    #[error("this operation needs {}: set targetAccountId to one", .0.words())]
    WrongTarget(TargetType),
    /// The target is in reach, but lacks the feature that the operation is about.
    #[error(
        "the account does not have the feature {:?}: an account above it that has the feature can \
         assign it with POST /features/assign",
        .0.as_str()
    )]
    NoFeature(Feature),
    /// The caller's own account lacks the feature `api`: its keys open nothing.
    #[error(
        "the account of this key does not have the feature \"api\", so its keys open nothing: an \
         account above it can assign the feature with POST /features/assign, or give the account a \
         plan that has it"
    )]
    NoApi,
    #[error(
        "this operation needs the key of the Agent's provisioned worker, which the operator makes \
         with gatepost key create --worker, again each time that the computer is provisioned"
    )]
    NotWorker,
    #[error("this server releases no secrets: ask the operator to run it with --release-secrets")]
    ReleasesNothing,
    #[error(
        "an account cannot assign features to itself: ask an account above it, such as its partner \
         or reseller"
    )]
    OwnFeatures,
    #[error("your account does not have the feature {:?}, and so cannot assign it", .0.as_str())]
    NotHeld(Feature),
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Clone, Debug)]
pub struct Access {
    store: Store,
    clock: Clock,
    /// Makes the secrets of console sessions.
    mint: Mint,
    usage: Usage,
    console: ConsoleRules,
    /// Most keys in force of one owner.
    max_keys: u64,
    /// Says which features accounts have to which nothing was assigned.
    offer: Arc<Offer>,
    /// Whether the operator lets secrets be released to workers.
    releases_secrets: bool,
    /// Whether look-ups share one statement with other callers that ask at the same time.
    shares_reads: bool,
}

impl Access {
    /// Uses the clock of `mint` for the expiry of keys, and `rules` for how often the use of a key
    /// is noted, and how long console sessions last.
    pub fn new(store: Store, mint: Mint, rules: &AccessRules, apps: &AppRules) -> Self {
        Self {
            usage: Usage::new(store.clone(), rules.keys.last_used()),
            clock: mint.clock().clone(),
            console: rules.console,
            max_keys: rules.keys.max_per_owner,
            releases_secrets: false,
            shares_reads: false,
            store,
            mint,
            offer: apps.offer().into(),
        }
    }

    /// Lets secrets be released to provisioned workers, if the operator says so.
    #[must_use]
    pub fn releasing_secrets(self, releases_secrets: bool) -> Self {
        Self { releases_secrets, ..self }
    }

    /// Returns a copy for followers of the event log: it uses the connections of `store`, and each
    /// look-up shares one statement with others that are made at the same time.
    #[must_use]
    pub fn for_followers(&self, store: Store) -> Self {
        Self { store, shares_reads: true, ..self.clone() }
    }

    /// Returns the caller that owns this token, or [`Denied::NoKey`]. Every request reads the
    /// store, in one statement: a key that another gateway revoked a moment ago opens nothing here.
    pub async fn caller(&self, token: Option<&str>) -> Result<Caller, Denied> {
        // A malformed token takes as long as an unknown one: the store is asked all the same.
        let hash = token.and_then(token::hash).unwrap_or(token::NOBODYS);
        let found = match self.shares_reads {
            true => self.store.key_holder_with_others(hash).await?,
            false => self.store.key_holder(hash).await?,
        };
        self.caller_of(found.ok_or(Denied::NoKey)?, self.clock.now())
    }

    /// Returns the caller behind a key that is valid but for its expiry, and notes its use.
    fn caller_of(&self, holder: KeyHolder, now: Timestamp) -> Result<Caller, Denied> {
        let KeyHolder { key, account, member, has_api } = holder;
        if key.is_expired(now) {
            return Err(Denied::NoKey);
        }
        self.usage.seen(&key, now);
        let level = identity::level(&identity_of(&account, member.as_ref()));
        let level = level.ok_or(Denied::OutOfScope)?;
        Ok(Caller { key, account, member, level, has_api, way_in: None })
    }

    /// Returns the rows that the holder of a signed link to this message may read: the rows of the
    /// message's Agent. None if there is no such message, or if the Agent or an account above it is
    /// inactive.
    pub async fn link_scope(&self, message: MessageId) -> Result<Option<Scope>, StoreError> {
        let agent = self.store.agent_of_message(message).await?;
        Ok(agent.map(|agent| Scope::subtree(agent, AccountType::Agent)))
    }

    /// Returns the scope of the operator on the command line: an account and everything below it.
    pub const fn of_operator(account: &Account) -> Scope {
        Scope::subtree(account.id, account.kind)
    }

    /// Returns the target of a request: the caller itself, or `requested` if it lies in the
    /// caller's hierarchy. Errors that hold for every target are returned before anything is looked
    /// up, and a missing feature only after the target is in reach: so no error tells of accounts
    /// out of reach.
    pub async fn target(
        &self,
        caller: &Caller,
        requested: Option<AccountId>,
        need: Need,
    ) -> Result<Target, Denied> {
        if let Some(own) = own_membership(caller, requested, need) {
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
        if need.worker && !self.releases_secrets {
            return Err(Denied::ReleasesNothing);
        }
        if need.worker && caller.key.worker_job.is_none() {
            return Err(Denied::NotWorker);
        }
        let found = match requested {
            None => (caller.account.clone(), None),
            Some(id) if id == caller.account.id => (caller.account.clone(), None),
            Some(id) if self.shares_reads => {
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
            // A restricted caller learns nothing of accounts between itself and its Agents, nor of
            // other members.
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
        // Last, so that nothing is learnt about an account out of reach.
        if let Some(feature) = need.feature {
            self.has(&account, feature).await?;
        }
        if need.worker {
            self.is_worker(caller, &account).await?;
        }
        Ok(Target { account, member, scope })
    }

    /// Fails unless the caller's key was made for the worker that this account has now.
    async fn is_worker(&self, caller: &Caller, account: &Account) -> Result<(), Denied> {
        let computer = self.store.computer(account.id).await?;
        let both = computer.zip(caller.key.worker_job);
        let is_it = both.is_some_and(|(computer, job)| computer.is_provisioned_by(job));
        is_it.then_some(()).ok_or(Denied::NotWorker)
    }
}

/// Returns the target if a member acts on itself: its level, role and Agents do not matter then.
fn own_membership(caller: &Caller, requested: Option<AccountId>, need: Need) -> Option<Target> {
    let member = caller.member.as_ref()?;
    let own = requested.is_none_or(|id| id.get() == member.id.get());
    (own && need.target == TargetType::Identity).then(|| Target {
        account: caller.account.clone(),
        member: Some(member.clone()),
        // The member owns no row of the account.
        scope: Scope::subtree(caller.account.id, caller.account.kind).only(Vec::new()),
    })
}
