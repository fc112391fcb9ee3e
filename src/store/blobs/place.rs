//! Where large raw messages live, `--blobs DIR` or `s3://…`: a folder, or a bucket of an
//! S3-compatible store.

use std::fmt;
use std::path::PathBuf;

use url::Url;

use crate::domain::secret::Secret;
use crate::store::engine::location::{Location, LocationError};

/// The region for endpoints other than Amazon's, if none is given.
const ANY_REGION: &str = "us-east-1";

/// The folder of large raw messages in that of the embedded store.
const DEFAULT_BLOBS: &str = "blobs";

/// Where a whole store lives: its database, and its large raw messages if they lie apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorePlace {
    pub database: Location,
    pub blobs: Option<BlobPlace>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlobPlace {
    /// A folder of its own.
    Folder(PathBuf),
    /// A bucket, or the part of one below a prefix, that no other store uses.
    S3(Box<Bucket>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub(in crate::store) name: String,
    /// Without `/` at either end; empty if the store has the whole bucket.
    pub(in crate::store) prefix: String,
    /// None for Amazon's endpoint of the region.
    pub(in crate::store) endpoint: Option<Url>,
    pub(in crate::store) region: String,
    pub(in crate::store) access_key: Secret,
    pub(in crate::store) secret_key: Secret,
}

/// Settings of an S3-compatible store, beside the bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct S3Access {
    pub endpoint: Option<String>,
    pub region: Option<String>,
    pub access_key: Option<Secret>,
    pub secret_key: Option<Secret>,
}

impl BlobPlace {
    /// Reads `DIR`, `s3://BUCKET` or `s3://BUCKET/PREFIX`; a bucket needs the keys of `access`.
    pub fn parse(text: &str, access: S3Access) -> Result<Self, LocationError> {
        match text.split_once("://") {
            Some(("s3", path)) => bucket(path, access).map(|bucket| Self::S3(Box::new(bucket))),
            None if !text.is_empty() => Ok(Self::Folder(text.into())),
            _ => Err(LocationError::Blobs("expected a folder, or s3://BUCKET/PREFIX")),
        }
    }
}

fn bucket(path: &str, access: S3Access) -> Result<Bucket, LocationError> {
    let (name, prefix) = path.split_once('/').unwrap_or((path, ""));
    // S3 allows these characters in names of buckets; any other could smuggle a host in.
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if name.is_empty() || !name.chars().all(plain) {
        return Err(LocationError::Blobs(
            "the bucket name may hold only letters, digits, dots, hyphens and underscores",
        ));
    }
    let endpoint = access.endpoint.as_deref().map(endpoint).transpose()?;
    let missing = |what| move || LocationError::Blobs(what);
    let region = access.region.or_else(|| endpoint.is_some().then(|| ANY_REGION.to_owned()));
    Ok(Bucket {
        name: name.to_owned(),
        prefix: prefix.trim_matches('/').to_owned(),
        endpoint,
        region: region
            .ok_or_else(missing("the region of the bucket (or an endpoint) is missing"))?,
        access_key: access.access_key.ok_or_else(missing("the access key is missing"))?,
        secret_key: access.secret_key.ok_or_else(missing("the secret key is missing"))?,
    })
}

/// Reads an endpoint. Errors never repeat it: it may hold a password.
fn endpoint(text: &str) -> Result<Url, LocationError> {
    let refused = LocationError::Blobs("the endpoint must be https://HOST or http://HOST");
    match Url::parse(text) {
        Ok(url)
            if matches!(url.scheme(), "https" | "http")
                && url.has_host()
                && url.username().is_empty()
                && url.password().is_none()
                && url.query().is_none() =>
        {
            Ok(url)
        }
        _ => Err(refused),
    }
}

impl fmt::Display for BlobPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "{}", folder.display()),
            Self::S3(bucket) if bucket.prefix.is_empty() => write!(f, "s3://{}", bucket.name),
            Self::S3(bucket) => write!(f, "s3://{}/{}", bucket.name, bucket.prefix),
        }
    }
}

impl StorePlace {
    /// Combines a database with its blobs. Without `blobs`, the embedded store keeps them in its
    /// folder; PostgreSQL, whose gateways share no folder, keeps raw messages of every size itself.
    pub fn new(database: Location, blobs: Option<BlobPlace>) -> Self {
        let blobs = blobs.or_else(|| match &database {
            Location::Folder(folder) => Some(BlobPlace::Folder(folder.join(DEFAULT_BLOBS))),
            Location::Postgres(_) => None,
        });
        Self { database, blobs }
    }
}

impl From<Location> for StorePlace {
    fn from(database: Location) -> Self {
        Self::new(database, None)
    }
}

impl From<&Location> for StorePlace {
    fn from(database: &Location) -> Self {
        database.clone().into()
    }
}

impl From<&Self> for StorePlace {
    fn from(place: &Self) -> Self {
        place.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> S3Access {
        S3Access {
            endpoint: Some("http://127.0.0.1:9000".into()),
            region: None,
            access_key: Some(Secret::new("AKHUSH")),
            secret_key: Some(Secret::new("hush")),
        }
    }

    #[test]
    fn only_the_embedded_store_has_blobs_of_its_own() {
        let here = StorePlace::from(Location::Folder("x".into()));
        assert_eq!(here.blobs, Some(BlobPlace::Folder("x/blobs".into())));
        let shared = Location::parse(None, Some("postgres://h/d")).unwrap();
        assert_eq!(StorePlace::from(&shared).blobs, None);
        let named = Some(BlobPlace::Folder("y".into()));
        for database in [here.database, shared] {
            assert_eq!(StorePlace::new(database, named.clone()).blobs, named);
        }
    }

    #[test]
    fn a_folder_or_a_bucket() {
        let folder = BlobPlace::parse("some/where", S3Access::default()).unwrap();
        assert_eq!(folder, BlobPlace::Folder("some/where".into()));
        for (text, shown) in
            [("s3://mail", "s3://mail"), ("s3://mail/", "s3://mail"), ("s3://m/a/b/", "s3://m/a/b")]
        {
            assert_eq!(BlobPlace::parse(text, access()).unwrap().to_string(), shown);
        }
        for bad in ["", "s3://", "s3:///x", "s3://a@b/x", "https://bucket.example/x"] {
            assert!(BlobPlace::parse(bad, access()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_is_missing_is_named_and_no_secret_is_shown() {
        let refused = |change: &dyn Fn(&mut S3Access)| {
            let mut access = access();
            change(&mut access);
            BlobPlace::parse("s3://mail", access).unwrap_err().to_string()
        };
        assert!(refused(&|a| a.access_key = None).contains("access key"));
        assert!(refused(&|a| a.secret_key = None).contains("secret key"));
        assert!(refused(&|a| a.endpoint = None).contains("region"));
        for bad in ["hush", "ftp://host", "http://me:hush@host", "https://host/?key=hush"] {
            let error = refused(&|a| a.endpoint = Some(bad.into()));
            assert!(error.contains("endpoint") && !error.contains("hush"), "{error}");
        }
        let place = BlobPlace::parse("s3://mail", access()).unwrap();
        let shown = format!("{place} {place:?} {:?}", access()).to_lowercase();
        assert!(!shown.contains("hush"), "{shown}");
    }
}
