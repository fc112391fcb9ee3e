//! The place of the store: arguments of every command, and keys of the settings file.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;

use super::{ConfigError, DEFAULT_FILE, ServeOptions, file};

/// The arguments by which every command finds the store.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Store")]
pub struct StoreOptions {
    /// The folder of the embedded store [default: gatepost-data]
    #[arg(long, global = true, env = "GATEPOST_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The store instead: sqlite:DIR, or postgres://USER:PASSWORD@HOST/DATABASE for many gateways
    #[arg(long, global = true, env = "GATEPOST_DATABASE_URL", value_name = "URL")]
    #[arg(hide_env_values = true)]
    pub database_url: Option<DatabaseUrl>,
    /// A file whose only line is that URL, so that its password is in no flag and no variable
    #[arg(long, global = true, env = "GATEPOST_DATABASE_URL_FILE", value_name = "FILE")]
    pub database_url_file: Option<PathBuf>,
    /// Where large raw messages are kept: DIR or s3://BUCKET/PREFIX [default: DATA/blobs; with
    /// PostgreSQL the database]
    #[arg(long, global = true, env = "GATEPOST_BLOBS", value_name = "DIR|URL")]
    pub blobs: Option<String>,
    /// The settings file [default: gatepost.toml where there is one]
    #[arg(long, global = true, env = "GATEPOST_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub s3: S3Options,
}

impl StoreOptions {
    /// Returns all settings: these arguments with `others`, and the file for absent ones.
    pub fn with(&self, others: ServeOptions) -> Result<ServeOptions, ConfigError> {
        let given = ServeOptions {
            data: self.data.clone(),
            database_url: self.database_url.clone(),
            database_url_file: self.database_url_file.clone(),
            blobs: self.blobs.clone(),
            s3: self.s3.clone(),
            ..others
        };
        let (given, mut file) = (given.with_read_url()?, file(self.file())?);
        // Not read in vain: it may be for another user alone.
        if given.data.is_some() || given.database_url.is_some() {
            file.database_url_file = None;
        }
        Ok(given.or(file.with_read_url()?))
    }

    /// The files that settings were read from.
    pub fn files(&self) -> Result<Vec<SettingsFile>, ConfigError> {
        let settings = file(self.file())?;
        let holds_secret = settings.holds_secret();
        let others = self.data.is_some() || self.database_url.is_some();
        let url = settings.database_url_file.filter(|_| !others);
        let url = self.database_url_file.clone().or(url);
        let of_settings =
            self.file().map(|path| SettingsFile { path: path.to_owned(), holds_secret });
        let of_url = url.map(|path| SettingsFile { path, holds_secret: true });
        Ok(of_settings.into_iter().chain(of_url).collect())
    }

    /// The file with settings, if there is one: that of `--config`, else `gatepost.toml`.
    pub fn file(&self) -> Option<&Path> {
        let default = || Some(Path::new(DEFAULT_FILE)).filter(|path| path.exists());
        self.config.as_deref().or_else(default)
    }
}

/// A file that settings were read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsFile {
    pub path: PathBuf,
    /// It has a password or a key: of the database, the bucket or the collector of traces.
    pub holds_secret: bool,
}

/// Access to the bucket that `blobs` names: the section `[s3]`.
#[derive(Args, Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct S3Options {
    /// The address of an S3-compatible store [default: Amazon's, of the region]
    #[arg(global = true, long = "s3-endpoint", env = "GATEPOST_S3_ENDPOINT", value_name = "URL")]
    #[arg(hide_env_values = true)]
    pub endpoint: Option<String>,
    /// The region of the bucket
    #[arg(global = true, long = "s3-region", env = "GATEPOST_S3_REGION", value_name = "NAME")]
    pub region: Option<String>,
    /// The access key of the bucket
    #[arg(
        global = true,
        long = "s3-access-key",
        env = "GATEPOST_S3_ACCESS_KEY",
        value_name = "KEY"
    )]
    #[arg(hide_env_values = true)]
    pub access_key: Option<S3Key>,
    /// The secret key of the bucket; better by its variable, because flags are seen by everybody
    #[arg(
        global = true,
        long = "s3-secret-key",
        env = "GATEPOST_S3_SECRET_KEY",
        value_name = "KEY"
    )]
    #[arg(hide_env_values = true)]
    pub secret_key: Option<S3Key>,
}

/// A key of an S3-compatible store; Debug hides it.
#[derive(Clone, Deserialize, PartialEq)]
#[serde(transparent)]
pub struct S3Key(String);

impl S3Key {
    /// The key itself, to sign requests.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for S3Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("S3Key(…)")
    }
}

impl From<&str> for S3Key {
    fn from(key: &str) -> Self {
        Self(key.to_owned())
    }
}

/// The URL of a database, which may hold a password; Debug hides it.
#[derive(Clone, Deserialize, PartialEq)]
#[serde(transparent)]
pub struct DatabaseUrl(String);

impl DatabaseUrl {
    /// The URL itself, to connect.
    pub fn expose(&self) -> &str {
        &self.0
    }

    fn has_password(&self) -> bool {
        // Not by a parser of URLs: one of a cluster names several hosts.
        let (_, rest) = self.0.split_once("://").unwrap_or_default();
        let (user, _) = rest.rsplit_once('@').unwrap_or_default();
        user.contains(':') || rest.contains("password=")
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DatabaseUrl(…)")
    }
}

impl ServeOptions {
    fn holds_secret(&self) -> bool {
        let has_password = self.database_url.as_ref().is_some_and(DatabaseUrl::has_password);
        has_password || self.s3.secret_key.is_some() || self.otlp.header.is_some()
    }

    /// Reads the URL of the database if a file has it. Fails if it is given itself, too.
    fn with_read_url(mut self) -> Result<Self, ConfigError> {
        let Some(path) = self.database_url_file.take() else { return Ok(self) };
        let invalid =
            |detail: String| ConfigError::Invalid { setting: "database-url-file", detail };
        if self.database_url.is_some() {
            let detail = "database-url is given, too: name the store by one of the two";
            return Err(invalid(detail.to_owned()));
        }
        let text = std::fs::read_to_string(&path)
            .map_err(|source| ConfigError::Read { path: path.clone(), source })?;
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        match (lines.next(), lines.next()) {
            (Some(url), None) => self.database_url = Some(url.into()),
            _ => {
                let detail = format!("{} must have one line, the URL", path.display());
                return Err(invalid(detail));
            }
        }
        Ok(self)
    }
}

impl From<&str> for DatabaseUrl {
    fn from(url: &str) -> Self {
        Self(url.to_owned())
    }
}

impl S3Options {
    pub(super) fn or(self, file: Self) -> Self {
        Self {
            endpoint: self.endpoint.or(file.endpoint),
            region: self.region.or(file.region),
            access_key: self.access_key.or(file.access_key),
            secret_key: self.secret_key.or(file.secret_key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(url: Option<&str>, file: PathBuf) -> ServeOptions {
        let (database_url, database_url_file) = (url.map(Into::into), Some(file));
        ServeOptions { database_url, database_url_file, ..ServeOptions::default() }
    }

    #[test]
    fn files_with_a_password_or_a_key_are_told_from_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.toml");
        let of = |text: &str, data: Option<PathBuf>| {
            std::fs::write(&path, text).unwrap();
            let options = StoreOptions { data, config: Some(path.clone()), ..Default::default() };
            options.files().unwrap()
        };
        let settings = |holds_secret| SettingsFile { path: path.clone(), holds_secret };
        for (text, holds_secret) in [
            ("", false),
            ("database-url = \"sqlite:data\"", false),
            ("database-url = \"postgres://me@h/d\"", false),
            ("database-url = \"postgres://me:hush@h/d\"", true),
            ("database-url = \"postgres://me:hush@h:5432,i:5432/d\"", true),
            ("database-url = \"postgres://h/d?user=me&password=hush\"", true),
            ("[s3]\nregion = \"eu-1\"", false),
            ("[s3]\nsecret-key = \"hush\"", true),
            ("[otlp]\nheader = [\"api-key=hush\"]", true),
        ] {
            assert_eq!(of(text, None), [settings(holds_secret)], "{text}");
        }
        let url = SettingsFile { path: "url".into(), holds_secret: true };
        let text = "database-url-file = \"url\"";
        assert_eq!(of(text, None), [settings(false), url]);
        // A folder of the command line takes its place: the file is not read.
        assert_eq!(of(text, Some("data".into())), [settings(false)]);
    }

    #[test]
    fn a_file_may_have_the_url_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("url");
        std::fs::write(&path, "postgres://me:hush@h/d\n").unwrap();
        let read = options(None, path.clone()).with_read_url().unwrap();
        assert_eq!(read.database_url.unwrap().expose(), "postgres://me:hush@h/d");
        assert_eq!(read.database_url_file, None);
        let both = options(Some("postgres://h/d"), path.clone()).with_read_url().unwrap_err();
        assert!(both.to_string().contains("database-url is given, too"), "{both}");
        for text in ["", "postgres://me:hush@h/d\npostgres://me:hush@h/e\n"] {
            std::fs::write(&path, text).unwrap();
            let error = options(None, path.clone()).with_read_url().unwrap_err().to_string();
            assert!(error.contains("must have one line") && !error.contains("hush"), "{error}");
        }
        let missing = options(None, folder.path().join("none")).with_read_url().unwrap_err();
        assert!(missing.to_string().contains("cannot read"), "{missing}");
    }
}
