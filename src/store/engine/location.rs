//! Where a store lives: `--data DIR`, or `--database-url sqlite:DIR` or `postgres://…`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;
use url::Url;

/// The folder of the embedded store when none is named.
const DEFAULT_FOLDER: &str = "gatepost-data";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// The embedded store: a folder of its own.
    Folder(PathBuf),
    /// A database of a PostgreSQL server, shared by any number of gateways.
    Postgres(PostgresUrl),
}

/// `postgres://user:password@host/database`; shown without the password.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl(String);

#[derive(Debug, thiserror::Error)]
pub enum LocationError {
    #[error(
        "both a data folder ({}) and a database URL are given: use one of them",
        .0.display()
    )]
    Both(PathBuf),
    #[error("the database URL must be sqlite:DIR or postgres://USER:PASSWORD@HOST/DATABASE")]
    Unknown,
    #[error("cannot use the database URL")]
    Malformed(#[source] sqlx::Error),
    #[error("the blob store: {0}")]
    Blobs(&'static str),
    #[error("cannot use the database URL: in the password, write # as %23, / as %2F, ? as %3F")]
    Fragment,
    /// Without its value, which may be a password under a mistyped name.
    #[error("unknown parameter in the database URL: {0}")]
    Parameter(String),
}

impl Location {
    /// Returns the store named by a folder or a URL, but not by both; else the default folder.
    pub fn parse(data: Option<&Path>, url: Option<&str>) -> Result<Self, LocationError> {
        let url = match (data, url) {
            (Some(data), Some(_)) => return Err(LocationError::Both(data.to_owned())),
            (Some(data), None) => return Ok(Self::Folder(data.to_owned())),
            (None, None) => return Ok(Self::Folder(DEFAULT_FOLDER.into())),
            (None, Some(url)) => url,
        };
        match url.split_once(':') {
            Some(("sqlite", path)) => {
                let path = path.strip_prefix("//").unwrap_or(path);
                if path.is_empty() {
                    return Err(LocationError::Unknown);
                }
                Ok(Self::Folder(path.into()))
            }
            Some(("postgres" | "postgresql", _)) => PostgresUrl::parse(url).map(Self::Postgres),
            _ => Err(LocationError::Unknown),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "{}", folder.display()),
            Self::Postgres(url) => write!(f, "{url}"),
        }
    }
}

/// Parameters that sqlx reads (sqlx-postgres 0.9, `options/parse.rs`); it logs values of others.
const PARAMETERS: &[&str] = &[
    "application_name",
    "dbname",
    "host",
    "hostaddr",
    "options",
    "password",
    "port",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "ssl-mode",
    "ssl-root-cert",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "statement-cache-capacity",
    "user",
];

impl PostgresUrl {
    /// Returns the URL if sqlx reads all of it.
    fn parse(url: &str) -> Result<Self, LocationError> {
        let parsed = Url::parse(url)
            .map_err(|error| LocationError::Malformed(sqlx::Error::Configuration(error.into())))?;
        // sqlx ignores a fragment: most likely it is the rest of a password.
        if parsed.fragment().is_some() {
            return Err(LocationError::Fragment);
        }
        let known = |name: &str| {
            let setting = name.strip_prefix("options[").and_then(|rest| rest.strip_suffix(']'));
            PARAMETERS.contains(&name) || setting.is_some()
        };
        if let Some((name, _)) = parsed.query_pairs().find(|(name, _)| !known(name)) {
            return Err(LocationError::Parameter(shown(&name)));
        }
        PgConnectOptions::from_str(url).map_err(LocationError::Malformed)?;
        Ok(Self(url.to_owned()))
    }

    /// Returns the URL with its password.
    pub fn expose(&self) -> &str {
        &self.0
    }

    pub(in crate::store) fn options(&self) -> Result<PgConnectOptions, sqlx::Error> {
        PgConnectOptions::from_str(&self.0)
    }
}

/// Quotes a name that can be a parameter's; others may be the rest of a password with a ? in it.
fn shown(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphabetic() || c == '_' || c == '-';
    if name.chars().all(plain) && name.len() <= 32 {
        format!("{name:?}")
    } else {
        "its name has unusual characters (in the password, write ? as %3F)".to_owned()
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The query is left out: it may hold a password, too. Percent-encoding is kept.
        let Ok(mut url) = Url::parse(&self.0) else { return f.write_str("postgres://…") };
        let _no_password = url.set_password(None);
        url.set_query(None);
        write!(f, "{url}")
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_named_once() {
        let folder = |path: &str| Location::Folder(path.into());
        let parse = |url| Location::parse(None, Some(url));
        assert_eq!(Location::parse(None, None).unwrap(), folder("gatepost-data"));
        assert_eq!(Location::parse(Some(Path::new("x")), None).unwrap(), folder("x"));
        assert_eq!(parse("sqlite:some/where").unwrap(), folder("some/where"));
        assert_eq!(parse("sqlite:///some/where").unwrap(), folder("/some/where"));
        let both = Location::parse(Some(Path::new("x")), Some("postgres://h/d")).unwrap_err();
        assert!(both.to_string().contains("use one of them"), "{both}");
        for bad in ["", "sqlite:", "mysql://h/d", "gatepost-data", "postgres://h:port/d"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        for url in ["postgres://me:hush@db.example/mail", "postgres://me@h/mail?password=hush"] {
            let location = Location::parse(None, Some(url)).unwrap();
            for shown in [location.to_string(), format!("{location:?}")] {
                assert!(shown.contains("mail") && !shown.contains("hush"), "{shown}");
            }
        }
    }

    #[test]
    fn what_a_url_says_in_vain_is_refused_and_its_values_are_not_shown() {
        for (url, name) in [
            ("postgres://me@h/mail?pasword=hush", "\"pasword\""),
            ("postgres://me@h/mail?sslmode=require&sslrootcrt=/hush", "\"sslrootcrt\""),
            ("postgres://me@h/mail?options[x=hush", "unusual characters"),
            ("postgres://me:12?hush@h/mail", "unusual characters"),
            ("postgres://me:12#hush@h/mail", "%23"),
            ("postgres://me@h/mail#hush", "%23"),
        ] {
            let refused = Location::parse(None, Some(url)).unwrap_err();
            let said = format!("{refused} {refused:?}");
            assert!(refused.to_string().contains(name), "{url}: {refused}");
            assert!(!said.contains("hush"), "{url}: {said}");
        }
    }

    #[test]
    fn every_parameter_in_the_list_means_something_to_sqlx() {
        let plain: PgConnectOptions = "postgres://h/d".parse().unwrap();
        for name in PARAMETERS.iter().copied() {
            let value = match name {
                "port" | "statement-cache-capacity" => "77",
                "sslmode" | "ssl-mode" => "verify-full",
                "hostaddr" => "192.0.2.77",
                _ => "seventy-seven",
            };
            let with: PgConnectOptions = format!("postgres://h/d?{name}={value}").parse().unwrap();
            assert_ne!(format!("{with:?}"), format!("{plain:?}"), "{name}");
        }
    }

    #[test]
    fn percent_encoding_stays_as_it_was() {
        let url = "postgres://m%2Fe:p%23%3Fw@h/ma%20il?host=/run/post%20gres&options[a.b]=c%26d";
        let Location::Postgres(parsed) = Location::parse(None, Some(url)).unwrap() else {
            panic!("no PostgreSQL")
        };
        assert_eq!(parsed.expose(), url);
        assert_eq!(parsed.to_string(), "postgres://m%2Fe@h/ma%20il");
        let options = format!("{:?}", parsed.options().unwrap());
        for part in ["m/e", "p#?w", "ma il", "/run/post gres", "a.b=c&d"] {
            assert!(options.contains(part), "{part}: {options}");
        }
    }
}
