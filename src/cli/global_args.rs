//! Arguments of every command: the store, and the form of the output.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::Failure;
use crate::app::tenancy::Tenancy;
use crate::config::{DatabaseUrl, S3Key, S3Options, ServeOptions, StoreOptions};
use crate::domain::secret::Secret;
use crate::rules::Rules;
use crate::run;
use crate::store::{BlobPlace, Location, S3Access, Store, StorePlace};

#[derive(Args, Debug)]
pub(super) struct GlobalArgs {
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreOptions,
    /// `--data` comes from the command line, not from the environment.
    #[arg(skip)]
    pub names_folder: bool,
}

impl GlobalArgs {
    pub fn options(&self) -> Result<ServeOptions, Failure> {
        Ok(self.store.with(ServeOptions::default())?)
    }

    pub fn location(&self) -> Result<Location, Failure> {
        location(&self.options()?)
    }

    pub fn place(&self) -> Result<StorePlace, Failure> {
        place(&self.options()?)
    }

    pub fn rules(&self) -> Result<Rules, Failure> {
        Ok(run::rules(self.options()?.policies.as_deref())?)
    }

    /// Opens the store; fails if it does not exist.
    pub async fn open(&self) -> Result<Store, Failure> {
        Ok(Store::open(self.place()?, &self.rules()?.store, run::system_mint()).await?)
    }

    /// Opens the store, and returns the use cases over its accounts.
    pub async fn tenancy(&self) -> Result<Tenancy, Failure> {
        let rules = Arc::new(self.rules()?.access);
        Ok(Tenancy::new(self.open().await?, run::system_mint(), rules))
    }

    /// The folder of `gatepost dev`, if `--data` names one. `GATEPOST_DATA` is ignored: it names a
    /// server's folder.
    pub fn folder_of_dev(&self) -> Option<PathBuf> {
        self.store.data.clone().filter(|_| self.names_folder)
    }
}

/// The store of these settings, with its blobs.
pub(super) fn place(options: &ServeOptions) -> Result<StorePlace, Failure> {
    let parse = |text: &String| BlobPlace::parse(text, access(&options.s3));
    Ok(StorePlace::new(location(options)?, options.blobs.as_ref().map(parse).transpose()?))
}

fn access(options: &S3Options) -> S3Access {
    let secret = |key: &Option<S3Key>| key.as_ref().map(|key| Secret::new(key.expose()));
    S3Access {
        endpoint: options.endpoint.clone(),
        region: options.region.clone(),
        access_key: secret(&options.access_key),
        secret_key: secret(&options.secret_key),
    }
}

/// The database of these settings.
fn location(options: &ServeOptions) -> Result<Location, Failure> {
    let url = options.database_url.as_ref().map(DatabaseUrl::expose);
    Ok(Location::parse(options.data.as_deref(), url)?)
}
