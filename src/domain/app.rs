//! Data that an account keeps for an app: an Agent's installation and its settings, or the
//! account's integration.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use super::clock::Timestamp;
use super::id::AccountId;
use super::words::words;

/// Longest app id in bytes (v2: `appId`, `integrationSlug`); bounds the size of lists.
const LONGEST_ID: usize = 64;
/// Longest version in bytes (`v1`, `2026-11-01`).
const LONGEST_VERSION: usize = 32;

/// One version of an app, such as `crm` `v1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppRef {
    id: String,
    version: String,
}

impl AppRef {
    /// Returns None if the id or the version is not a name: letters, digits, `-`, `_` and `.`,
    /// beginning with a letter or a digit, at most 64 bytes (id) and 32 bytes (version).
    pub fn new(id: &str, version: &str) -> Option<Self> {
        let fits = is_name(id, LONGEST_ID) && is_name(version, LONGEST_VERSION);
        fits.then(|| Self { id: id.to_owned(), version: version.to_owned() })
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn version(&self) -> &str {
        &self.version
    }
}

impl fmt::Display for AppRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.id, self.version)
    }
}

/// Tells whether a text can name an app, a version or one of their settings.
pub fn is_name(text: &str, longest: usize) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c);
    text.len() <= longest
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(plain)
}

words! {
    /// Purpose of a record.
    Use {
        /// An Agent's installation of the app.
        Installed = "app",
        /// An account's integration with the app.
        Integration = "integration",
    }
}

/// The record of one account for one app version and one use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppRecord {
    pub account: AccountId,
    pub of: Use,
    pub app: AppRef,
    /// Values that are not secret.
    pub shown: Map<String, Value>,
    /// Names of the secrets.
    pub secrets: BTreeSet<String>,
    /// The secrets, sealed by the vault; None if there are none.
    pub sealed: Option<Vec<u8>>,
    /// Grows with each change.
    pub revision: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl AppRecord {
    /// Returns a record without values.
    pub fn empty(account: AccountId, of: Use, app: AppRef, now: Timestamp) -> Self {
        Self {
            account,
            of,
            app,
            shown: Map::new(),
            secrets: BTreeSet::new(),
            sealed: None,
            revision: 1,
            created_at: now,
            updated_at: now,
        }
    }

    /// Returns this record with a first revision from its creation time, so that a record that is
    /// removed and made again repeats no revision that somebody has read.
    #[must_use]
    pub fn begun(self) -> Self {
        Self { revision: self.created_at.millis().max(1), ..self }
    }

    /// Tells whether a value of this name exists, secret or not.
    pub fn has(&self, name: &str) -> bool {
        self.shown.contains_key(name) || self.secrets.contains(name)
    }

    pub fn is_bare(&self) -> bool {
        self.shown.is_empty() && self.secrets.is_empty()
    }

    /// Identity that the vault binds the secrets to: they cannot be opened for another account or
    /// use.
    pub fn place(&self) -> String {
        format!("{}/{}/{}", self.of, self.account, self.app)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_has_a_name_that_fits_into_a_path() {
        for (id, version) in [("crm", "v1"), ("someappId", "2026-11-01"), ("a.b_c-d", "1.2")] {
            let app = AppRef::new(id, version).unwrap();
            assert_eq!(app.to_string(), format!("{id}/{version}"));
        }
        let (long, longer) = ("a".repeat(33), "a".repeat(65));
        for (id, version) in [
            ("", "v1"),
            ("crm", ""),
            ("..", "v1"),
            ("a/b", "v1"),
            ("a b", "v1"),
            ("crm", "\u{e4}"),
            ("crm\0", "v1"),
            ("crm", &long),
            (&longer, "v1"),
        ] {
            assert_eq!(AppRef::new(id, version), None, "{id:?} {version:?}");
        }
    }
}
