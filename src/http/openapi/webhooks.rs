//! Webhooks: URLs that hear what happens, what was sent to them, and the log of events.

use serde_json::{Value, json};

use super::super::error::Code;
use super::super::operation::Verb::{Delete, Get, Post};
use super::Description;
use super::schema::{
    Fields, anything, count, cursor, date, flag, id, like, limit, list, moment, moment_given,
    object, or_null, reference, seconds, text, uuid, within, word,
};
use crate::domain::delivery::{Extent, State};
use crate::domain::destination::Payload;
use crate::domain::event::{Category, EventName};
use crate::rules::AccessRules;

/// What the area offers.
pub(super) fn operations(rules: &AccessRules) -> Vec<Description> {
    [webhooks(), acts(), deliveries(rules), events(rules)].concat()
}

/// The shapes that it shows more than once.
pub(super) fn shapes() -> Vec<(&'static str, Value)> {
    let full = EventName::ALL.iter().map(|name| reference(&format!("{name}.full")));
    let event = json!({
        "description": "An event, as a webhook gets it in full.", "anyOf": full.collect::<Vec<_>>(),
        "examples": [super::events::example(EventName::EmailReceived)],
    });
    vec![
        ("Webhook", webhook()),
        ("CustomHeader", custom_header()),
        ("Delivery", delivery()),
        ("Event", event),
    ]
}

fn category(about: &str) -> Value {
    word(about, Category::ALL, Category::as_str)
}

fn url() -> Value {
    like(text("Where it listens, https."), "https://hooks.example/gatepost")
}

fn custom_header() -> Value {
    json!({
        "type": "object", "additionalProperties": { "type": "string" },
        "minProperties": 1, "maxProperties": 1,
        "description": "A header by its name. Answers show ******** in the place of its value, which \
                        leaves it as it is when it is sent back.",
        "examples": [{ "X-Api-Key": "********" }],
    })
}

fn webhook() -> Value {
    let disabled = vec![("since", date("Since when.")), ("reason", text("Why."))];
    object(
        "A webhook, without its secret.",
        vec![
            ("id", uuid("Of the webhook.")),
            ("userId", id("The account that it belongs to.")),
            ("url", url()),
            ("label", like(text("What it is called."), "CRM")),
            ("type", category("What it gets.")),
            ("timestamp", seconds("When it was made, in Unix seconds.")),
            ("publicKey", or_null(text("What its v1a signatures are verified with."))),
            ("ordered", flag("Whether it gets each room in order.")),
            ("payload", word("How much it gets.", Payload::ALL, Payload::as_str)),
            ("headers", list("What is sent with each attempt.", reference("CustomHeader"))),
            ("disabled", or_null(object("Why nothing is sent to it, if nothing is.", disabled))),
            ("failures", count("How often it failed since it last succeeded.")),
            ("failingSince", or_null(date("Since when it fails."))),
            ("secretRotatedAt", or_null(date("When its secret was made anew."))),
            ("formerSecretUntil", or_null(date("Until when the one before signs, too."))),
        ],
    )
}

fn all() -> (&'static str, Value) {
    ("webhooks", list("All of the account.", reference("Webhook")))
}

fn secret() -> Value {
    like(text("What its deliveries are signed with: in this answer and in no other."), "whsec_…")
}

fn webhooks() -> Vec<Description> {
    const PATH: &str = "/webhooks";
    let named = || {
        vec![
            ("url?", url()),
            ("type?", category("Only of this type.")),
            ("id?", uuid("The webhook.")),
        ]
    };
    let given = vec![
        ("url?", url()),
        ("label?", text("What it is called.")),
        ("type?", category("What it gets.")),
        ("ordered?", flag("Whether it gets each room in order.")),
        ("payload?", word("How much it gets.", Payload::ALL, Payload::as_str)),
        ("headers?", list("What is sent with each attempt.", reference("CustomHeader"))),
        ("id?", uuid("Which one is changed; without it one is made.")),
        ("disabled?", flag("Of a change: whether nothing is sent to it.")),
    ];
    let made = vec![all(), ("webhook", reference("Webhook")), ("secret", secret())];
    let removed = list("Those that are gone.", reference("Webhook"));
    vec![
        Description::of(Get, PATH, "Lists the webhooks of an account")
            .answer(200, "webhooks found", vec![all()]),
        Description::of(Post, PATH, "Makes a webhook, or changes one")
            .about("Without id url, label and type are needed, and one is made.")
            .body(given)
            .sent(json!({ "url": "https://hooks.example/gatepost", "label": "CRM", "type": "incoming" }))
            .answer(201, "webhook created; its secret is shown this once", made)
            .answer(200, "webhook updated", vec![all(), ("webhook", reference("Webhook"))])
            .fails(&[Code::Conflict, Code::NotFound]),
        Description::of(Delete, PATH, "Removes webhooks")
            .about("All that match: a url alone means all its types. Name it in the query or in the body.")
            .query(named())
            .body(named())
            .sent(json!({ "url": "https://hooks.example/gatepost" }))
            .answer(200, "webhooks deleted", vec![("removed", removed), all()])
            .fails(&[Code::NotFound]),
    ]
}

fn in_path() -> Fields {
    vec![("id", uuid("The webhook."))]
}

fn acts() -> Vec<Description> {
    let event = vec![
        ("id", uuid("Of the event.")),
        ("event", json!({ "const": "webhook.test", "description": "Always webhook.test." })),
    ];
    let tested = vec![
        ("event", object("The event.", event)),
        ("delivery", object("Its delivery.", vec![("id", uuid("Of the delivery."))])),
    ];
    let only = |about| word(about, Extent::ALL, Extent::as_str);
    let replay = vec![
        ("id", uuid("Of the replay.")),
        ("since", date("From when on.")),
        ("only", only("What is sent again.")),
    ];
    vec![
        Description::of(Post, "/webhooks/{id}/rotate", "Gives a webhook a new secret")
            .about("The former one signs beside it for a while, unless endFormer says no.")
            .path(in_path())
            .body(vec![("endFormer?", flag("Whether no former secret signs any more."))])
            .answer(
                200,
                "secret rotated; it is shown this once, and the former one signs beside it",
                vec![
                    ("formerSecretUntil", or_null(date("Until when the one before signs, too."))),
                    ("webhook", reference("Webhook")),
                    ("secret", secret()),
                ],
            ),
        Description::of(Post, "/webhooks/{id}/test", "Sends a webhook an event of its own")
            .path(in_path())
            .body(vec![])
            .answer(201, "test on its way: GET /deliveries/{id} says what becomes of it", tested),
        Description::of(Post, "/webhooks/{id}/replay", "Sends a webhook again what it missed")
            .path(in_path())
            .body(vec![
                ("since", moment_given("From when on.")),
                ("only?", only("What is sent again; without it what failed.")),
            ])
            .answer(202, "replay accepted", vec![("replay", object("The replay.", replay))]),
    ]
}

fn delivery() -> Value {
    let attempt = vec![
        ("id", uuid("Of the attempt.")),
        ("date", date("When it was made.")),
        ("status", or_null(like(count("What was answered, if anything was."), 503))),
        ("latencyMs", or_null(count("After how long."))),
        ("response", or_null(text("The beginning of the answer; null of what was erased."))),
        ("error", or_null(text("What went wrong, in plain words."))),
    ];
    object(
        "An event for a webhook.",
        vec![
            ("id", uuid("Of the delivery.")),
            ("webhookId", uuid("The webhook.")),
            ("eventId", uuid("The event.")),
            ("event", word("Its name.", EventName::ALL, EventName::as_str)),
            ("state", word("Where it stands.", State::ALL, State::as_str)),
            ("createdAt", date("When it was made.")),
            ("nextAttemptAt", or_null(date("When it is tried again, if it is."))),
            ("attempts", list("What was tried.", object("An attempt.", attempt))),
        ],
    )
}

fn deliveries(rules: &AccessRules) -> Vec<Description> {
    let one = || vec![("delivery", reference("Delivery"))];
    let path = || vec![("id", uuid("The delivery."))];
    let query = vec![
        ("state?", word("Only those that stand so.", State::ALL, State::as_str)),
        ("since?", moment("Only from then on.")),
        ("until?", moment("Only before.")),
        ("limit?", limit(rules)),
        ("before?", cursor("Older ones than this place.")),
        ("after?", cursor("Newer ones than this place.")),
    ];
    vec![
        Description::of(Get, "/webhooks/{id}/deliveries", "Lists what was made for a webhook")
            .about("Also of one that was removed.")
            .path(in_path())
            .query(query)
            .answer(
                200,
                "deliveries found",
                vec![("deliveries", list("The newest first.", reference("Delivery")))],
            )
            .pages(),
        Description::of(Get, "/deliveries/{id}", "Shows a delivery with its attempts")
            .path(path())
            .answer(200, "delivery found", one()),
        Description::of(Post, "/deliveries/{id}/replay", "Sends a delivery again that has ended")
            .path(path())
            .body(vec![])
            .answer(200, "delivery pending again", one()),
    ]
}

fn events(rules: &AccessRules) -> Vec<Description> {
    let entry = vec![
        ("event", word("Its name.", EventName::ALL, EventName::as_str)),
        ("type", category("Which webhooks get it.")),
        ("description", text("When it happens.")),
        ("schema", anything("Its bodies, as JSON Schema.")),
    ];
    let wait = within("Up to so many seconds for an event.", 0..=rules.events.max_wait_seconds);
    vec![
        Description::of(Get, "/events", "Follows what happens")
            .about(
                "The oldest first; with wait the answer waits for an event, with Accept: \
                 text/event-stream it is a stream. Nothing is shown twice to whoever goes on behind the \
                 last one.",
            )
            .query(vec![
                ("after?", uuid("Behind this event.")),
                ("since?", moment("Only from then on.")),
                ("type?", category("Only of this type.")),
                ("event?", word("Only this event.", EventName::ALL, EventName::as_str)),
                ("limit?", limit(rules)),
                ("wait?", wait),
            ])
            .headers(vec![("Last-Event-ID?", uuid("Of a stream: behind this event."))])
            .answer(
                200,
                "events found",
                vec![
                    ("events", list("The oldest first.", reference("Event"))),
                    ("next", or_null(uuid("Up to where the log was read: go on behind it."))),
                    (
                        "more",
                        flag(
                            "Whether more may follow already: go on. If not, all that was there \
                             when you asked has been read.",
                        ),
                    ),
                ],
            )
            .or_as("text/event-stream")
            .fails(&[Code::NotFound]),
        Description::of(Get, "/events/catalog", "Shows all events with their schemas").answer(
            200,
            "events found",
            vec![("events", list("All of them.", object("An event.", entry)))],
        ),
    ]
}
