//! Where a store lives: `--data DIR`, or `--database-url sqlite:DIR` or `postgres://…`; and its
//! large raw messages, `--blobs DIR` or `s3://…`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;
use url::Url;

use super::blob_place::BlobPlace;

/// The embedded store, when nothing else is named.
const DEFAULT_FOLDER: &str = "gatepost-data";
/// Large raw messages, in the folder of the embedded store.
const DEFAULT_BLOBS: &str = "blobs";

/// All of a store: the database, and large raw messages where they lie apart from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub database: Location,
    pub blobs: Option<BlobPlace>,
}

/// Where a store lives.
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

/// A location that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LocationError {
    #[error(
        "both a data folder ({}) and a database URL are given: name the store once",
        .0.display()
    )]
    Both(PathBuf),
    #[error("the database URL must be sqlite:DIR or postgres://USER:PASSWORD@HOST/DATABASE")]
    Unknown,
    #[error("the database URL cannot be used")]
    Malformed(#[source] sqlx::Error),
    #[error("the blob store: {0}")]
    Blobs(&'static str),
}

impl Place {
    /// With these blobs. Where none are named, those of the embedded store lie in its folder, and
    /// PostgreSQL keeps raw messages of every size: its gateways have no folder in common.
    pub fn new(database: Location, blobs: Option<BlobPlace>) -> Self {
        let blobs = blobs.or_else(|| match &database {
            Location::Folder(folder) => Some(BlobPlace::Folder(folder.join(DEFAULT_BLOBS))),
            Location::Postgres(_) => None,
        });
        Self { database, blobs }
    }
}

impl From<Location> for Place {
    fn from(database: Location) -> Self {
        Self::new(database, None)
    }
}

impl From<&Location> for Place {
    fn from(database: &Location) -> Self {
        database.clone().into()
    }
}

impl From<&Self> for Place {
    fn from(place: &Self) -> Self {
        place.clone()
    }
}

impl Location {
    /// The store that is named by a folder or by a URL; the default folder where neither is given.
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
            Some(("postgres" | "postgresql", _)) => {
                PgConnectOptions::from_str(url).map_err(LocationError::Malformed)?;
                Ok(Self::Postgres(PostgresUrl(url.to_owned())))
            }
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

impl PostgresUrl {
    /// The URL itself, password and all.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// How to connect.
    pub(super) fn options(&self) -> Result<PgConnectOptions, sqlx::Error> {
        PgConnectOptions::from_str(&self.0)
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A query may hold a password too.
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
        assert!(both.to_string().contains("name the store once"), "{both}");
        for bad in ["", "sqlite:", "mysql://h/d", "gatepost-data", "postgres://h:port/d"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn only_the_embedded_store_has_blobs_of_its_own() {
        let here = Place::from(Location::Folder("x".into()));
        assert_eq!(here.blobs, Some(BlobPlace::Folder("x/blobs".into())));
        let shared = Location::parse(None, Some("postgres://h/d")).unwrap();
        assert_eq!(Place::from(&shared).blobs, None);
        let named = Some(BlobPlace::Folder("y".into()));
        for database in [here.database, shared] {
            assert_eq!(Place::new(database, named.clone()).blobs, named);
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
