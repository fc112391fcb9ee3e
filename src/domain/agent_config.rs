//! What an Agent is configured to be: one configuration that is worked on, one that is in force, and
//! those that are kept to come back to. What fields there are, and what each may hold, is said in
//! `app/agents/schema.rs`; here they are names with values.

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::clock::Timestamp;
use super::words::words;

words! {
    /// Which of an Agent's two configurations.
    ConfigKind {
        /// The one that is worked on; it changes nothing before it is published.
        Staging = "staging",
        /// The one that was published last.
        Default = "default",
    }
}

/// The fields that somebody set, each with its value; none of them is null.
pub type Config = Map<String, Value>;

/// Names one configuration (the interface's `agentConfigId`, `campaignId`): `camp` and 32
/// hexadecimal digits. Staging and default have different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigId(pub Uuid);

const PREFIX: &str = "camp";

/// Why a text is no id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    #[error(
        "the id of a configuration is \"{PREFIX}\" and 32 hexadecimal digits, as answers show it"
    )]
    Config,
    #[error("the id of a version is a whole number, as answers show it")]
    Version,
}

impl fmt::Display for ConfigId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0.as_simple())
    }
}

/// Accepts the one spelling that answers show.
impl FromStr for ConfigId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let id = text.strip_prefix(PREFIX).and_then(|rest| Uuid::try_parse(rest).ok()).map(Self);
        id.filter(|id| id.to_string() == text).ok_or(IdError::Config)
    }
}

/// Names one version of an Agent: the millisecond of Unix time in which it was made, or the next one
/// that names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionId(i64);

impl VersionId {
    /// The id, when `millis` lies in 1 … 2^53−1.
    pub const fn new(millis: i64) -> Option<Self> {
        if millis >= 1 && millis <= super::id::LARGEST_USER_ID { Some(Self(millis)) } else { None }
    }

    /// The number itself.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// What publishing calls the version that it makes.
    pub fn automatic_title(self) -> String {
        format!("Auto-{}", self.0)
    }
}

impl fmt::Display for VersionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Accepts the canonical decimal only, so that one version has one spelling.
impl FromStr for VersionId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let id = text.parse().ok().and_then(Self::new).filter(|id| id.to_string() == text);
        id.ok_or(IdError::Version)
    }
}

/// One configuration of an Agent.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentConfig {
    pub id: ConfigId,
    pub kind: ConfigKind,
    pub config: Config,
    /// Grows with each change; 0 as long as there was none.
    pub revision: i64,
    pub updated_at: Timestamp,
}

impl AgentConfig {
    /// Whether anything was ever written here.
    pub const fn is_set(&self) -> bool {
        self.revision > 0
    }
}

/// Both configurations of an Agent.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentConfigs {
    pub staging: AgentConfig,
    pub live: AgentConfig,
}

impl AgentConfigs {
    /// The one of this kind.
    pub const fn of(&self, kind: ConfigKind) -> &AgentConfig {
        match kind {
            ConfigKind::Staging => &self.staging,
            ConfigKind::Default => &self.live,
        }
    }

    /// What a change of staging begins with: what is in force, while nothing was ever staged.
    pub const fn base(&self) -> &Config {
        if self.staging.is_set() { &self.staging.config } else { &self.live.config }
    }

    /// What a change that was decided by these rests on.
    pub const fn revisions(&self) -> Revisions {
        Revisions { staging: self.staging.revision, live: self.live.revision }
    }
}

/// The revisions of both configurations of an Agent; of one that has none, 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Revisions {
    pub staging: i64,
    pub live: i64,
}

/// A configuration that is kept to come back to.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentVersion {
    pub id: VersionId,
    pub title: String,
    /// Made by publishing, and replaced by later ones of these.
    pub automatic: bool,
    pub created_at: Timestamp,
    /// Absent where it was not asked for.
    pub snapshot: Option<Config>,
}

/// `config` with these fields: each replaces what was there, null takes it away, what is not named
/// stays.
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

/// The names of the fields in which two configurations differ, in their order.
pub fn differing(one: &Config, other: &Config) -> Vec<String> {
    let mut names: Vec<&String> = one.keys().chain(other.keys()).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().filter(|name| one.get(*name) != other.get(*name)).cloned().collect()
}

/// The apps that a configuration assigns, as `app/version`: they are its Agent's, installed.
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
