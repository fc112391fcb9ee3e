//! Computer Agents: workers that take an Agent's mail as work, and the sessions in which they do.
//!
//! A worker runs elsewhere. It follows `GET /events`, or a webhook calls it; what it knows of a
//! conversation it keeps under the key of its session, which each event about a message carries.
//! Here is the record that stands for it: whether it is provisioned, and what it is configured
//! with. Nothing here runs anything.

mod config;
mod error;
mod health;
mod patch;
mod sessions;

use std::time::Duration;

use serde_json::{Map, Value};

pub use self::error::ComputerError;
pub use self::health::{Health, Way};
pub use self::sessions::{Behind, RoomSessions};

use crate::app::vault::Vault;
use crate::domain::account::Account;
use crate::domain::audit::Actor;
use crate::domain::computer::{Computer, ComputerState, Configuration};
use crate::domain::fault::{Fault, join};
use crate::domain::id::{AccountId, Mint};
use crate::domain::scope::Scope;
use crate::domain::secret::MASK;
use crate::store::{ChangedComputer, ComputerChange, Store, cut};

/// How often a change is tried that somebody else's got in the way of.
const TRIES: usize = 5;
/// Long enough to name a worker; bounds what every list shows.
const LONGEST_NAME: usize = 200;

/// The use cases.
#[derive(Clone, Debug)]
pub struct Computers {
    store: Store,
    vault: Vault,
    mint: Mint,
    /// A key that was not used for so long brings no worker anything.
    idle: Duration,
    /// The actor recorded in the audit log.
    actor: Actor,
}

/// What a request writes of a record.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// `Some(None)` for none.
    pub name: Option<Option<String>>,
    /// The whole configuration, as it is written.
    pub config: Option<Map<String, Value>>,
}

done_by!(Computers, mint.clock());

impl Computers {
    /// Over this store; what is secret is sealed by this vault, and a key that was not used for
    /// `idle` counts for nothing.
    pub const fn new(store: Store, vault: Vault, mint: Mint, idle: Duration) -> Self {
        Self { store, vault, mint, idle, actor: Actor::OPERATOR }
    }

    /// An Agent's computer.
    pub async fn show(&self, agent: AccountId) -> Result<Computer, ComputerError> {
        self.store.computer(agent).await?.ok_or(ComputerError::NoComputer)
    }

    /// An Agent's computer while it is provisioned.
    pub async fn provisioned(&self, agent: AccountId) -> Result<Computer, ComputerError> {
        let found = self.store.computer(agent).await?;
        let found = found.filter(|one| one.state == ComputerState::Provisioned);
        found.ok_or(ComputerError::NotProvisioned)
    }

    /// Up to `limit` computers in `scope` behind this Agent's, and whether there are more.
    pub async fn list(
        &self,
        scope: &Scope,
        after: Option<AccountId>,
        limit: u32,
    ) -> Result<(Vec<Computer>, bool), ComputerError> {
        let mut found = self.store.list_computers(scope, after, limit.saturating_add(1)).await?;
        let more = cut(&mut found, limit);
        Ok((found, more))
    }

    /// Makes the record of an Agent's computer, which provisions nothing yet.
    pub async fn create(
        &self,
        agent: &Account,
        written: Written,
    ) -> Result<Computer, ComputerError> {
        let nothing = Configuration::default();
        let change = self.change(agent.id, &nothing, (written, "/config"))?;
        if !self.store.create_computer(agent, &change, self.act()).await? {
            return Err(ComputerError::Exists);
        }
        self.show(agent.id).await
    }

    /// Changes the record: what is given takes the place of what was there, a configuration whole.
    /// With `revision` it must be the one that is there.
    pub async fn update(
        &self,
        agent: AccountId,
        revision: Option<i64>,
        written: Written,
    ) -> Result<Computer, ComputerError> {
        let whole = |_: &Map<String, Value>| Ok(written.clone());
        self.change_by(agent, revision, (whole, "/config")).await
    }

    /// Merges a patch into the configuration of this revision.
    pub async fn patch(
        &self,
        agent: AccountId,
        revision: i64,
        (patch, replaced): (&Map<String, Value>, &[&str]),
    ) -> Result<Computer, ComputerError> {
        let merged = |known: &Map<String, Value>| {
            let config = patch::merged(known, patch, replaced)?;
            Ok(Written { name: None, config: Some(config) })
        };
        self.change_by(agent, Some(revision), (merged, "/patch")).await
    }

    /// `written` makes the change of the configuration that is there; `at` is the place of the
    /// configuration in what was sent.
    async fn change_by(
        &self,
        agent: AccountId,
        revision: Option<i64>,
        (written, at): (impl Fn(&Map<String, Value>) -> Result<Written, ComputerError>, &str),
    ) -> Result<Computer, ComputerError> {
        for _ in 0..TRIES {
            let known = self.show(agent).await?;
            if revision.is_some_and(|revision| revision != known.revision) {
                return Err(ComputerError::Stale { current: known.revision });
            }
            let change =
                self.change(agent, &known.config, (written(&known.config.authored)?, at))?;
            let changing = self.store.change_computer(agent, known.revision, &change, self.act());
            match changing.await? {
                ChangedComputer::Done(new) => return Ok(*new),
                ChangedComputer::Missing => return Err(ComputerError::NoComputer),
                // Somebody else changed it meanwhile; whoever named a revision hears of it.
                ChangedComputer::Stale(_) => {}
            }
        }
        Err(ComputerError::Busy)
    }

    /// Provisions an Agent's computer, and makes its record where there is none; answers whether
    /// that changed anything.
    pub async fn provision(&self, agent: &Account) -> Result<(Computer, bool), ComputerError> {
        Ok(self.store.provision_computer(agent, self.act()).await?)
    }

    /// Deprovisions it; with `wipe` it forgets its configuration, secrets and all.
    pub async fn deprovision(
        &self,
        agent: AccountId,
        wipe: bool,
    ) -> Result<(Computer, bool), ComputerError> {
        let done = self.store.deprovision_computer(agent, wipe, self.act()).await?;
        done.ok_or(ComputerError::NoComputer)
    }

    /// Removes the record with all that it holds.
    pub async fn remove(&self, agent: AccountId) -> Result<(), ComputerError> {
        let done = self.store.remove_computer(agent, self.act()).await?;
        done.then_some(()).ok_or(ComputerError::NoComputer)
    }

    /// The schema of configurations.
    pub fn schema() -> Value {
        config::schema(MASK)
    }

    /// What is in effect of a configuration, secrets masked.
    pub fn effective(computer: &Computer) -> Map<String, Value> {
        config::effective(&computer.config.authored)
    }

    /// What is to be stored: checked, with its secrets sealed and a mask in the place of each.
    fn change(
        &self,
        agent: AccountId,
        known: &Configuration,
        (written, at): (Written, &str),
    ) -> Result<ComputerChange, ComputerError> {
        let bad = |c: char| c.is_control();
        if let Some(Some(name)) = &written.name
            && (name.len() > LONGEST_NAME || name.chars().any(bad))
        {
            return Err(ComputerError::Name);
        }
        let Some(mut authored) = written.config else {
            return Ok(ComputerChange { name: written.name, ..ComputerChange::default() });
        };
        let faults = config::faults(&authored, at);
        if !faults.is_empty() {
            return Err(ComputerError::Configuration(faults));
        }
        let (sealed, secrets_changed) = self.seal(agent, known, (&mut authored, at))?;
        let names = known.authored.keys().chain(authored.keys());
        let differs = |name: &&String| {
            known.authored.get(*name) != authored.get(*name)
                || secrets_changed && name.as_str() == config::SECRETS
        };
        let changed: std::collections::BTreeSet<String> = names.filter(differs).cloned().collect();
        let changed = changed.into_iter().collect();
        let config = Some(Configuration { authored, sealed });
        Ok(ComputerChange { name: written.name, config, changed })
    }

    /// Takes the secrets out of a configuration. One that is the mask keeps the value that it has.
    /// Answers them sealed, and whether any of them is new.
    fn seal(
        &self,
        agent: AccountId,
        known: &Configuration,
        (authored, at): (&mut Map<String, Value>, &str),
    ) -> Result<(Option<Vec<u8>>, bool), ComputerError> {
        let Some(Value::Object(secrets)) = authored.get_mut(config::SECRETS) else {
            return Ok((None, false));
        };
        if secrets.is_empty() {
            return Ok((None, false));
        }
        let place = format!("computer/{agent}");
        let kept = |value: &&Value| value.as_str() == Some(MASK);
        let unchanged = secrets.values().filter(kept).count();
        let mut before = Map::new();
        if let (Some(sealed), true) = (&known.sealed, unchanged > 0) {
            let open = self.vault.open(&place, sealed)?;
            before = serde_json::from_slice(open.expose()).unwrap_or_default();
        }
        let mut whole = Map::new();
        for (name, value) in secrets.iter_mut() {
            let new = std::mem::replace(value, MASK.into());
            let new = match kept(&&new) {
                false => new,
                true => before.get(name).cloned().ok_or_else(|| {
                    let detail =
                        format!("is {MASK}, which keeps a value, but none exists: send the value");
                    let at = join(&join(at, config::SECRETS), name);
                    ComputerError::Configuration(vec![Fault::new(&at, detail)])
                })?,
            };
            whole.insert(name.clone(), new);
        }
        let sealed = self.vault.seal(&place, Value::Object(whole).to_string().as_bytes())?;
        let is_new = unchanged < secrets.len();
        Ok((Some(sealed), is_new))
    }
}
