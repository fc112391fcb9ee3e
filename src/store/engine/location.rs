//! Where a store lives: `--data DIR`, or `--database-url sqlite:DIR` or `postgres://…`.

use std::fmt;
use std::path::{Path, PathBuf};

use super::postgres_url::{PostgresUrl, PostgresUrlError};

/// The folder of the embedded store when none is named.
const DEFAULT_FOLDER: &str = "gatepost-data";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// The embedded store: a folder of its own.
    Folder(PathBuf),
    /// A database of a PostgreSQL server, shared by any number of gateways.
    Postgres(PostgresUrl),
}

#[derive(Debug, thiserror::Error)]
pub enum LocationError {
    #[error(
        "both a data folder ({}) and a database URL are given: use one of them",
        .0.display()
    )]
    Both(PathBuf),
    #[error("the database URL must be sqlite:DIR or postgres://USER:PASSWORD@HOST/DATABASE")]
    Unknown,
    #[error(transparent)]
    Url(#[from] PostgresUrlError),
    #[error("the blob store: {0}")]
    Blobs(&'static str),
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
            Some(("postgres" | "postgresql", _)) => Ok(Self::Postgres(PostgresUrl::parse(url)?)),
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
}
