//! Computer Agents: workers that handle an Agent's mail, and the sessions in which they do.
//!
//! A worker runs elsewhere. It reads `GET /events`, or a webhook calls it. It keeps its knowledge
//! of a conversation under the session's key, which each event about a message carries. This room
//! keeps the worker's record: its state, its configuration and its sealed secrets, which it releases
//! to the worker where the operator lets it. Nothing here runs a worker.

mod config;
mod error;
mod health;
mod patch;
mod release;
mod sessions;

use std::time::Duration;

use serde_json::{Map, Value};

pub use self::error::ComputerError;
pub use self::health::{Health, WebhookHealth};
pub use self::release::{Released, Wanted};
pub use self::sessions::{Behind, RoomSessions};

use crate::app::vault::{self, Vault};
use crate::domain::account::Account;
use crate::domain::audit::Actor;
use crate::domain::computer::{Computer, ComputerState, Configuration};
use crate::domain::fault::{Fault, join};
use crate::domain::id::{AccountId, Mint};
use crate::domain::scope::Scope;
use crate::domain::secret::MASK;
use crate::store::{ComputerChange, ComputerOutcome, Store, truncate_page};

/// Attempts at one change before it fails with `Busy`.
const TRIES: usize = 5;
/// In bytes: long enough to name a worker; bounds each list.
const LONGEST_NAME: usize = 200;

#[derive(Clone, Debug)]
pub struct Computers {
    store: Store,
    vault: Vault,
    mint: Mint,
    /// An API key unused for longer does not count as in use.
    idle: Duration,
    actor: Actor,
}

/// The fields of a record that a request writes.
#[derive(Clone, Debug, Default)]
pub struct WrittenFields {
    /// `Some(None)` removes the name.
    pub name: Option<Option<String>>,
    /// The whole configuration; replaces the existing one.
    pub config: Option<Map<String, Value>>,
}

done_by!(Computers, mint.clock());

impl Computers {
    /// Secrets are sealed by `vault`. A key unused for longer than `idle` does not count as in use.
    pub const fn new(store: Store, vault: Vault, mint: Mint, idle: Duration) -> Self {
        Self { store, vault, mint, idle, actor: Actor::OPERATOR }
    }

    pub async fn show(&self, agent: AccountId) -> Result<Computer, ComputerError> {
        self.store.computer(agent).await?.ok_or(ComputerError::NoComputer)
    }

    /// Returns an Agent's computer. Fails with `NotProvisioned` unless it is provisioned.
    pub async fn provisioned(&self, agent: AccountId) -> Result<Computer, ComputerError> {
        let found = self.store.computer(agent).await?;
        let found = found.filter(|one| one.state == ComputerState::Provisioned);
        found.ok_or(ComputerError::NotProvisioned)
    }

    /// Lists up to `limit` computers in `scope` whose Agents' ids are above `after`. Returns
    /// whether more follow.
    pub async fn list(
        &self,
        scope: &Scope,
        after: Option<AccountId>,
        limit: u32,
    ) -> Result<(Vec<Computer>, bool), ComputerError> {
        let mut found = self.store.list_computers(scope, after, limit.saturating_add(1)).await?;
        let more = truncate_page(&mut found, limit);
        Ok((found, more))
    }

    /// Creates the record of an Agent's computer, not provisioned.
    pub async fn create(
        &self,
        agent: &Account,
        written: WrittenFields,
    ) -> Result<Computer, ComputerError> {
        let nothing = Configuration::default();
        let change = self.change(agent.id, &nothing, written, "/config")?;
        if !self.store.create_computer(agent, &change, self.act()).await? {
            return Err(ComputerError::Exists);
        }
        self.show(agent.id).await
    }

    /// Replaces these parts of the record; a configuration is replaced whole. With a `revision`,
    /// fails with `Stale` unless the record has it.
    pub async fn update(
        &self,
        agent: AccountId,
        revision: Option<i64>,
        written: WrittenFields,
    ) -> Result<Computer, ComputerError> {
        let whole = |_: &Map<String, Value>| Ok(written.clone());
        self.change_config(agent, revision, whole, "/config").await
    }

    /// Merges a patch into the configuration; parts at the JSON Pointers `replaced` are replaced
    /// whole. Fails with `Stale` unless it has this revision.
    pub async fn patch(
        &self,
        agent: AccountId,
        revision: i64,
        patch: &Map<String, Value>,
        replaced: &[&str],
    ) -> Result<Computer, ComputerError> {
        let merged = |known: &Map<String, Value>| {
            let config = patch::merged(known, patch, replaced)?;
            Ok(WrittenFields { name: None, config: Some(config) })
        };
        self.change_config(agent, Some(revision), merged, "/patch").await
    }

    /// Reads, applies `written` to the configuration, and writes unless another request changed it;
    /// then tries again. `at` is the JSON Pointer of the configuration in the request.
    async fn change_config(
        &self,
        agent: AccountId,
        revision: Option<i64>,
        written: impl Fn(&Map<String, Value>) -> Result<WrittenFields, ComputerError>,
        at: &str,
    ) -> Result<Computer, ComputerError> {
        for _ in 0..TRIES {
            let known = self.show(agent).await?;
            if revision.is_some_and(|revision| revision != known.revision) {
                return Err(ComputerError::Stale { current: known.revision });
            }
            let written = written(&known.config.authored)?;
            let change = self.change(agent, &known.config, written, at)?;
            let changing = self.store.change_computer(agent, known.revision, &change, self.act());
            match changing.await? {
                ComputerOutcome::Done(new) => return Ok(*new),
                ComputerOutcome::Missing => return Err(ComputerError::NoComputer),
                // Changed meanwhile: the next round decides again, or fails if a revision was
                // given.
                ComputerOutcome::Stale(_) => {}
            }
        }
        Err(ComputerError::Busy)
    }

    /// Provisions an Agent's computer, and creates its record if there is none. Returns whether
    /// anything changed.
    pub async fn provision(&self, agent: &Account) -> Result<(Computer, bool), ComputerError> {
        Ok(self.store.provision_computer(agent, self.act()).await?)
    }

    /// Deprovisions a computer; with `wipe` also deletes its configuration and secrets. Returns
    /// whether anything changed.
    pub async fn deprovision(
        &self,
        agent: AccountId,
        wipe: bool,
    ) -> Result<(Computer, bool), ComputerError> {
        let done = self.store.deprovision_computer(agent, wipe, self.act()).await?;
        done.ok_or(ComputerError::NoComputer)
    }

    pub async fn remove(&self, agent: AccountId) -> Result<(), ComputerError> {
        let done = self.store.remove_computer(agent, self.act()).await?;
        done.then_some(()).ok_or(ComputerError::NoComputer)
    }

    pub fn schema() -> Value {
        config::schema(MASK)
    }

    /// Returns the effective configuration, secrets masked.
    pub fn effective(computer: &Computer) -> Map<String, Value> {
        config::effective(&computer.config.authored)
    }

    /// Checks a change and seals its secrets; the configuration keeps the mask in their place.
    fn change(
        &self,
        agent: AccountId,
        known: &Configuration,
        written: WrittenFields,
        at: &str,
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
        let (sealed, secrets_changed) = self.seal(agent, known, &mut authored, at)?;
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

    /// Replaces each secret in a configuration by the mask. A sent mask keeps the existing value,
    /// and fails if there is none. Returns the sealed secrets, and whether any was sent anew.
    fn seal(
        &self,
        agent: AccountId,
        known: &Configuration,
        authored: &mut Map<String, Value>,
        at: &str,
    ) -> Result<(Option<Vec<u8>>, bool), ComputerError> {
        let Some(Value::Object(secrets)) = authored.get_mut(config::SECRETS) else {
            return Ok((None, false));
        };
        if secrets.is_empty() {
            return Ok((None, false));
        }
        let place = place(agent);
        let kept = |value: &&Value| value.as_str() == Some(MASK);
        let unchanged = secrets.values().filter(kept).count();
        let mut before = Map::new();
        if let (Some(sealed), true) = (&known.sealed, unchanged > 0) {
            let open = self.vault.open(&place, sealed)?;
            before = vault::fields(&open, "computers")?;
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

/// Identity that the vault binds the secrets of a computer to.
fn place(agent: AccountId) -> String {
    format!("computer/{agent}")
}
