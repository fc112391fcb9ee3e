//! Files of a world, for its owner alone (mode 0600):
//!
//! | path | content |
//! |---|---|
//! | `store/` | the embedded store |
//! | `keys/dev._domainkey.DOMAIN.pem` | the DKIM keys of the senders' domains |
//! | `world.json` | the Agent's id and the API keys; written last, when all else is complete |
//! | `key` | the Agent's API key, for `$(cat …/key)` |
//! | `addresses.json` | addresses of the server, running or not |
//! | `.gitignore` | keeps all of this out of a repository |

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::names;
use crate::app::tenancy::Tenancy;
use crate::cli::Failure;
use crate::cli::local::{DOMAIN, here};
use crate::cli::send::read_key;
use crate::disk;
use crate::domain::account::AccountType;
use crate::domain::address::Address;
use crate::domain::domain_name::DomainName;
use crate::domain::id::Mint;
use crate::rules::Rules;
use crate::run::Running;
use crate::store::{Location, Store};
use crate::testkit::signer::Key;

pub(super) const DEFAULT_FOLDER: &str = "gatepost-dev";

#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Addresses {
    pub smtp: SocketAddr,
    pub http: SocketAddr,
    /// False after an orderly end; a killed server leaves it true.
    pub runs: bool,
}

impl Folder {
    /// The named folder, or the default one.
    pub fn named(path: Option<&Path>) -> Result<Self, Failure> {
        Self::at(path.unwrap_or(Path::new(DEFAULT_FOLDER)))
    }

    /// The folder at this path, which need not exist.
    pub fn at(path: &Path) -> Result<Self, Failure> {
        Ok(Self { path: std::path::absolute(path)? })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn store(&self) -> Location {
        Location::Folder(self.path.join("store"))
    }

    pub fn key_file(&self) -> PathBuf {
        self.path.join("key")
    }

    /// Reads the DKIM key of a domain.
    pub fn domain_key(&self, domain: &str) -> Result<Key, Failure> {
        read_key(&self.path.join("keys").join(names::key_file(domain)))
    }

    /// Reads the addresses of the server that runs, or ran last. None unless both are loopback
    /// addresses: a folder from another person's files must open nothing to the network.
    pub fn addresses(&self) -> Option<Addresses> {
        let text = fs::read_to_string(self.path.join("addresses.json")).ok()?;
        let known: Option<Addresses> = serde_json::from_str(&text).ok();
        known.filter(|known| known.smtp.ip().is_loopback() && known.http.ip().is_loopback())
    }

    /// Stores the addresses of the server, and whether it runs.
    pub fn note(&self, running: &Running, runs: bool) -> Result<(), Failure> {
        let addresses = Addresses { smtp: running.smtp, http: running.http, runs };
        write(&self.path.join("addresses.json"), &serde_json::to_string(&addresses)?)
    }

    /// Returns the last addresses, so that clients set up with them still work; a taken one is
    /// replaced by a free port.
    pub fn free_ports(&self) -> [SocketAddr; 2] {
        let last = self.addresses().map(|last| [last.smtp, last.http]);
        let is_free = |address: &SocketAddr| TcpListener::bind(address).is_ok();
        last.unwrap_or([here(0); 2]).map(|one| if is_free(&one) { one } else { here(0) })
    }

    fn make_keys(&self) -> Result<(), Failure> {
        let folder = self.path.join("keys");
        disk::make_folder(&folder)?;
        for domain in names::DOMAINS {
            write(&folder.join(names::key_file(domain)), &names::new_key()?.to_pem())?;
        }
        Ok(())
    }
}

/// The Agent of the store, and the keys.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct World {
    pub agent: i64,
    /// The Agent's API key.
    pub key: String,
    /// The key by which `gatepost dev` follows everything.
    pub operator_key: String,
}

impl World {
    /// Reads the world of a folder, or makes one if the folder is empty or missing. Fails if other
    /// files are there.
    pub async fn of(folder: &Folder, rules: &Rules, mint: &Mint) -> Result<Self, Failure> {
        let (path, file) = (folder.path(), folder.path().join("world.json"));
        let place = path.display();
        match fs::read_to_string(&file) {
            Ok(text) => serde_json::from_str(&text)
                .map_err(|error| format!("{}: {error}", file.display()).into()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(format!("cannot read {}: {error}", file.display()).into())
            }
            Err(_) if disk::is_vacant(path).map_err(|error| format!("{place}: {error}"))? => {
                Self::make(folder, rules, mint).await
            }
            Err(_) => Err(format!(
                "{place} is not empty and has no world.json: the folder belongs to something \
                 else, or a first start did not finish there. Remove the folder, or choose \
                 another with --data"
            )
            .into()),
        }
    }

    async fn make(folder: &Folder, rules: &Rules, mint: &Mint) -> Result<Self, Failure> {
        disk::make_folder(folder.path())
            .map_err(|error| format!("cannot make {}: {error}", folder.path().display()))?;
        write(&folder.path().join(".gitignore"), "*\n")?;
        folder.make_keys()?;
        let store = Store::create(&folder.store(), &rules.store, mint.clone()).await?;
        let tenancy = Tenancy::new(store.clone(), mint.clone(), Arc::new(rules.access.clone()));
        let world = Self::build(&tenancy).await?;
        store.close().await;
        write(&folder.key_file(), &format!("{}\n", world.key))?;
        write(&folder.path().join("world.json"), &serde_json::to_string(&world)?)?;
        Ok(world)
    }

    async fn build(tenancy: &Tenancy) -> Result<Self, Failure> {
        let partner = tenancy.create_partner("Development").await?;
        let mut above = partner.id;
        for (kind, name) in
            [(AccountType::Reseller, "Development"), (AccountType::Organization, "Development")]
        {
            above = tenancy.create_account(kind, above, name, &[]).await?.id;
        }
        tenancy.add_domain(&DomainName::parse(DOMAIN)?, above).await?;
        let address = [Address::parse(names::AGENT)?];
        let agent = tenancy.create_account(AccountType::Agent, above, "agent", &address).await?;
        tenancy.allow(agent.id, &[Address::parse(names::SENDER)?], Some("gatepost dev")).await?;
        let key = tenancy.create_key(agent.id, "gatepost dev").await?.token;
        let operator_key = tenancy.create_key(partner.id, "gatepost dev, following").await?.token;
        Ok(Self { agent: agent.id.get(), key, operator_key })
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    disk::replace(path, text.as_bytes())
        .map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_lead_to_the_network_are_not_taken() {
        let at = tempfile::tempdir().unwrap();
        let folder = Folder::at(at.path()).unwrap();
        for (smtp, http, is_taken) in [
            ("127.0.0.1:2525", "127.0.0.1:8080", true),
            ("0.0.0.0:2525", "127.0.0.1:8080", false),
            ("127.0.0.1:2525", "192.0.2.1:8080", false),
        ] {
            let (smtp, http) = (smtp.parse().unwrap(), http.parse().unwrap());
            let addresses = Addresses { smtp, http, runs: true };
            let text = serde_json::to_string(&addresses).unwrap();
            write(&at.path().join("addresses.json"), &text).unwrap();
            assert_eq!(folder.addresses().is_some(), is_taken, "{text}");
        }
    }
}
