//! The store as the parts of a gateway hold it: each with connections of its own, so that none
//! waits for another.

use std::time::Duration;

use tokio::runtime::Handle;

use super::settings::RunError;
use super::threads::Threads;
use crate::domain::id::Mint;
use crate::rules::{Rules, Share, StoreRules};
use crate::store::{Serving, Store, StorePlace};

/// The store, with separate connections for mail, requests, streams and heartbeats.
#[derive(Debug)]
pub(super) struct Stores {
    pub(super) mail: Store,
    pub(super) requests: Store,
    pub(super) streams: Store,
    pub(super) beats: Store,
}

impl Stores {
    /// Each pool of connections, by the name that metrics give it.
    pub(super) fn pools(&self) -> Vec<(&'static str, Store)> {
        let Self { mail, requests, streams, beats } = self;
        let pools = [("mail", mail), ("api", requests), ("streams", streams), ("beats", beats)];
        pools.map(|(name, store)| (name, store.clone())).into()
    }
}

pub(super) struct Opened {
    pub(super) serving: Serving,
    pub(super) stores: Stores,
    pub(super) threads: Threads,
}

/// Opens the store; on the embedded one, fails if another server uses it.
pub(super) async fn open(
    place: &StorePlace,
    rules: &Rules,
    mint: &Mint,
    patience: Duration,
) -> Result<Opened, RunError> {
    let serving = Serving::begin(&place.database, mint.clock().now())?;
    let mail = Store::open_within(place, &rules.store, mint.clone(), patience).await?;
    mail.check_writable().await?;
    mail.join().await?;
    let threads = Threads::start(&rules.access.threads).map_err(RunError::Threads)?;
    let requests = apart_on(threads.requests(), &mail, &rules.store, Share::Api).await?;
    let streams = apart_on(threads.streams(), &mail, &rules.store, Share::Streams).await?;
    let beats = mail.apart(&rules.store, Share::Beats).await?;
    Ok(Opened { serving, stores: Stores { mail, requests, streams, beats }, threads })
}

/// Opens the store with connections of its own, on the threads that use it: the threads of the
/// embedded store inherit their priority.
async fn apart_on(
    threads: Handle,
    store: &Store,
    rules: &StoreRules,
    share: Share,
) -> Result<Store, RunError> {
    let (store, rules) = (store.clone(), rules.clone());
    let opening = threads.spawn(async move { store.apart(&rules, share).await });
    Ok(opening.await.map_err(|error| RunError::Threads(error.into()))??)
}
