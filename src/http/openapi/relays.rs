//! Relays: the application of an account that is asked before a message is processed, and where
//! providers post what they received.

use serde_json::{Value, json};

use super::super::description::Description;
use super::super::error::Code;
use super::super::schema::{
    Fields, count, date, flag, id, like, list, object, or_null, reference, text, uuid, with,
    within, word,
};
use super::super::verb::Verb::{Delete, Get, Post};
use crate::app::tenancy::details::MASK;
use crate::domain::relay::{HopOutcome, RelayType};
use crate::rules::AccessRules;

const ONE: &str = "/webhookRelay/{type}";

/// What the area offers.
pub(super) fn operations(_rules: &AccessRules) -> Vec<Description> {
    let told = object(
        "A type.",
        vec![
            ("name", kind("What it is called.")),
            ("description", text("What is relayed, and what it takes.")),
        ],
    );
    vec![
        Description::of(Get, "/webhookRelay/types", "Lists the types of relays that can be set up")
            .answer(200, "relay types found", vec![("types", list("All of them.", told))]),
        Description::of(Get, "/webhookRelay", "Lists the relays of an account")
            .about("Its own, not those of the accounts above it.")
            .answer(
                200,
                "relays found",
                vec![("configs", list("One of each type at most.", reference("Relay")))],
            )
            .fails(&[Code::Conflict]),
        Description::of(Get, ONE, "Shows the relay of this type, with its last attempts")
            .path(in_path())
            .answer(200, "relay found", vec![("config", reference("WholeRelay"))])
            .fails(&[Code::Conflict]),
        set(),
        Description::of(Delete, ONE, "Removes the relay of this type")
            .about(
                "What comes in is processed without it from now on. Where the provider posts, and \
                 what proves that it did, stays.",
            )
            .path(in_path())
            .answer(
                200,
                "relay deleted: what comes in is processed without it from now on",
                Fields::new(),
            ),
    ]
}

/// The shapes that it shows more than once.
pub(super) fn shapes() -> Vec<(&'static str, Value)> {
    let mut whole = relay();
    whole.push(("attempts", list("The newest first; only the last are kept.", attempt())));
    vec![
        ("Relay", object("What an account has of one type.", relay())),
        ("WholeRelay", object("The same with the last attempts.", whole)),
    ]
}

fn kind(about: &str) -> Value {
    word(about, RelayType::ALL, RelayType::as_str)
}

fn in_path() -> Fields {
    vec![("type", kind("What is relayed."))]
}

fn set() -> Description {
    let body = vec![
        ("url?", url("Where the application listens, https. Without it only the way in changes.")),
        ("timeout?", timeout()),
        ("headers?", headers()),
        ("successStatusCodes?", codes()),
        (
            "rotateInboundKey?",
            flag("Whether the way in gets a new key; the one before opens nothing any more."),
        ),
        ("verification?", with(verification(), "additionalProperties", json!(false))),
    ];
    let secret =
        text("What its requests are signed with: in the answer that makes it, in no other.");
    Description::of(Post, ONE, "Sets the relay of this type, or changes it")
        .about(
            "What is not sent stays. The application has the first word on each message: where it \
             answers with a success the message is processed, with 406 it is refused, and \
             anything else defers it. Of the relays of an Agent and of the accounts above it the \
             nearest counts. All types but smtp have a way in: the provider posts to inboundUrl, \
             /inbound/{type}/{inboundKey} with a key of its own, and without a token.",
        )
        .path(in_path())
        .body(body)
        .sent(json!({
            "url": "https://app.example/inbound",
            "timeout": 5000,
            "headers": [{ "Authorization": "Bearer …" }],
            "successStatusCodes": [200, 202],
        }))
        .answer(
            200,
            "relay set; its secret is shown this once",
            vec![("config", reference("WholeRelay")), ("secret?", like(secret, "whsec_…"))],
        )
}

fn url(about: &str) -> Value {
    like(text(about), "https://app.example/inbound")
}

fn timeout() -> Value {
    like(count("How long the application may take, in milliseconds."), 5000)
}

fn headers() -> Value {
    list("What is sent with each request.", reference("CustomHeader"))
}

fn codes() -> Value {
    let codes = within("One of them.", 200..=599);
    let codes = list("What it answers where a message may go on; none means 200 to 299.", codes);
    like(codes, json!([200, 202]))
}

fn relay() -> Fields {
    let way = text("Where the provider posts, with a key in it: for the provider and nobody else.");
    vec![
        ("type", kind("What is relayed.")),
        ("url", or_null(url("Where the application listens; null while there is only a way in."))),
        ("timeout", or_null(timeout())),
        ("headers", headers()),
        ("successStatusCodes", codes()),
        ("inboundUrl?", like(way, "https://gatepost.example/inbound/mailgun/gpi_…/mime")),
        ("verification?", verification()),
    ]
}

fn verification() -> Value {
    let shown = object(
        "What proves that the provider posted. Answers show ******** in the place of a secret, \
         which leaves it as it is when it is sent back; null takes one away.",
        vec![
            (
                "signingKey?",
                or_null(text("Of Mailgun, required there: the HTTP webhook signing key.")),
            ),
            ("publicKey?", or_null(text("Of SendGrid: the key of its signed webhook, in base64."))),
            ("username?", or_null(text("Of Postmark: the name in the URL that it is given."))),
            ("password?", or_null(text("Of Postmark: the password there."))),
            ("topicArn?", or_null(text("Of SES: the one topic of SNS that may post."))),
        ],
    );
    like(shown, json!({ "signingKey": MASK }))
}

fn attempt() -> Value {
    object(
        "A request to the application.",
        vec![
            ("id", uuid("Of the attempt.")),
            ("accountId", id("The Agent of the mail, or the account whose provider posted.")),
            ("date", date("When it was made.")),
            ("outcome", word("What came of it.", HopOutcome::ALL, HopOutcome::as_str)),
            ("status", or_null(like(count("What was answered, if anything was."), 200))),
            ("latencyMs", count("After how long.")),
            ("error", or_null(text("Why the message was deferred, if it was."))),
        ],
    )
}
