//! Catalogue apps that are installed on Agents.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Apps, AppsError, TRIES};
use crate::domain::account::Account;
use crate::domain::app::{AppRecord, AppRef, Use};
use crate::domain::feature::{Feature, Held};
use crate::rules::App;
use crate::store::{AppRecordInsertion, AppRemoval};

/// A requirement of an app beside its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dependency {
    /// Another app, in any version, whose own required settings are set.
    App {
        id: String,
        met: bool,
    },
    Feature {
        feature: Feature,
        met: bool,
    },
}

impl Dependency {
    pub const fn is_met(&self) -> bool {
        match self {
            Self::App { met, .. } | Self::Feature { met, .. } => *met,
        }
    }
}

/// The state of an app for one account.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub app: AppRef,
    /// The entry of the catalogue; `None` if the app was withdrawn.
    pub known: Option<App>,
    /// The settings, if the app is installed.
    pub record: Option<AppRecord>,
    /// Required settings without a value.
    pub missing: Vec<String>,
    pub dependencies: Vec<Dependency>,
}

impl State {
    /// Whether the app is installed and has everything it requires.
    pub fn is_complete(&self) -> bool {
        self.record.is_some()
            && self.known.is_some()
            && self.missing.is_empty()
            && self.dependencies.iter().all(Dependency::is_met)
    }
}

impl Apps {
    /// Lists the apps that can be installed or are installed, by id and version. `held` has the
    /// features of the account.
    pub async fn list(&self, account: &Account, held: &[Held]) -> Result<Vec<State>, AppsError> {
        let installed = self.store.app_records(account.id, Use::Installed).await?;
        let mut all: BTreeMap<AppRef, Option<AppRecord>> = BTreeMap::new();
        let offered = self.rules.apps().filter(|(_, app)| app.offered);
        all.extend(offered.map(|(name, _)| (name, None)));
        all.extend(installed.iter().map(|one| (one.app.clone(), Some(one.clone()))));
        let state = |(app, record)| self.state(app, record, &installed, held);
        Ok(all.into_iter().map(state).collect())
    }

    /// Returns an installed app, or fails with `NotInstalled`.
    pub async fn installed(
        &self,
        account: &Account,
        app: &AppRef,
        held: &[Held],
    ) -> Result<State, AppsError> {
        let installed = self.store.app_records(account.id, Use::Installed).await?;
        let record = installed.iter().find(|one| one.app == *app).cloned();
        let record = record.ok_or(AppsError::NotInstalled)?;
        Ok(self.state(app.clone(), Some(record), &installed, held))
    }

    /// Installs an app of the catalogue with these settings; required ones may follow later.
    pub async fn install(
        &self,
        account: &Account,
        app: &AppRef,
        settings: &Map<String, Value>,
        held: &[Held],
    ) -> Result<State, AppsError> {
        let known =
            self.rules.app(app).filter(|known| known.offered).ok_or(AppsError::NotOffered)?;
        let lacking = |feature: &Feature| !has(held, *feature);
        if let Some(feature) = known.features().find(lacking) {
            return Err(AppsError::Feature(feature));
        }
        let now = self.mint.clock().now();
        let empty = AppRecord::empty(account.id, Use::Installed, app.clone(), now).begun();
        let (record, _) = self.merged(&empty, Some(known), true, settings)?;
        let most = self.rules.limits.max_installed;
        match self.store.insert_app_record(&record, most, self.act()).await? {
            AppRecordInsertion::Inserted => self.installed(account, app, held).await,
            AppRecordInsertion::Exists => Err(AppsError::Installed(app.clone())),
            AppRecordInsertion::TooMany => Err(AppsError::TooManyApps { most }),
        }
    }

    /// Changes these settings of an installed app; absent ones stay.
    pub async fn update(
        &self,
        account: &Account,
        app: &AppRef,
        settings: &Map<String, Value>,
        held: &[Held],
    ) -> Result<State, AppsError> {
        for _ in 0..TRIES {
            let before = self.store.app_record(account.id, Use::Installed, app).await?;
            let before = before.ok_or(AppsError::NotInstalled)?;
            let Some(known) = self.rules.app(app) else {
                return Err(AppsError::Withdrawn(app.clone()));
            };
            let (next, changed) = self.merged(&before, Some(known), true, settings)?;
            if changed.is_empty()
                || self.store.update_app_record(&next, &changed, self.act()).await?
            {
                return self.installed(account, app, held).await;
            }
        }
        Err(AppsError::Busy)
    }

    pub async fn remove(&self, account: &Account, app: &AppRef) -> Result<(), AppsError> {
        match self.store.remove_app(account.id, app, self.act()).await? {
            AppRemoval::Removed => Ok(()),
            AppRemoval::Missing => Err(AppsError::NotInstalled),
            AppRemoval::Assigned(kind) => Err(AppsError::Assigned { app: app.clone(), kind }),
        }
    }

    fn state(
        &self,
        app: AppRef,
        record: Option<AppRecord>,
        installed: &[AppRecord],
        held: &[Held],
    ) -> State {
        let known = self.rules.app(&app).cloned();
        let missing = record.as_ref().map(|record| missing_settings(known.as_ref(), record));
        let mut dependencies = Vec::new();
        if let Some(known) = &known {
            dependencies.extend(known.requires_apps.iter().map(|id| {
                let works = |one: &AppRecord| {
                    one.app.id() == id && missing_settings(self.rules.app(&one.app), one).is_empty()
                };
                Dependency::App { id: id.clone(), met: installed.iter().any(works) }
            }));
            dependencies.extend(
                known
                    .features()
                    .map(|feature| Dependency::Feature { feature, met: has(held, feature) }),
            );
        }
        State { app, known, record, missing: missing.unwrap_or_default(), dependencies }
    }
}

fn missing_settings(known: Option<&App>, record: &AppRecord) -> Vec<String> {
    let settings = known.into_iter().flat_map(|known| &known.settings);
    let missing = settings.filter(|(name, setting)| setting.required && !record.has(name));
    missing.map(|(name, _)| name.clone()).collect()
}

fn has(held: &[Held], feature: Feature) -> bool {
    held.iter().any(|one| one.feature == feature && one.enabled)
}
