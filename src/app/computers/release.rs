//! Releases secrets in plain to the provisioned worker of an Agent (threats S): `app::access` has
//! decided that it may. The audit entry is durable before a value leaves this room.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::config::{SECRETS, shown};
use super::{ComputerError, Computers, TRIES, place};
use crate::app::vault;
use crate::domain::app::{AppRecord, AppRef, Use};
use crate::domain::audit::Change;
use crate::domain::computer::Computer;
use crate::domain::id::{AccountId, KeyId};
use crate::store::{Release, ReleaseNote};

/// Most names of one request: bounds its audit entry.
pub(super) const MOST_NAMED: usize = 50;

/// The names of secrets in the configuration of the computer, and of apps.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub secrets: BTreeSet<String>,
    pub apps: BTreeSet<AppRef>,
}

/// Values in plain. Without Debug, so that no log shows them.
pub struct Released {
    pub secrets: Map<String, Value>,
    /// All settings of each app.
    pub apps: Vec<(AppRef, Map<String, Value>)>,
}

impl Computers {
    /// Returns all that is wanted, or fails and tells nothing. `asks` is the key, and the job that
    /// provisioned its worker; fails with `NotWorker` once another job followed it, and with `NoRight`
    /// if the key lost its right meanwhile.
    pub async fn release(
        &self,
        agent: AccountId,
        asks: (KeyId, Uuid),
        wanted: &Wanted,
    ) -> Result<Released, ComputerError> {
        let (key, job) = asks;
        let named = wanted.secrets.len().saturating_add(wanted.apps.len());
        if !(1..=MOST_NAMED).contains(&named) {
            return Err(ComputerError::Named);
        }
        for _ in 0..TRIES {
            let computer = self.provisioned(agent).await?;
            let mut records = self.store.app_records(agent, Use::Installed).await?;
            records.retain(|record| wanted.apps.contains(&record.app));
            let released = self.opened(&computer, &records, wanted)?;
            let names = names(wanted, &records);
            let revision = computer.revision;
            let release = Release { agent, key, job, revision, apps: &records };
            match self.store.record_release(release, &names, self.act()).await? {
                ReleaseNote::Recorded => return Ok(released),
                ReleaseNote::NoWorker => return Err(ComputerError::NotWorker),
                ReleaseNote::NoRight => return Err(ComputerError::NoRight),
                // Another request changed or removed one of them meanwhile.
                ReleaseNote::Changed => {}
            }
        }
        Err(ComputerError::Busy)
    }

    fn opened(
        &self,
        computer: &Computer,
        records: &[AppRecord],
        wanted: &Wanted,
    ) -> Result<Released, ComputerError> {
        let absent = |app: &&AppRef| records.iter().all(|record| record.app != **app);
        if let Some(app) = wanted.apps.iter().find(absent) {
            return Err(ComputerError::NoApp(app.clone()));
        }
        let mut secrets = Map::new();
        if let Some(first) = wanted.secrets.first() {
            let sealed = computer.config.sealed.as_deref();
            let sealed = sealed.ok_or_else(|| ComputerError::NoSecret(shown(first).to_owned()))?;
            let open = self.vault.open(&place(computer.agent), sealed)?;
            let mut all = vault::fields(&open, "computers")?;
            for name in &wanted.secrets {
                let value = all.remove(name);
                let value = value.ok_or_else(|| ComputerError::NoSecret(shown(name).to_owned()))?;
                secrets.insert(name.clone(), value);
            }
        }
        let apps = records.iter().map(|record| Ok((record.app.clone(), self.settings(record)?)));
        Ok(Released { secrets, apps: apps.collect::<Result<_, ComputerError>>()? })
    }

    /// Returns all settings of an app, its secrets in plain.
    fn settings(&self, record: &AppRecord) -> Result<Map<String, Value>, ComputerError> {
        let mut settings = record.shown.clone();
        if let Some(sealed) = &record.sealed {
            let open = self.vault.open(&record.place(), sealed)?;
            settings.extend(vault::fields(&open, "app_records")?);
        }
        Ok(settings)
    }
}

/// Returns what is released for the audit log: names, never values.
fn names(wanted: &Wanted, records: &[AppRecord]) -> Vec<Change> {
    let secrets = wanted.secrets.iter().map(|name| Change::made(SECRETS, name));
    let apps = records.iter().flat_map(|record| {
        let settings = record.secrets.iter();
        let settings = settings.map(|name| Change::made(&format!("settings/{}", record.app), name));
        std::iter::once(Change::made("app", &record.app)).chain(settings)
    });
    secrets.chain(apps).collect()
}
