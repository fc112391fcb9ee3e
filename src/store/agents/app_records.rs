//! Records that accounts keep of apps. Their secrets are sealed on the way in and on the way out.

use std::collections::BTreeSet;

use serde_json::Value;

use super::audited_commit::audit_note;
use super::config_rows::{find_configs, lock_agent};
use crate::domain::agent_config::{Config, ConfigKind, assigned};
use crate::domain::app::{AppRecord, AppRef, Use};
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::id::AccountId;
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Row, Statement, sql};
use crate::store::tenancy::accounts;
use crate::store::tenancy::app_rows::{self, AppRecordInsertion, names};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppRemoval {
    Removed,
    /// The app was not installed.
    Missing,
    /// This configuration of the Agent assigns the app; nothing was removed.
    Assigned(ConfigKind),
}

const SELECT: &str = "SELECT account_id, kind, app_id, version, settings, secret_names, sealed,
                             revision, created_at, updated_at
                      FROM app_records WHERE account_id = $1 AND kind = $2";

impl Base {
    /// Returns all records of an account for this use, in the order of apps and versions.
    pub async fn app_records(
        &self,
        account: AccountId,
        of: Use,
    ) -> Result<Vec<AppRecord>, StoreError> {
        let mut query = sql(SELECT).bind(account).bind(of.as_str());
        query.push(" ORDER BY app_id, version");
        query.fetch_all(self.reader()).await?.iter().map(record).collect()
    }

    pub async fn app_record(
        &self,
        account: AccountId,
        of: Use,
        app: &AppRef,
    ) -> Result<Option<AppRecord>, StoreError> {
        let mut query = about(SELECT, account, of, app);
        query.push(" AND app_id = $3 AND version = $4");
        query.fetch_optional(self.reader()).await?.as_ref().map(record).transpose()
    }

    /// Inserts a record, unless the account has one of this app or `most` of this use.
    pub async fn insert_app_record(
        &self,
        new: &AppRecord,
        most: u64,
        act: Act<'_>,
    ) -> Result<AppRecordInsertion, StoreError> {
        transact!(self, async |tx| {
            gates::take_turn(&mut tx, "apps", new.account.get()).await?;
            let inserted = app_rows::insert(&mut tx, new, most).await?;
            if inserted == AppRecordInsertion::Inserted {
                let names = new.shown.keys().chain(&new.secrets);
                let changes: Vec<Change> = names.map(|name| change_of(new.of, name)).collect();
                let deed = match new.of {
                    Use::Installed => Deed::AppInstalled,
                    Use::Integration => Deed::IntegrationUpdated,
                };
                let note = audit_note(new.account, deed, &new.app, &changes);
                self.commit_audited(tx, act, note).await?;
            }
            Ok(inserted)
        })
    }

    /// Replaces the record with the revision of `new`, and raises the revision. Deletes an
    /// integration that has nothing left. `changed` names the changed fields. Returns false if
    /// another request changed or removed the record meanwhile; nothing is written then.
    pub async fn update_app_record(
        &self,
        new: &AppRecord,
        changed: &[String],
        act: Act<'_>,
    ) -> Result<bool, StoreError> {
        transact!(self, async |tx| {
            accounts::passed(&mut tx, new.account).await?;
            if replace(&mut tx, new, act.at).await? == 0 {
                return Ok(false);
            }
            let changes: Vec<Change> = changed.iter().map(|name| change_of(new.of, name)).collect();
            let deed = match new.of {
                Use::Installed => Deed::AppUpdated,
                Use::Integration => Deed::IntegrationUpdated,
            };
            self.commit_audited(tx, act, audit_note(new.account, deed, &new.app, &changes)).await?;
            Ok(true)
        })
    }

    /// Removes an app from an Agent, with its secrets.
    pub async fn remove_app(
        &self,
        agent: AccountId,
        app: &AppRef,
        act: Act<'_>,
    ) -> Result<AppRemoval, StoreError> {
        transact!(self, async |tx| {
            // Queues, so that no configuration comes to assign the app meanwhile.
            lock_agent(&mut tx, agent).await?;
            let configs = find_configs(tx.on(), agent).await?;
            let name = app.to_string();
            let mut both = configs.iter().flat_map(|configs| [&configs.staging, &configs.live]);
            if let Some(one) = both.find(|one| assigned(&one.config).any(|app| app == name)) {
                return Ok(AppRemoval::Assigned(one.kind));
            }
            let text = "DELETE FROM app_records
                        WHERE account_id = $1 AND kind = $2 AND app_id = $3 AND version = $4";
            let removed = about(text, agent, Use::Installed, app).execute(tx.on()).await?;
            if removed == 0 {
                return Ok(AppRemoval::Missing);
            }
            self.commit_audited(tx, act, audit_note(agent, Deed::AppRemoved, app, &[])).await?;
            Ok(AppRemoval::Removed)
        })
    }
}

/// Makes a statement about one record: binds the account, the use, the app and the version.
fn about(text: &'static str, account: AccountId, of: Use, app: &AppRef) -> Statement {
    sql(text).bind(account).bind(of.as_str()).bind(app.id()).bind(app.version())
}

/// Whether the record is still as it was read. Locks it until the transaction ends.
pub async fn is_current(tx: &mut Transaction, known: &AppRecord) -> Result<bool, StoreError> {
    const SELECT: &str = "SELECT revision FROM app_records
         WHERE account_id = $1 AND kind = $2 AND app_id = $3 AND version = $4 AND revision = $5";
    let query = about(SELECT, known.account, known.of, &known.app).bind(known.revision);
    Ok(query.locking("FOR SHARE").fetch_optional(tx.on()).await?.is_some())
}

/// Returns the number of rows replaced: 0 if the revision has changed.
async fn replace(tx: &mut Transaction, new: &AppRecord, now: Timestamp) -> Result<u64, StoreError> {
    const DELETE: &str = "DELETE FROM app_records
         WHERE account_id = $1 AND kind = $2 AND app_id = $3 AND version = $4 AND revision = $5";
    const UPDATE: &str = "UPDATE app_records SET settings = $6, secret_names = $7, sealed = $8,
                                revision = revision + 1, updated_at = $9
         WHERE account_id = $1 AND kind = $2 AND app_id = $3 AND version = $4 AND revision = $5";
    let statement = |text| about(text, new.account, new.of, &new.app).bind(new.revision);
    if new.of == Use::Integration && new.is_bare() {
        return statement(DELETE).execute(tx.on()).await;
    }
    statement(UPDATE)
        .bind(Value::Object(new.shown.clone()).to_string())
        .bind(names(&new.secrets))
        .bind(new.sealed.as_deref())
        .bind(now)
        .execute(tx.on())
        .await
}

/// Returns the change of a field without its value: any field may hold a secret.
fn change_of(of: Use, name: &str) -> Change {
    let fields = match of {
        Use::Installed => "settings",
        Use::Integration => "appData",
    };
    Change::made(fields, name)
}

fn record(row: &Row) -> Result<AppRecord, StoreError> {
    let columns = Columns { table: "app_records", row };
    let (id, version) = (columns.text("app_id")?, columns.text("version")?);
    let app = AppRef::new(&id, &version).ok_or_else(|| columns.corrupt(format!("{id} {version}")));
    Ok(AppRecord {
        account: columns.account("account_id")?,
        of: columns.word("kind")?,
        app: app?,
        shown: columns.json("settings")?,
        secrets: columns.json("secret_names")?,
        sealed: columns.optional_bytes("sealed")?,
        revision: columns.integer("revision")?,
        created_at: columns.time("created_at")?,
        updated_at: columns.time("updated_at")?,
    })
}

/// Returns the apps that a configuration assigns but its Agent has not installed. The caller holds
/// the Agent's queue, so that no app is removed before the transaction ends.
pub async fn not_installed(
    tx: &mut Transaction,
    agent: AccountId,
    config: &Config,
) -> Result<Vec<String>, StoreError> {
    let mut missing: BTreeSet<String> = assigned(config).collect();
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sql("SELECT app_id, version FROM app_records WHERE account_id = $1 AND kind = $2")
        .bind(agent)
        .bind(Use::Installed.as_str())
        .fetch_all(tx.on())
        .await?;
    for row in &rows {
        let columns = Columns { table: "app_records", row };
        missing.remove(&format!("{}/{}", columns.text("app_id")?, columns.text("version")?));
    }
    Ok(missing.into_iter().collect())
}
