//! Computer Agents: the record that stands for the worker of an Agent, what that is configured
//! with, and the sessions in which it takes conversations.

use serde_json::{Value, json};

use super::super::description::Description;
use super::super::error::Code;
use super::super::schema::{
    Fields, anything, count, date, flag, id, id_text, ids, like, limit, list, object, one_of,
    or_null, pattern, reference, text, texts, uuid, with, word,
};
use super::super::verb::Verb::{Delete, Get, Post, Put};
use crate::app::computers::Computers;
use crate::domain::computer::ComputerState;
use crate::domain::event::Category;
use crate::rules::AccessRules;

const ONE: &str = "/computer/accounts/{targetAccountId}";

/// What the area offers.
pub(super) fn operations(rules: &AccessRules) -> Vec<Description> {
    [records(rules), life(), vec![health()], configuration(), sessions(rules)].concat()
}

/// The shapes that it shows more than once.
pub(super) fn shapes() -> Vec<(&'static str, Value)> {
    vec![("Computer", computer()), ("ComputerConfig", written()), ("ComputerSession", session())]
}

fn records(rules: &AccessRules) -> Vec<Description> {
    let one = || vec![("account", reference("Computer"))];
    let name = || ("name?", or_null(named("What it is called; null takes that away.")));
    let revision = count("Only if the configuration has it.");
    vec![
        Description::of(Get, "/computer/accounts", "Lists the computers of all Agents in scope")
            .query(vec![
                ("limit?", limit(rules)),
                ("after?", id_text("The next of the page before.")),
            ])
            .answer(
                200,
                "computers found",
                vec![
                    ("accounts", list("In the order of their Agents.", reference("Computer"))),
                    ("next", or_null(id("Where the next page begins, if there is one."))),
                ],
            ),
        Description::of(Get, ONE, "Shows the computer of an Agent").answer(
            200,
            "computer found",
            one(),
        ),
        Description::of(Post, ONE, "Makes the record of an Agent's computer")
            .about("Nothing is provisioned yet.")
            .body(vec![name(), ("config?", reference("ComputerConfig"))])
            .answer(201, "computer created", one()),
        Description::of(Put, ONE, "Changes the record of an Agent's computer")
            .about(
                "What is not sent stays; a configuration takes the place of the one before, whole.",
            )
            .body(vec![name(), ("config?", reference("ComputerConfig")), ("revision?", revision)])
            .answer(200, "computer updated", one())
            .fails(&[Code::Conflict]),
        Description::of(Delete, ONE, "Removes the record of an Agent's computer")
            .about("With its configuration, provisioned or not.")
            .body(Fields::new())
            .answer(200, "computer removed", Fields::new()),
    ]
}

fn named(about: &str) -> Value {
    like(text(about), "Mail desk")
}

fn state(about: &str) -> Value {
    like(word(about, ComputerState::ALL, ComputerState::as_str), "provisioned")
}

fn computer() -> Value {
    object(
        "The record that stands for the worker of an Agent.",
        vec![
            ("accountId", id("The Agent.")),
            ("name", or_null(named("What it is called."))),
            ("state", state("What it is at the moment.")),
            ("createdAt", date("When the record was made.")),
            ("updatedAt", date("When anything of it changed last.")),
            (
                "revision",
                count("Grows with each change of its configuration, and with nothing else."),
            ),
            ("job", job()),
        ],
    )
}

fn job() -> Value {
    let done =
        json!({ "const": "succeeded", "description": "Always succeeded: it is done at once." });
    let job = object(
        "What made it what it is; null while it only is recorded.",
        vec![
            ("id", uuid("Of the job.")),
            ("type", one_of("What was done.", &["provision", "deprovision"])),
            ("status", done),
            ("finishedAt", date("When it was done.")),
        ],
    );
    or_null(job)
}

fn life() -> Vec<Description> {
    let shown = || {
        vec![
            ("targetAccountId", id("The Agent.")),
            ("status", state("What its computer is now.")),
            ("account", reference("Computer")),
            ("job", job()),
        ]
    };
    let wipe = flag("Whether it forgets its configuration too, secrets and all.");
    vec![
        Description::of(
            Get,
            "/computer/accounts/{targetAccountId}/status",
            "Shows that an Agent's computer is provisioned",
        )
        .about("404 if it is not.")
        .answer(200, "computer is provisioned", shown()),
        Description::of(
            Post,
            "/computer/accounts/{targetAccountId}/provision",
            "Provisions an Agent's computer",
        )
        .about("Where there is no record, one is made.")
        .body(Fields::new())
        .answer(202, "computer is provisioned", shown())
        .answer(200, "computer was provisioned before", shown()),
        Description::of(
            Post,
            "/computer/accounts/{targetAccountId}/deprovision",
            "Deprovisions an Agent's computer",
        )
        .about("Its configuration is kept, unless wipeState says no.")
        .body(vec![("wipeState?", like(wipe, false))])
        .answer(202, "computer is deprovisioned", shown())
        .answer(200, "computer was deprovisioned before", shown()),
    ]
}

fn health() -> Description {
    let told = [Category::Incoming, Category::Conversation];
    let way = object(
        "A webhook.",
        vec![
            ("id", uuid("Of the webhook.")),
            ("type", word("What it gets.", &told, Category::as_str)),
            ("disabled", like(flag("Whether nothing is sent to it."), false)),
            ("failures", count("How often it failed since it last succeeded.")),
            ("failingSince", or_null(date("Since when it fails, if it does."))),
            ("lastDeliveredAt", or_null(date("When it took something last."))),
            (
                "waiting",
                or_null(count("How much waits for it, up to a bound; null without probe.")),
            ),
        ],
    );
    let codes = ["not_provisioned", "webhook_failing", "no_way", "key_only"];
    let finding = object(
        "Something that is not as it should be.",
        vec![
            ("code", one_of("What it is, for programs.", &codes)),
            ("severity", one_of("How bad it is.", &["error", "warning"])),
            ("detail", text("The same in plain words, and what to do.")),
        ],
    );
    Description::of(
        Get,
        "/computer/accounts/{targetAccountId}/runtime/health",
        "Shows how work reaches an Agent's computer",
    )
    .query(vec![(
        "probe?",
        one_of("Whether what waits for each webhook is counted.", &["true", "false"]),
    )])
    .answer(
        200,
        "health of the computer",
        vec![
            ("targetAccountId", id("The Agent.")),
            ("status", one_of("In one word.", &["healthy", "degraded", "stopped", "unknown"])),
            ("state", state("What the computer is at the moment.")),
            (
                "keyLastUsedAt",
                or_null(date("When a key of the Agent was used last, to the hour or so.")),
            ),
            ("webhooks", list("Those of the Agent that tell of messages.", way)),
            ("findings", list("None if all is well.", finding)),
        ],
    )
}

/// As `GET …/config/schema` tells it, so that neither says what the other does not.
fn written() -> Value {
    let mut schema = Computers::schema();
    if let Value::Object(keywords) = &mut schema {
        // The dialect is that of the whole document.
        keywords.remove("$schema");
    }
    let about = "What a computer is configured with, as it is written. What is left out is as its \
                 default says. Answers show ******** in the place of a secret, which leaves it \
                 as it is when it is sent back.";
    let example = json!({ "instructions": "Answer what the manual answers.", "pollSeconds": 10 });
    like(with(schema, "description", about.into()), example)
}

fn configuration() -> Vec<Description> {
    let shown = || {
        let effective = anything("What is in effect: what was not written is as its default says.");
        let effective = like(effective, json!({ "pollSeconds": 10, "maxConcurrency": 1 }));
        vec![
            ("targetAccountId", id("The Agent.")),
            ("agentIds", like(ids("The Agents that it counts for: this one."), json!([7]))),
            ("revision", count("Grows with each change: a patch names it.")),
            ("authoredConfig", reference("ComputerConfig")),
            ("effectiveConfig", effective),
        ]
    };
    let schema = anything("Of configurations, in JSON Schema 2020-12.");
    let patch = anything("What is to change: objects are merged, and null takes away (RFC 7386).");
    let whole =
        texts("Where the patch replaces an object instead of being merged into it (RFC 6901).");
    vec![
        Description::of(
            Get,
            "/computer/accounts/{targetAccountId}/config",
            "Shows what an Agent's computer is configured with",
        )
        .answer(200, "configuration found", shown()),
        Description::of(
            Get,
            "/computer/accounts/{targetAccountId}/config/schema",
            "Shows the schema of configurations",
        )
        .answer(
            200,
            "schema of configurations",
            vec![
                ("targetAccountId", id("The Agent.")),
                ("schema", like(schema, json!({ "type": "object" }))),
            ],
        ),
        Description::of(
            Post,
            "/computer/accounts/{targetAccountId}/config/patch",
            "Merges a patch into the configuration",
        )
        .about("All of it holds, or nothing if it would not be a configuration.")
        .body(vec![
            ("revision", count("The one that the patch is meant for.")),
            ("patch", like(patch, json!({ "labels": { "desk": "mail" } }))),
            ("replacePaths?", like(whole, json!(["/labels"]))),
        ])
        .answer(200, "configuration patched", shown()),
    ]
}

fn room(about: &str) -> Value {
    pattern(about, "^[1-9][0-9]{0,15}:[1-9][0-9]{0,15}$", "41:7")
}

fn session_key(about: &str) -> Value {
    let spelled = "^[1-9][0-9]{0,15}:[1-9][0-9]{0,15}:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$";
    pattern(about, spelled, "41:7:019a9e5c-7c80-7000-8000-000000000001")
}

fn session() -> Value {
    let reason = text("Why, in the words of whoever reset it.");
    object(
        "A part of the conversation of a room, which a worker takes as one.",
        vec![
            ("sessionKey", session_key("What a worker knows it by.")),
            ("roomId", room("Its room: contact and Agent.")),
            ("targetAccountId", id("The Agent.")),
            ("contactId", id("The contact.")),
            ("state", one_of("Whether it goes on.", &["active", "ended"])),
            ("startedAt", date("When it began.")),
            ("lastMessageAt", or_null(date("When the latest message of the room came."))),
            ("endedAt", or_null(date("When it was reset, if it was."))),
            ("reason", or_null(like(reason, "The customer asked for it."))),
            ("messages", count("How many came in it, those that are gone by now among them.")),
        ],
    )
}

fn sessions(rules: &AccessRules) -> Vec<Description> {
    let one = || reference("ComputerSession");
    let reset = "The one that was reset; null if nothing had come in it, so that it goes on.";
    let ended = with(or_null(one()), "description", reset.into());
    vec![
        Description::of(Get, "/computer/sessions", "Lists the sessions that go on")
            .about("Those of all rooms in scope, or of one room also those that were reset.")
            .query(vec![
                ("roomId?", room("Only those of this room.")),
                ("limit?", limit(rules)),
                ("after?", text("The next of the page before.")),
            ])
            .answer(
                200,
                "sessions found",
                vec![
                    ("sessions", list("The one with the latest message first.", one())),
                    ("next", or_null(text("Where the next page begins, if there is one."))),
                ],
            )
            .fails(&[Code::NotFound]),
        Description::of(Post, "/computer/sessions/reset", "Ends a session")
            .about("The next message of its room comes in another one, which the answer names.")
            .body(vec![
                ("sessionKey", session_key("The session.")),
                ("reason?", like(text("Why, in your words."), "The customer asked for it.")),
            ])
            .answer(200, "session reset", vec![("session", one()), ("ended", ended)])
            .fails(&[Code::NotFound]),
        Description::of(
            Post,
            "/computer/accounts/{targetAccountId}/session/resolve",
            "Shows the session of this key, and the room behind it",
        )
        .about("Without a key that of the Agent's latest conversation.")
        .body(vec![("sessionKey?", session_key("A session of the Agent, which may be reset."))])
        .answer(
            200,
            "session resolved",
            vec![
                ("session", one()),
                ("roomId", room("Its room, which GET /messages/{roomId} reads.")),
                ("chatRef", room("The same, as v2 has it.")),
            ],
        ),
    ]
}
