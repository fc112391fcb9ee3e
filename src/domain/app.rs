//! What an account keeps of an app: that an Agent has installed it, with its settings, or the data of
//! the account's integration with it.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use super::clock::Timestamp;
use super::id::AccountId;
use super::words::words;

/// Long enough for the id of any app (v2: `appId`, `integrationSlug`); bounds what lists show.
const LONGEST_ID: usize = 64;
/// The same of a version (`v1`, `2026-11-01`).
const LONGEST_VERSION: usize = 32;

/// One version of an app: `crm` `v1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppRef {
    id: String,
    version: String,
}

impl AppRef {
    /// `None` where one of them is no such name: letters, digits, `-`, `_` and `.`, a letter or a
    /// digit first, up to 64 and up to 32 of them.
    pub fn new(id: &str, version: &str) -> Option<Self> {
        let fits = is_name(id, LONGEST_ID) && is_name(version, LONGEST_VERSION);
        fits.then(|| Self { id: id.to_owned(), version: version.to_owned() })
    }

    /// Of all versions the same.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Which of its versions.
    pub fn version(&self) -> &str {
        &self.version
    }
}

impl fmt::Display for AppRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.id, self.version)
    }
}

/// Whether a text can name an app, a version or one of their settings.
pub fn is_name(text: &str, longest: usize) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c);
    text.len() <= longest
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(plain)
}

words! {
    /// What a record is for.
    Use {
        /// An Agent has the app.
        Installed = "app",
        /// An account's own data for it.
        Integration = "integration",
    }
}

/// What an account keeps of one version of an app, for one use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppRecord {
    pub account: AccountId,
    pub of: Use,
    pub app: AppRef,
    /// What is no secret.
    pub shown: Map<String, Value>,
    /// What the secrets are called.
    pub secrets: BTreeSet<String>,
    /// They themselves, as only the vault opens them; `None` where there are none.
    pub sealed: Option<Vec<u8>>,
    /// One more with each change.
    pub revision: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl AppRecord {
    /// One that nothing was put into yet.
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

    /// The same to be kept as a new one: one that is made again after it was taken away is no earlier
    /// one, whatever somebody read of that.
    #[must_use]
    pub fn begun(self) -> Self {
        Self { revision: self.created_at.millis().max(1), ..self }
    }

    /// Whether it has a value of this name, secret or not.
    pub fn has(&self, name: &str) -> bool {
        self.shown.contains_key(name) || self.secrets.contains(name)
    }

    /// Whether it has no value at all.
    pub fn is_bare(&self) -> bool {
        self.shown.is_empty() && self.secrets.is_empty()
    }

    /// Where the vault keeps its secrets: those of another account, or another use, do not open
    /// here.
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
