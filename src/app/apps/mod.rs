//! Apps on Agents, integrations of accounts, and features of accounts.
//!
//! The operator owns the catalogue (`policies/apps.toml`); the account owns what is installed and
//! its settings. The vault seals secrets before the store gets them. No response contains a secret:
//! it only shows whether one is set. In a request, absent fields stay and null removes a field. A
//! change is merged into the record read before, and written only if that has not changed; else it
//! is merged again, a few times, and then fails with `Busy`.

mod error;
mod features;
mod installed;
mod integrations;
mod settings;

use std::sync::Arc;

pub use error::AppsError;
pub use installed::{Dependency, State};
pub use settings::present;

use self::settings::{Merged, SortedFields};
use crate::app::vault::{self, Vault, VaultError};
use crate::domain::app::AppRecord;
use crate::domain::audit::Actor;
use crate::domain::id::Mint;
use crate::rules::{App, AppRules};
use crate::store::Store;
use serde_json::{Map, Value};

/// Attempts at one change before it fails with `Busy`.
const TRIES: usize = 4;

#[derive(Clone, Debug)]
pub struct Apps {
    store: Store,
    vault: Vault,
    mint: Mint,
    rules: Arc<AppRules>,
    actor: Actor,
}

done_by!(Apps, mint.clock());

impl Apps {
    pub const fn new(store: Store, vault: Vault, mint: Mint, rules: Arc<AppRules>) -> Self {
        Self { store, vault, mint, rules, actor: Actor::OPERATOR }
    }

    /// The catalogue, and the defaults of features.
    pub fn rules(&self) -> &AppRules {
        &self.rules
    }

    /// Merges fields into a record and seals its secrets. Returns the record and the names of the
    /// changed fields. With `strict`, fails on fields that the catalogue's `app` lacks.
    fn merged(
        &self,
        record: &AppRecord,
        app: Option<&App>,
        strict: bool,
        fields: &Map<String, Value>,
    ) -> Result<(AppRecord, Vec<String>), AppsError> {
        let limits = &self.rules.limits;
        let mut sent = SortedFields::of(fields, app, strict, limits.max_value_bytes)?;
        sent.take_new_secrets(app, record);
        // Opens the secrets only if a field touches them.
        let known = if sent.touches_secrets(record) { self.opened(record, &sent)? } else { None };
        let Merged { mut record, secrets, changed } = sent.merged_into(record, known)?;
        if record.shown.len().saturating_add(record.secrets.len()) > limits.max_fields {
            return Err(AppsError::TooManyFields { most: limits.max_fields });
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
        if octets > limits.max_data_bytes {
            return Err(AppsError::TooLarge { most: limits.max_data_bytes });
        }
        Ok((record, changed))
    }

    /// Opens the secrets of a record. If no key of the vault opens them, returns an empty object if
    /// `sent` replaces or removes every one, and else fails with `NotOurs`.
    fn opened(
        &self,
        record: &AppRecord,
        sent: &SortedFields,
    ) -> Result<Option<Map<String, Value>>, AppsError> {
        let Some(sealed) = &record.sealed else { return Ok(Some(Map::new())) };
        let open = match self.vault.open(&record.place(), sealed) {
            Ok(open) => open,
            Err(VaultError::NotOurs) if sent.replaces_all(&record.secrets) => {
                return Ok(Some(Map::new()));
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Some(vault::fields(&open, "app_records")?))
    }
}
