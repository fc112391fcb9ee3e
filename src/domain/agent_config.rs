//! The configurations of an Agent: staging (being edited), default (live), and the saved versions.
//! `app/agents/schema.rs` defines the fields and their values; here they are only names with
//! values.

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::clock::Timestamp;
use super::words::words;

words! {
    ConfigKind {
        /// Being edited; has no effect until published.
        Staging = "staging",
        /// Published last.
        Default = "default",
    }
}

/// The fields that are set, with their values; none is null.
pub type Config = Map<String, Value>;

/// Id of one configuration (`agentConfigId`, `campaignId` in the API): `camp` and 32 hexadecimal
/// digits. Staging and default have different ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigId(pub Uuid);

const PREFIX: &str = "camp";

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    #[error(
        "a configuration id must be \"{PREFIX}\" followed by 32 hexadecimal digits, as answers \
         show it"
    )]
    Config,
    #[error("a version id must be a whole number, as answers show it")]
    Version,
}

impl fmt::Display for ConfigId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0.as_simple())
    }
}

/// Accepts only the spelling that the API returns.
impl FromStr for ConfigId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let id = text.strip_prefix(PREFIX).and_then(|rest| Uuid::try_parse(rest).ok()).map(Self);
        id.filter(|id| id.to_string() == text).ok_or(IdError::Config)
    }
}

/// Id of one version of an Agent: the Unix time of its creation in milliseconds, or the next free
/// number after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionId(i64);

impl VersionId {
    /// Returns None unless `millis` is in 1 … 2^53−1.
    pub const fn new(millis: i64) -> Option<Self> {
        if millis >= 1 && millis <= super::id::LARGEST_USER_ID { Some(Self(millis)) } else { None }
    }

    pub const fn get(self) -> i64 {
        self.0
    }

    /// Title of a version that publishing makes.
    pub fn automatic_title(self) -> String {
        format!("Auto-{}", self.0)
    }
}

impl fmt::Display for VersionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Accepts only the canonical decimal, so that each version has one spelling.
impl FromStr for VersionId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let id = text.parse().ok().and_then(Self::new).filter(|id| id.to_string() == text);
        id.ok_or(IdError::Version)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct AgentConfig {
    pub id: ConfigId,
    pub kind: ConfigKind,
    pub config: Config,
    /// Grows with each change; 0 before the first one.
    pub revision: i64,
    pub updated_at: Timestamp,
}

impl AgentConfig {
    /// Tells whether the configuration was ever written.
    pub const fn is_set(&self) -> bool {
        self.revision > 0
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct AgentConfigs {
    pub staging: AgentConfig,
    pub live: AgentConfig,
}

impl AgentConfigs {
    pub const fn of(&self, kind: ConfigKind) -> &AgentConfig {
        match kind {
            ConfigKind::Staging => &self.staging,
            ConfigKind::Default => &self.live,
        }
    }

    /// Returns the fields that a change of staging starts from: staging, or the live ones while
    /// nothing was ever staged.
    pub const fn base(&self) -> &Config {
        if self.staging.is_set() { &self.staging.config } else { &self.live.config }
    }

    /// Revisions to compare at commit, for a change that was decided from these configurations.
    pub const fn revisions(&self) -> Revisions {
        Revisions { staging: self.staging.revision, live: self.live.revision }
    }
}

/// Revisions of both configurations of an Agent; 0 where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Revisions {
    pub staging: i64,
    pub live: i64,
}

/// A saved configuration that can be restored.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentVersion {
    pub id: VersionId,
    pub title: String,
    /// Made by publishing; later automatic versions replace it.
    pub automatic: bool,
    pub created_at: Timestamp,
    /// None if the query left it out.
    pub snapshot: Option<Config>,
}

/// Returns `config` with `fields` applied: a value replaces the old one, null removes the field,
/// fields that are not named stay.
#[must_use]
pub fn merged(config: &Config, fields: &Config) -> Config {
    let mut merged = config.clone();
    for (name, value) in fields {
        match value {
            Value::Null => drop(merged.remove(name)),
            value => drop(merged.insert(name.clone(), value.clone())),
        }
    }
    merged
}

/// Names of the fields that differ between two configurations, sorted.
pub fn differing(one: &Config, other: &Config) -> Vec<String> {
    let mut names: Vec<&String> = one.keys().chain(other.keys()).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().filter(|name| one.get(*name) != other.get(*name)).cloned().collect()
}

/// The apps that a configuration assigns, as `app/version`. The store refuses one that the Agent
/// has not installed.
pub fn assigned(config: &Config) -> impl Iterator<Item = String> {
    let apps = config.get("apps").and_then(Value::as_array).into_iter().flatten();
    apps.filter_map(|one| {
        let text = |name| one.get(name).and_then(Value::as_str);
        Some(format!("{}/{}", text("appId")?, text("version")?))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(value: Value) -> Config {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn ids_have_one_spelling() {
        let id = ConfigId(Uuid::from_u128(0x931829b5857f));
        assert_eq!(id.to_string(), "camp00000000000000000000931829b5857f");
        assert_eq!(id.to_string().parse(), Ok(id));
        for bad in [
            "00000000000000000000931829b5857f",
            "camp00000000000000000000931829B5857F",
            "camp00000000-0000-0000-0000-931829b5857f",
            "camp",
            "",
        ] {
            assert!(bad.parse::<ConfigId>().is_err(), "{bad:?}");
        }
        assert_eq!("1750194180352".parse(), Ok(VersionId(1_750_194_180_352)));
        for bad in ["0", "-1", "01", "+1", "1.0", "", "9007199254740992"] {
            assert!(bad.parse::<VersionId>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_is_omitted_stays_and_null_takes_away() {
        let old = config(json!({ "title": "a", "links": ["x", "y"], "timezone": "UTC" }));
        let new = config(json!({ "links": ["z"], "timezone": null, "agentLang": "multi" }));
        let both = merged(&old, &new);
        assert_eq!(both, config(json!({ "title": "a", "links": ["z"], "agentLang": "multi" })));
        assert_eq!(differing(&old, &both), ["agentLang", "links", "timezone"]);
        assert_eq!(differing(&both, &both), [""; 0]);
    }

    #[test]
    fn apps_are_assigned_by_id_and_version() {
        let two = config(json!({ "apps": [
            { "appId": "a", "version": "v1", "instructions": "x" },
            { "appId": "b", "version": "v2", "instructions": "x", "enabled": false },
        ] }));
        assert_eq!(assigned(&two).collect::<Vec<_>>(), ["a/v1", "b/v2"]);
        assert_eq!(assigned(&Config::new()).count(), 0);
    }
}
