//! The log of the server: the section `[log]`.

use clap::Args;
use serde::Deserialize;

#[derive(Args, Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LogOptions {
    /// Log JSON lines instead of text, and say so that the server is ready
    // Other ids than the flag `--json` of commands.
    #[arg(
        id = "log-json", long, env = "GATEPOST_LOG_JSON", num_args = 0..=1,
        default_missing_value = "true", require_equals = true, value_name = "BOOL"
    )]
    pub json: Option<bool>,
    /// The least level of the server's own lines in the log [default: info]
    #[arg(id = "log-level", long, env = "GATEPOST_LOG_LEVEL", value_name = "LEVEL")]
    pub level: Option<LogLevel>,
    /// Levels by room, such as warn,gatepost::smtp=debug; goes before the level
    #[arg(id = "log-filter", long, env = "GATEPOST_LOG", value_name = "FILTER")]
    pub filter: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

impl LogOptions {
    pub(super) fn or(self, file: Self) -> Self {
        Self {
            json: self.json.or(file.json),
            level: self.level.or(file.level),
            // A filter goes before a level, and a flag before the file.
            filter: self.filter.or_else(|| file.filter.filter(|_| self.level.is_none())),
        }
    }
}
