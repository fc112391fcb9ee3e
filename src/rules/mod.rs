//! `policies/*.toml`: every rule and number that an operator may want to change.
//!
//! The files are compiled in as the defaults, so each commented file is its documentation. A folder
//! of the same files overrides them key by key. An unknown key, a wrong type or a number out of
//! range fails at the start, with its file and path. (A policy is an Agent's; these are the
//! operator's rules.) Only [`Rules::load`] reads files.

/// Gives numbers of a file as the durations that they mean: `name = unit(field);`.
macro_rules! durations {
    ($($(#[$doc:meta])* $name:ident = $unit:ident($field:ident);)+) => {
        $($(#[$doc])* pub const fn $name(&self) -> std::time::Duration {
            $crate::rules::$unit(self.$field)
        })+
    };
}

/// Checks numbers of a section against their ranges. Returns the first error.
macro_rules! ranges {
    ($file:literal, $section:ident of $numbers:expr, { $($field:ident: $range:expr;)+ }) => {
        [$($crate::rules::within(
            $file,
            concat!(stringify!($section), ".", stringify!($field)),
            $numbers.$field,
            $range,
        )),+]
        .into_iter()
        .collect::<Result<(), RulesError>>()
    };
}

mod access;
mod acme;
mod apps;
mod inbound;
mod intake;
mod outcomes;
mod received;
mod relays;
mod retention;
mod smtp;
mod store;
mod templates;
mod tls_reports;
mod traces;
mod waits;
mod webhooks;

use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;

pub use access::{
    AccessRules, AgentRules, ConsoleRules, Events as EventRules, Limits as AccessLimits,
    Logs as LogRules, Rates as AccessRates, SearchLimits, Threads as ThreadRules,
};
pub use acme::{AcmeRules, Challenges as ChallengeRules};
pub use apps::{App, AppLimits, AppRules, FeatureRule, Setting, SettingType};
pub use inbound::{Application as ApplicationRules, InboundRules};
pub use intake::{
    Alignment, Directory as DirectoryRules, IntakeRules, Limits as IntakeLimits,
    Rates as IntakeRates,
};
pub use relays::{Forward as ForwardRules, RelayRules};
pub use retention::{Erasure as ErasureRules, Pass as RetentionPass, RetainedKind, RetentionRules};
pub use smtp::{BareLineEnds, Memory as SmtpMemory, Pace as SmtpPace, SmtpRules, Tls as TlsRules};
pub use store::{
    Connections as StoreConnections, Deliveries, Gateways, Grouping, Objects, Share, StoreRules,
};
pub use templates::TemplateRules;
pub use tls_reports::TlsReportRules;
pub use traces::TraceRules;
pub use webhooks::{Payload as PayloadRules, WebhookRules};

#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    pub intake: IntakeRules,
    pub smtp: SmtpRules,
    pub webhooks: WebhookRules,
    pub access: AccessRules,
    pub store: StoreRules,
    pub retention: RetentionRules,
    pub acme: AcmeRules,
    pub apps: AppRules,
    pub inbound: InboundRules,
    pub relays: RelayRules,
    pub traces: TraceRules,
}

#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path}: {source}")]
    Parse { path: PathBuf, source: Box<toml::de::Error> },
    #[error("{file}: {key} is {value}, expected {low} to {high}")]
    Range { file: &'static str, key: Cow<'static, str>, value: u64, low: u64, high: u64 },
    #[error("{file}: {what}")]
    Wrong { file: &'static str, what: String },
    #[error("{path}: is not one of the rule files ({expected})")]
    UnknownFile { path: PathBuf, expected: String },
}

/// The rule files: each is a field of [`Rules`], and validates itself.
macro_rules! files {
    ($($name:ident),+) => {
        const FILES: &[&str] = &[$(concat!(stringify!($name), ".toml")),+];

        impl Rules {
            fn read(folder: Option<&Path>) -> Result<Self, RulesError> {
                Ok(Self { $($name: read(
                    folder,
                    concat!(stringify!($name), ".toml"),
                    include_str!(concat!("../../policies/", stringify!($name), ".toml")),
                )?),+ })
            }

            fn validate(&self) -> Result<(), RulesError> {
                $(self.$name.validate()?;)+
                Ok(())
            }
        }
    };
}

files!(intake, smtp, webhooks, access, store, retention, acme, apps, inbound, relays, traces);

impl Rules {
    /// Returns the compiled-in rules.
    pub fn defaults() -> Result<Self, RulesError> {
        Self::from_folder(None)
    }

    /// Reads the rules: `folder` overrides the compiled-in ones key by key.
    pub fn load(folder: &Path) -> Result<Self, RulesError> {
        Self::from_folder(Some(folder))
    }

    fn from_folder(folder: Option<&Path>) -> Result<Self, RulesError> {
        if let Some(folder) = folder {
            refuse_unknown_files(folder)?;
        }
        let mut rules = Self::read(folder)?;
        rules.store.objects.above_bytes = rules.intake.raw.object_above_bytes;
        rules.store.deliveries.breaker = rules.webhooks.breaker.numbers();
        rules.store.deliveries.lease = rules.webhooks.dispatcher.lease();
        rules.store.deliveries.longest_wait = seconds(rules.webhooks.retries.longest_seconds());
        rules.validate()?;
        rules.store.offer = rules.apps.offer().into();
        Ok(rules)
    }
}

/// Fails on unknown files: a misspelt name would silently change nothing.
fn refuse_unknown_files(folder: &Path) -> Result<(), RulesError> {
    let cannot_read = |source| RulesError::Read { path: folder.to_owned(), source };
    for entry in std::fs::read_dir(folder).map_err(cannot_read)? {
        let path = entry.map_err(cannot_read)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let known = FILES.contains(&name) || name.ends_with(".cases.toml");
        if name.ends_with(".toml") && !known {
            let expected = FILES.join(", ");
            return Err(RulesError::UnknownFile { path, expected });
        }
    }
    Ok(())
}

fn read<T: DeserializeOwned>(
    folder: Option<&Path>,
    file: &'static str,
    default: &'static str,
) -> Result<T, RulesError> {
    let parse_error =
        |path: PathBuf| move |source| RulesError::Parse { path, source: Box::new(source) };
    let mut table: toml::Table =
        default.parse().map_err(parse_error(PathBuf::from("policies").join(file)))?;
    let mut origin = PathBuf::from("policies").join(file);
    if let Some(path) = folder.map(|folder| folder.join(file)).filter(|path| path.exists()) {
        let text = std::fs::read_to_string(&path)
            .map_err(|source| RulesError::Read { path: path.clone(), source })?;
        let overrides: toml::Table = text.parse().map_err(parse_error(path.clone()))?;
        merge(&mut table, overrides);
        origin = path;
    }
    table.try_into().map_err(parse_error(origin))
}

/// Merges `over` into `base`: tables by key, values by replacement.
fn merge(base: &mut toml::Table, over: toml::Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(toml::Value::Table(base)), toml::Value::Table(over)) => merge(base, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// Fails on a number outside its range.
fn within(
    file: &'static str,
    key: impl Into<Cow<'static, str>>,
    value: impl TryInto<u64>,
    range: RangeInclusive<u64>,
) -> Result<(), RulesError> {
    let value = value.try_into().unwrap_or(u64::MAX);
    if range.contains(&value) {
        return Ok(());
    }
    let (low, high) = range.into_inner();
    Err(RulesError::Range { file, key: key.into(), value, low, high })
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

const fn millis(number: u64) -> Duration {
    Duration::from_millis(number)
}

const fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

const fn minutes(number: u64) -> Duration {
    seconds(number.saturating_mul(60))
}

const fn hours(number: u64) -> Duration {
    minutes(number.saturating_mul(60))
}

const fn days(number: u64) -> Duration {
    hours(number.saturating_mul(24))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(file: &str, text: &str) -> Result<Rules, RulesError> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(file), text).unwrap();
        Rules::load(folder.path())
    }

    #[test]
    fn the_compiled_in_rules_are_valid() {
        Rules::defaults().unwrap();
    }

    #[test]
    fn a_folder_overrides_key_by_key() {
        let rules = load("smtp.toml", "[limits]\nmax_recipients = 7\n").unwrap();
        assert_eq!(rules.smtp.limits.max_recipients, 7);
        let defaults = Rules::defaults().unwrap();
        assert_eq!(rules.smtp.limits.max_errors, defaults.smtp.limits.max_errors);
        assert_eq!(rules.intake, defaults.intake);
    }

    #[test]
    fn mistakes_are_refused_by_name() {
        for (file, text, expected) in [
            ("smtp.toml", "[limits]\nmax_recipient = 7\n", "max_recipient"),
            (
                "smtp.toml",
                "[limits]\nmax_recipients = 0\n",
                "limits.max_recipients is 0, expected 1",
            ),
            ("smtp.toml", "[limits]\nmax_recipients = \"many\"\n", "invalid type"),
            ("smpt.toml", "", "smpt.toml"),
            ("intake.toml", "[authentication]\nalignment = \"loose\"\n", "loose"),
        ] {
            let error = load(file, text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
