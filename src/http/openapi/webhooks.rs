//! Webhooks: URLs that hear what happens, what was sent to them, and the log of events.

use serde_json::{Value, json};

use super::super::description::Description;
use super::super::error::Code;
use super::super::schema::{
    anything, flag, limit, list, moment, object, or_null, reference, text, uuid, within, word,
};
use super::super::verb::Verb::Get;
use crate::domain::event::{Category, EventName};
use crate::rules::AccessRules;

/// The operations of the area that have no types yet.
pub(super) fn operations(rules: &AccessRules) -> Vec<Description> {
    events(rules)
}

/// The shapes that it shows more than once.
pub(super) fn shapes() -> Vec<(&'static str, Value)> {
    let full = EventName::ALL.iter().map(|name| reference(name.as_str()));
    let event = json!({
        "description": "An event, as a webhook gets it in full.", "anyOf": full.collect::<Vec<_>>(),
        "examples": [super::events::example(EventName::EmailReceived)],
    });
    vec![("Event", event)]
}

fn category(about: &str) -> Value {
    word(about, Category::ALL, Category::as_str)
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
