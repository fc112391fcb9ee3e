//! Messaging: messages, rooms, contacts, and what an account's own platform hands in.

use serde_json::{Value, json};

use super::super::description::Description;
use super::super::error::Code;
use super::super::schema::{
    Fields, anything, count, cursor, date, flag, id, id_given, id_text, like, limit, list, mailbox,
    moment, object, one_of, open, or_null, pattern, reference, seconds, text, uuid, with, within,
    word,
};
use super::super::verb::Verb::{Delete, Get, Post};
use crate::domain::source::{Inbox, Source};
use crate::rules::AccessRules;

/// What the area offers.
pub(super) fn operations(rules: &AccessRules) -> Vec<Description> {
    [messages(rules), rooms(rules), conversations(rules), files(), erasing(), received(rules)]
        .concat()
}

/// The shapes that it shows more than once.
pub(super) fn shapes() -> Vec<(&'static str, Value)> {
    vec![("Room", a_room()), ("Turn", turn()), ("Contact", contact())]
}

fn room(about: &str) -> Value {
    pattern(about, "^[1-9][0-9]{0,15}:[1-9][0-9]{0,15}$", "41:7")
}

fn source(about: &str) -> Value {
    word(about, Source::ALL, Source::as_str)
}

fn paging(rules: &AccessRules) -> Fields {
    vec![
        ("limit?", limit(rules)),
        ("before?", cursor("Older ones than this place.")),
        ("after?", cursor("Newer ones than this place.")),
    ]
}

fn messages(rules: &AccessRules) -> Vec<Description> {
    let records = || list("The newest first.", reference("MessageRecord"));
    let search = vec![
        ("q", like(text("Words that the messages have; \"…\" for a phrase."), "invoice")),
        ("since?", moment("Only from then on.")),
        ("until?", moment("Only before.")),
        ("source?", source("Only those that came this way.")),
    ];
    vec![
        Description::of(Get, "/messages/recent", "Lists the latest messages of all Agents")
            .query(paging(rules))
            .bare(200, "The newest first.", records())
            .pages(),
        Description::of(Get, "/messages/search", "Finds messages")
            .about(
                "A page that has read as much as one request may ends before it is full, or even \
                 empty: the header X-Search-Ended-Early says so and how to narrow q, and Link leads \
                 on behind it.",
            )
            .query([search, paging(rules)].concat())
            .bare(200, "The newest first.", records())
            .pages(),
        Description::of(Get, "/messages/{roomId}", "Lists the messages of a room")
            .path(vec![("roomId", room("The room: contact and Agent."))])
            .query([paging(rules), vec![("thread?", uuid("Only of this thread."))]].concat())
            .bare(200, "The newest first.", records())
            .pages(),
    ]
}

fn a_room() -> Value {
    object(
        "The conversation of a contact with an Agent.",
        vec![
            ("roomId", room("Contact and Agent.")),
            ("name", like(text("Of the contact, or its address."), "The Boss")),
            ("id", id("The contact.")),
            ("image", json!({ "type": "null", "description": "Known from v2; always null." })),
            (
                "servicePhoneNumber",
                json!({ "type": "null", "description": "Known from v2; always null." }),
            ),
            ("unregistered", flag("Always false.")),
            ("unregisteredDisplayName", or_null(text("The contact's number; null of mail."))),
            ("destinationInboxType", word("Where it is shown.", Inbox::ALL, Inbox::as_str)),
            ("lastMessage", or_null(text("The beginning of the latest message."))),
            ("lastMessageTimestamp", seconds("When that came, in Unix seconds.")),
            (
                "chatAgentCampaignId",
                json!({ "type": "null", "description": "Known from v2; always null." }),
            ),
            ("agentId", id("The Agent.")),
            ("address", mailbox("Of the contact.")),
            ("source", source("By which way it writes.")),
            ("lastMessageUuid", uuid("The latest message.")),
            ("messages", count("How many there are.")),
            ("unread", count("How many of them are new.")),
            ("startedAt", date("When the first one came.")),
        ],
    )
}

fn rooms(rules: &AccessRules) -> Vec<Description> {
    let limits = &rules.limits;
    let query = || {
        vec![
            ("pagination?", one_of("Rooms are listed page by page only.", &["true"])),
            ("page?", within("Its number, from 0.", 0..=limits.max_walk.into())),
            ("pageSize?", within("How many are on a page.", 1..=limits.max_page.into())),
            ("unread?", one_of("true: only those with something new.", &["true", "false"])),
            ("before?", text("The next of the page before.")),
        ]
    };
    let page = || {
        let fields = vec![
            ("pageSize", count("How many are on a page.")),
            ("pageNumber", count("Its number, from 0.")),
            ("totalRooms", count("How many there are.")),
            ("rooms", list("The one with the latest message first.", reference("Room"))),
            ("next", or_null(text("Where the next page begins, if there is one."))),
        ];
        object("A page of rooms; v2 answers it without its envelope.", fields)
    };
    let of = |path, summary| {
        Description::of(Get, path, summary).query(query()).bare(200, "Rooms.", page())
    };
    let contacts = vec![
        ("contacts", list("Those who wrote for the first time last first.", reference("Contact"))),
        ("next", or_null(id("Where the next page begins, if there is one."))),
    ];
    vec![
        of("/conversations", "Lists the rooms of the inbox"),
        of("/junkConversations", "Lists the rooms whose latest message is junk"),
        Description::of(Get, "/contacts", "Lists who wrote")
            .query(vec![
                ("limit?", limit(rules)),
                ("after?", id_text("The next of the page before.")),
            ])
            .answer(200, "contacts found", contacts),
    ]
}

fn contact() -> Value {
    object(
        "Somebody who wrote.",
        vec![
            ("id", id("Of the contact.")),
            ("name", or_null(text("The display name that it used last."))),
            (
                "email",
                or_null(mailbox("Its mailbox, proven; null of one that does not write mail.")),
            ),
            ("address", mailbox("Under what it writes: the mailbox, a number, a name.")),
            ("source", source("By which way it writes.")),
            ("organizationId", id("Whose contact it is.")),
            ("firstSeen", date("When it first wrote.")),
            ("lastSeen", date("When it last wrote.")),
        ],
    )
}

fn turn() -> Value {
    object(
        "A message of a conversation.",
        vec![
            ("uuid", uuid("The message.")),
            (
                "role",
                one_of("Who said it: everybody who writes to an Agent is its user.", &["user"]),
            ),
            ("message", text("What was said, without what it quotes.")),
            ("timestamp", seconds("When, in Unix seconds.")),
            ("date", date("The same.")),
            ("source", source("By which way.")),
        ],
    )
}

fn conversations(rules: &AccessRules) -> Vec<Description> {
    let turns = || list("The oldest first.", reference("Turn"));
    // Whatever was asked for is shown again, also what names nothing.
    let result = object(
        "One of those that were asked for.",
        vec![
            ("success", flag("Whether it was found.")),
            ("roomId", like(text("As it was asked for."), "41:7")),
            ("uuid", text("As it was asked for.")),
            ("message", text("What became of it.")),
            ("conversation", turns()),
        ],
    );
    let item = object(
        "A message of a room.",
        vec![("roomId", like(text("The room."), "41:7")), ("uuid", uuid("A message of it."))],
    );
    let items = with(
        list("Messages.", with(item, "additionalProperties", json!(false))),
        "minItems",
        json!(1),
    );
    let stats = vec![
        ("requested", count("How many were asked for.")),
        ("ok", count("How many were found.")),
        ("failed", count("How many were not.")),
    ];
    vec![
        Description::of(Get, "/conversation/{roomId}/{uuid}", "Shows the thread of a message")
            .path(vec![("roomId", room("The room.")), ("uuid", uuid("A message of it."))])
            .query(vec![
                ("limit?", limit(rules)),
                ("after?", cursor("The next of the page before.")),
            ])
            .answer(
                200,
                "conversation found",
                vec![
                    ("roomId", room("The room.")),
                    ("threadId", uuid("The thread.")),
                    ("next", or_null(text("Where the next page begins, if there is one."))),
                    ("conversation", turns()),
                ],
            ),
        Description::of(Post, "/conversation/batch", "Shows many threads at once")
            .about("Each has a result of its own.")
            .body(vec![
                ("items", with(items, "maxItems", json!(200))),
                ("markRead?", flag("Whether the rooms are read up to these messages.")),
            ])
            .answer(
                200,
                "conversations read, each with its own result",
                vec![
                    ("stats", object("In numbers.", stats)),
                    ("results", list("One each.", result)),
                ],
            ),
    ]
}

fn files() -> Vec<Description> {
    let headers = || {
        vec![
            ("Range?", text("Which octets of it (RFC 9110 §14.2).")),
            ("If-None-Match?", text("The ETag of what is there already.")),
        ]
    };
    let file = |description: Description| {
        description
            .headers(headers())
            .empty(304, "The client has it already.")
            .fails(&[Code::RangeNotSatisfiable])
    };
    const ORIGINALS: &[&str] = &["message/rfc822", "application/json"];
    let name = like(text("Number and name of the part, as records show it."), "3-invoice.pdf");
    let original =
        one_of("true: HTML as the octets that came, not as a harmless page.", &["true", "false"]);
    vec![
        file(
            Description::of(Get, "/messages/{uuid}/raw", "Fetches the original of a message")
                .path(vec![("uuid", uuid("The message."))])
                .file(200, "Octet for octet.", ORIGINALS)
                .file(206, "The part that was asked for.", ORIGINALS),
        ),
        file(
            Description::of(Get, "/media/{uuid}/{filename}", "Fetches a part of a message")
                .about(
                    "Types that a browser could run something in come as application/octet-stream.",
                )
                .path(vec![("uuid", uuid("The message.")), ("filename", name)])
                .query(vec![("original?", original)])
                .file(
                    200,
                    "The part.",
                    &["text/html", "text/plain", "application/octet-stream", "*/*"],
                )
                .file(
                    206,
                    "What was asked for of it.",
                    &["text/html", "text/plain", "application/octet-stream", "*/*"],
                ),
        ),
    ]
}

fn erasing() -> Vec<Description> {
    let contact = || {
        let complete = flag("Whether nothing is left to be deleted.");
        let erased = vec![("contactId", id("The contact.")), ("complete", complete)];
        vec![("erased", object("What is gone.", erased))]
    };
    let message = vec![("messageUuid", uuid("The message."))];
    vec![
        Description::of(Delete, "/messages/{uuid}", "Erases a message for good")
            .about("With its original, and what its records tell of it.")
            .path(vec![("uuid", uuid("The message."))])
            .answer(200, "message erased", vec![("erased", object("What is gone.", message))]),
        Description::of(Delete, "/contacts/{id}", "Erases a contact with all that is theirs")
            .about("Nobody reads any of it from the answer on.")
            .path(vec![("id", id_text("The contact."))])
            .answer(200, "contact erased", contact())
            .answer(202, "contact erased; what is left of it is being deleted", contact()),
    ]
}

fn received(rules: &AccessRules) -> Vec<Description> {
    let rules = &rules.received;
    let said = object("A turn.", vec![("role", text("Who.")), ("content", text("What."))]);
    let said = with(said, "additionalProperties", json!(false));
    let dialogue = |about: &str| {
        let turns = list(about, said.clone());
        with(like(turns, json!([])), "maxItems", json!(rules.max_dialog_turns))
    };
    let link = |about: &str| {
        like(with(text(about), "maxLength", json!(2048)), "https://files.example/a.pdf")
    };
    let file = open(
        "A file.",
        vec![("url", link("Where it lies, https.")), ("type?", or_null(text("Of which type.")))],
    );
    let files = with(list("Files.", file), "maxItems", json!(rules.max_attachments));
    let message = with(text("What was said."), "maxLength", json!(rules.max_text_bytes));
    let given = vec![
        (
            "source?",
            one_of("By which way it came; without it by sourceAddress.", &["sms", "chat", "call"]),
        ),
        (
            "targetAgent",
            json!({
                "anyOf": [id_given("Its id."), { "type": "string" }],
                "description": "The Agent, by id or username.", "examples": ["support"],
            }),
        ),
        ("sourceAddress", like(text("Who wrote: a number, or a name."), "+15551231234")),
        ("message", like(message, "Hello")),
        ("attachments?", like(files, json!([]))),
        ("context?", anything("What else the platform knows; threadId is read from it.")),
        ("metadata?", anything("Kept, and shown with the message.")),
        ("outboundMessageWebhookUrl?", link("Where the platform wants answers; kept.")),
        ("name?", text("How who wrote is called.")),
        ("threadId?", text("What the platform calls the thread.")),
        ("targetInbox?", word("Where it is shown.", Inbox::ALL, Inbox::as_str)),
        ("toNumber?", text("The number or name that it was sent to.")),
        ("chatDialog?", dialogue("Of a chat, what was said before.")),
        ("duration?", count("Of a call, in seconds.")),
        ("missedCall?", flag("Of a call, whether nobody took it.")),
        ("callDialog?", dialogue("Of a call, turn by turn.")),
        ("voicemailRecording?", link("Of a call, where a recording lies.")),
        ("diversion?", text("Of a call, the number that it was diverted from.")),
        ("summary?", text("Of a call, in short.")),
        ("agentOutcome?", text("Of a call, what came of it.")),
        ("cnamSpam?", flag("Of a call, whether it is from a known nuisance.")),
    ];
    vec![
        Description::of(Post, "/agent/receiveMessage", "Hands in a message from an own platform")
            .about("Answered when it is stored durably.")
            .body(given)
            .sent(json!({
                "targetAgent": "support", "sourceAddress": "+15551231234", "message": "Hello",
            }))
            .answer(
                200,
                "message received",
                vec![("messageUuid", uuid("The message.")), ("roomId", room("Its room."))],
            )
            .fails(&[Code::Conflict]),
    ]
}
