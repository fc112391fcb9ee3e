//! A new store of either kind.

use std::net::SocketAddr;
use std::path::Path;

use gatepost::rules::Rules;
use gatepost::store::Location;
use sqlx::{Connection as _, PgConnection};

use super::cost::Cost;
use crate::support::cluster::{self, Cluster};
use crate::support::process::Server;
use crate::support::rules;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Postgres,
}

impl Kind {
    /// Both databases, or the one that is installed; `only` keeps those whose name begins with it.
    pub fn all(only: Option<&str>) -> Vec<Self> {
        let is_wanted =
            |kind: &Self| only.is_none_or(|only| kind.name().to_lowercase().starts_with(only));
        let mut kinds = vec![Self::Sqlite, Self::Postgres];
        kinds.retain(is_wanted);
        if kinds.contains(&Self::Postgres) && cluster::binaries().is_none() {
            eprintln!("PostgreSQL: skipped, it is not installed");
            kinds.retain(|kind| *kind == Self::Sqlite);
        }
        kinds
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
        }
    }
}

pub struct Place {
    folder: tempfile::TempDir,
    pub location: Location,
    pub rules: Rules,
    /// Runs as long as this value lives.
    cluster: Option<Cluster>,
}

impl Place {
    /// With rule files of these names and texts laid over the compiled-in ones.
    pub fn new(kind: Kind, files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (location, cluster) = match kind {
            Kind::Sqlite => (Location::Folder(folder.path().join("store")), None),
            Kind::Postgres => {
                let bin = cluster::binaries().expect("PostgreSQL is installed");
                let cluster =
                    Cluster::start(&bin, &["fsync=on", "shared_buffers=512MB", "max_wal_size=4GB"]);
                (Location::parse(None, Some(&cluster.url)).unwrap(), Some(cluster))
            }
        };
        let rules = rules(folder.path(), files);
        Self { folder, location, rules, cluster }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// `gatepost serve` by this program on the store.
    pub async fn serve(&self, program: &str, dns: SocketAddr) -> Server {
        Server::start_build(program, &self.location, self.path(), dns).await
    }

    pub fn cost(&self) -> Option<Cost> {
        let url = &self.cluster.as_ref()?.url;
        let (_, rest) = url.split_once("host=").unwrap();
        let (folder, _) = rest.split_once('&').unwrap();
        let pid = std::fs::read_to_string(format!("{folder}/data/postmaster.pid")).unwrap();
        Some(Cost::of_all(pid.lines().next().unwrap().parse().unwrap()))
    }

    /// Bytes at rest. The embedded store must be closed.
    pub async fn kept(&self) -> u64 {
        match &self.cluster {
            None => size(&self.folder.path().join("store")),
            Some(cluster) => {
                let mut connection = PgConnection::connect(&cluster.url).await.unwrap();
                let size: i64 = sqlx::query_scalar("SELECT pg_database_size(current_database())")
                    .fetch_one(&mut connection)
                    .await
                    .unwrap();
                u64::try_from(size).unwrap()
            }
        }
    }
}

/// Bytes of all files below.
pub fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let size_of = |entry: std::fs::DirEntry| match entry.file_type().unwrap().is_dir() {
        true => size(&entry.path()),
        false => entry.metadata().unwrap().len(),
    };
    entries.map(size_of).sum()
}
