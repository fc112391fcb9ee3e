//! `--forward-to`: an ordinary webhook destination of the Agent that leads to this machine.

use std::sync::Arc;

use url::{Host, Url};

use super::folder::{Folder, World};
use crate::app::delivery::{Added, Destinations};
use crate::cli::Failure;
use crate::cli::local::loopback;
use crate::domain::destination::Destination;
use crate::domain::event::Category;
use crate::domain::id::{AccountId, DestinationId, Mint};
use crate::egress::guard::Guard;
use crate::egress::signature;
use crate::rules::Rules;
use crate::store::{DestinationChange, Store};

/// Label that tells our destinations from those made by the API.
const LABEL: &str = "gatepost dev --forward-to";

pub(super) struct Forward {
    pub id: DestinationId,
    /// The Agent.
    pub account: AccountId,
    pub url: Url,
    /// For the receiver, which verifies signatures with it.
    pub secret: String,
}

/// Parses the URL. Fails unless it is on this machine: the local DNS knows no other names.
pub(super) fn parse(text: &str, rules: &Rules) -> Result<Url, Failure> {
    let url = Guard::new(loopback()?, &rules.webhooks)
        .destination(text)
        .map_err(|error| format!("--forward-to {text}: {error}"))?;
    let is_here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    if is_here {
        return Ok(url);
    }
    Err(format!(
        "--forward-to {text}: expected a URL of this machine, like http://localhost:3000/hook"
    )
    .into())
}

impl Forward {
    /// Forwards to `url` only. A destination of an earlier start is disabled and keeps its secret,
    /// so a later start with its URL has the same secret.
    pub async fn set_up(
        folder: &Folder,
        world: &World,
        url: Option<&Url>,
        rules: &Rules,
        mint: &Mint,
    ) -> Result<Option<Self>, Failure> {
        let agent = AccountId::new(world.agent).ok_or("world.json names no account")?;
        let store = Store::open(&folder.store(), &rules.store, mint.clone()).await?;
        let (access, webhooks) = (Arc::new(rules.access.clone()), Arc::new(rules.webhooks.clone()));
        let destinations = Destinations::new(store.clone(), mint.clone(), access, webhooks);
        let forward = enable_only(&destinations, agent, url).await;
        store.close().await;
        forward
    }
}

async fn enable_only(
    destinations: &Destinations,
    agent: AccountId,
    url: Option<&Url>,
) -> Result<Option<Forward>, Failure> {
    for known in destinations.list(agent).await? {
        let is_wanted = Some(&known.url) == url;
        if known.label == LABEL && known.disabled.is_none() != is_wanted {
            let change = DestinationChange { disabled: Some(!is_wanted), ..Default::default() };
            destinations.update(agent, known.id, &change).await?;
        }
    }
    let Some(url) = url else { return Ok(None) };
    let added = destinations.add(agent, url.clone(), Category::Incoming, LABEL).await?;
    let (Added::Created(destination) | Added::Existed(destination)) = added;
    let Destination { id, account, url, secret, .. } = destination;
    Ok(Some(Forward { id, account, url, secret: signature::secret_text(&secret) }))
}
