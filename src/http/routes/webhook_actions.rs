//! `/webhooks/{id}/…`: rotates the secret of a webhook, tests it, and replays deliveries.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::delivery::webhook_record::{Webhook, former_until};
use crate::domain::delivery::Extent;
use crate::domain::id::DestinationId;
use crate::egress::signature;
use crate::http::routes::webhooks::find_in_use;
use crate::http::typed::{Call, Problem, Success, successes};
use crate::wire::{Date, Id, Moment, Word};

/// Rotates the secret of a webhook
///
/// The previous secret also signs for a while, unless endFormer is true.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rotate {
    /// The webhook.
    id: Id,
    /// Whether the previous secret stops signing at once.
    #[serde(default)]
    end_former: bool,
}

impl Rotated {
    fn own_message(&self) -> &'static str {
        match self.ended_former {
            true => "secret rotated; it is shown only once, and no previous secret signs any more",
            false => Self::MESSAGE,
        }
    }
}

/// Rotates the secret. Only this answer shows the new one.
pub async fn rotate(call: Call, request: Rotate) -> Result<Rotated, Problem> {
    let id = find_in_use(&call, DestinationId(request.id.0)).await?.id;
    let new = call.destinations().rotate(call.account().id, id, request.end_former).await?;
    let clock = call.http.mint.clock();
    Ok(Rotated {
        former_secret_until: former_until(&new, clock.now()).map(Date),
        webhook: Webhook::of(&new, clock),
        secret: signature::secret_text(&new.secret),
        ended_former: request.end_former,
    })
}

/// Sends a test event to a webhook
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Test {
    /// The webhook.
    id: Id,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct TestEvent {
    /// The id of the event.
    id: Id,
    /// Always webhook.test.
    #[schemars(extend("const" = "webhook.test"))]
    event: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct TestDelivery {
    /// The id of the delivery.
    id: Id,
}

pub async fn test(call: Call, request: Test) -> Result<Tested, Problem> {
    let id = find_in_use(&call, DestinationId(request.id.0)).await?.id;
    let (event, delivery) = call.destinations().test(call.account(), id).await?;
    Ok(Tested {
        event: TestEvent { id: Id(event.0), event: "webhook.test" },
        delivery: TestDelivery { id: Id(delivery.0) },
    })
}

/// Replays deliveries to a webhook
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Replay {
    /// The webhook.
    id: Id,
    /// From this moment on.
    since: Moment,
    /// The kinds of deliveries to replay; failed ones by default.
    only: Option<Word<Extent>>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct AcceptedReplay {
    /// The id of the replay.
    id: Id,
    /// From this moment on.
    since: Date,
    /// The kinds of deliveries to replay.
    only: Word<Extent>,
}

successes! {
    Tested {
        /// The event.
        event: TestEvent,
        /// Its delivery.
        delivery: TestDelivery,
    } = CREATED "test queued: GET /deliveries/{id} shows the result";
    Replayed {
        /// The replay.
        replay: AcceptedReplay
    } = ACCEPTED "replay accepted";
    Rotated {
        /// Until when the previous secret also signs.
        former_secret_until: Option<Date>,
        webhook: Webhook,
        /// The secret that signs its deliveries; shown only in this answer.
        #[schemars(example = &"whsec_…")]
        secret: String,
        #[serde(skip)]
        ended_former: bool,
    } = OK "secret rotated; it is shown only once, and the previous secret also signs for a while", varies;
}

pub async fn replay(call: Call, request: Replay) -> Result<Replayed, Problem> {
    let (Moment(since), only) =
        (request.since, request.only.map_or(Extent::Failed, |Word(only)| only));
    let id = find_in_use(&call, DestinationId(request.id.0)).await?.id;
    let replay = call.destinations().replay(call.account().id, id, since, only).await?;
    let replay = AcceptedReplay { id: Id(replay), since: Date(since), only: Word(only) };
    Ok(Replayed { replay })
}
