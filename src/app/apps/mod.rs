//! Apps on Agents, integrations of accounts, and what features accounts have.
//!
//! The catalogue is the operator's (`policies/apps.toml`); what is installed, and with which settings,
//! is the account's. Settings that are secret are sealed by the vault before the store sees them, and
//! no answer is ever made from what it opens: of a secret it is shown that it is there. What a request
//! leaves out stays, null takes it away.

mod error;
mod features;
mod installed;
mod integrations;
mod settings;

use std::sync::Arc;

pub use error::AppsError;
pub use installed::{Dependency, State};
pub use settings::{is_kept, present};

use self::settings::Merged;
use crate::app::vault::{Vault, VaultError};
use crate::domain::app::AppRecord;
use crate::domain::audit::Actor;
use crate::domain::id::Mint;
use crate::rules::{App, AppRules};
use crate::store::{Store, StoreError};
use serde_json::{Map, Value};

/// How often a change is made anew because somebody else made one at the same time.
const TRIES: usize = 4;

/// The use cases.
#[derive(Clone, Debug)]
pub struct Apps {
    store: Store,
    vault: Vault,
    mint: Mint,
    rules: Arc<AppRules>,
    /// The actor recorded in the audit log.
    actor: Actor,
}

done_by!(Apps, mint.clock());

impl Apps {
    /// Over this store; what is secret is sealed by this vault.
    pub const fn new(store: Store, vault: Vault, mint: Mint, rules: Arc<AppRules>) -> Self {
        Self { store, vault, mint, rules, actor: Actor::OPERATOR }
    }

    /// The catalogue, and what features are worth.
    pub fn rules(&self) -> &AppRules {
        &self.rules
    }

    /// The record with these fields laid on it, its secrets sealed, and the names of what changed;
    /// `strict`: no field but those of the catalogue's `app`.
    fn laid_on(
        &self,
        record: &AppRecord,
        (app, strict): (Option<&App>, bool),
        fields: &Map<String, Value>,
    ) -> Result<(AppRecord, Vec<String>), AppsError> {
        let mut given = settings::given(app, strict, fields, self.rules.limits.max_value_bytes)?;
        given.take_new_secrets(app, record);
        // Secrets that nobody touches are not opened.
        let known = if given.touches_secrets(record) { self.opened(record, &given)? } else { None };
        let Merged { mut record, secrets, changed } = given.laid_on(record, known)?;
        if record.shown.len().saturating_add(record.secrets.len()) > self.rules.limits.max_fields {
            let most = self.rules.limits.max_fields;
            return Err(AppsError::TooManyFields { most });
        }
        let mut octets = Value::Object(record.shown.clone()).to_string().len();
        if let Some(secrets) = secrets {
            let text = Value::Object(secrets).to_string();
            octets = octets.saturating_add(text.len());
            record.sealed = match record.secrets.is_empty() {
                true => None,
                false => Some(self.vault.seal(&record.place(), text.as_bytes())?),
            };
        } else if let Some(sealed) = &record.sealed {
            octets = octets.saturating_add(sealed.len());
        }
        if octets > self.rules.limits.max_data_bytes {
            let most = self.rules.limits.max_data_bytes;
            return Err(AppsError::TooLarge { most });
        }
        Ok((record, changed))
    }

    /// The secrets of a record. Those that no key of ours opens are as good as none where each of
    /// them is given anew, or taken away.
    fn opened(
        &self,
        record: &AppRecord,
        given: &settings::Given,
    ) -> Result<Option<Map<String, Value>>, AppsError> {
        let Some(sealed) = &record.sealed else { return Ok(Some(Map::new())) };
        let open = match self.vault.open(&record.place(), sealed) {
            Ok(open) => open,
            Err(VaultError::NotOurs) if given.replaces_all(&record.secrets) => {
                return Ok(Some(Map::new()));
            }
            Err(error) => return Err(error.into()),
        };
        let corrupt = |_| StoreError::Corrupt {
            table: "app_records",
            detail: "what the vault opened is no object".to_owned(),
        };
        Ok(Some(serde_json::from_slice(open.expose()).map_err(corrupt)?))
    }
}
