//! A gateway's ways to the store and to receivers, with all that can happen on them.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use tokio::time::{sleep, timeout};
use url::Url;

use super::super::super::*;
use super::world::{Receiver, World};
use crate::domain::id::EventId;
use crate::egress::client::{EgressError, Response};

/// A gateway, as store and receivers know it.
pub(super) struct Gateway {
    pub(super) world: Arc<World>,
    pub(super) number: usize,
    /// The name under which it claims; 0 while its last beat is too old.
    pub(super) name: AtomicI64,
}

impl Gateway {
    fn now(&self) -> Timestamp {
        self.world.clock().steady()
    }

    async fn way(&self) -> Result<(), QueueError> {
        self.world.way().await.map_err(|()| QueueError::Failed("lost on its way".into()))
    }
}

impl Queue for Gateway {
    async fn claim(&self, limit: usize, busy: &[DestinationId]) -> Result<Vec<Claim>, QueueError> {
        let (now, name) = (self.now(), self.name.load(Ordering::SeqCst));
        self.way().await?;
        let claims = self.world.claim(name, now, limit, busy);
        self.way().await?;
        Ok(claims)
    }

    async fn finish(
        &self,
        claim: &Claim,
        _attempt: Attempt,
        outcome: Outcome,
    ) -> Result<bool, QueueError> {
        self.way().await?;
        let halts = self.world.finish(claim, outcome);
        self.way().await?;
        if halts {
            self.world.tells(self.number, claim.destination.id);
        }
        Ok(halts)
    }

    async fn release(&self, claims: &[Claim]) -> Result<(), QueueError> {
        self.way().await?;
        self.world.release(claims);
        self.way().await
    }

    fn holder(&self) -> Option<i64> {
        Some(self.name.load(Ordering::SeqCst)).filter(|name| *name > 0)
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, QueueError> {
        self.way().await?;
        Ok(self.world.next_due())
    }
}

/// The network between a gateway and the receivers.
#[derive(Clone)]
pub(super) struct Network(pub(super) Arc<Gateway>);

/// Ends an attempt when it is dropped: at its end, or with its gateway.
struct UnderWay<'n>(&'n Gateway, DestinationId);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.world.ends(self.0.number, self.1);
    }
}

impl Post for Network {
    async fn post(
        &self,
        _url: &Url,
        headers: HeaderMap,
        _body: Bytes,
        _behind: AfterResponse,
    ) -> Result<Response, EgressError> {
        let Self(gateway) = self;
        let event = headers["webhook-id"].to_str().unwrap().parse().map(EventId).unwrap();
        let destination = gateway.world.begins(gateway.number, event);
        let _under_way = UnderWay(gateway, destination);
        let limit = gateway.world.rules.attempt.timeout();
        let answer = timeout(limit, exchange(&gateway.world, destination, event)).await;
        answer.unwrap_or(Err(EgressError::Timeout))
    }
}

/// One request and its response.
async fn exchange(
    world: &World,
    destination: DestinationId,
    event: EventId,
) -> Result<Response, EgressError> {
    let receiver = world.receiver(destination);
    let (comes, goes, fate) = {
        let dice = &mut world.deeds().dice;
        let most = Duration::from_secs(if receiver == Receiver::Slow { 11 } else { 1 });
        (dice.within(most), dice.within(most), dice.below(6))
    };
    if world.is_down(receiver) {
        return Err(EgressError::Connect);
    }
    let fails = receiver == Receiver::Flaky && !world.is_calm();
    sleep(comes).await;
    if fails && fate == 0 {
        return Err(EgressError::Broken);
    }
    let has_left = world.arrives(destination, event);
    sleep(goes).await;
    let answer = |status, retry_after| Ok(Response { status, retry_after, body: Vec::new() });
    match fate {
        _ if has_left => answer(410, None),
        1 if fails => Err(EgressError::Broken),
        2 if fails => answer(500, None),
        3 if fails => answer(503, Some(Duration::from_secs(7))),
        _ => answer(204, None),
    }
}
