//! Inbound Email: who may write to an Agent, under which addresses, and what came of it.

use serde_json::{Value, json};

use super::super::description::Description;
use super::super::error::Code;
use super::super::schema::{
    Fields, anything, count, date, flag, id, id_text, like, limit, list, mailbox, moment, object,
    one_of, open, or_null, pattern, reference, text, texts, uuid, with, within, word,
};
use super::super::verb::Verb::{Delete, Get, Post, Put};
use crate::domain::reason::Reason;
use crate::domain::source::Source;
use crate::rules::AccessRules;

const MODES: [&str; 2] = ["allowlist", "open"];
const VERDICTS: [&str; 3] = ["accepted", "refused", "deferred"];
const TOTAL: &str = "How many senders are on the list now.";

/// What the area offers.
pub(super) fn operations(rules: &AccessRules) -> Vec<Description> {
    [policy(rules), whitelist(rules), addresses(), domains(), intake(rules)].concat()
}

/// The shapes that it shows more than once.
pub(super) fn shapes() -> Vec<(&'static str, Value)> {
    vec![
        ("InboundPolicy", inbound_policy()),
        ("IntakeRecord", object("What became of a message for one recipient.", record())),
        ("WholeIntakeRecord", object("The same with its evidence.", whole_record())),
        ("PreviewChange", preview_change()),
        ("Domain", domain()),
        ("AgentAddress", agent_address()),
    ]
}

fn policy(rules: &AccessRules) -> Vec<Description> {
    let most = u64::from(rules.limits.max_preview);
    let mode = "allowlist admits the senders of the list, open any that is authenticated.";
    let list = |about: &str| {
        let listed = with(texts(about), "minItems", json!(1));
        let listed = with(listed, "maxItems", json!(rules.limits.max_addresses_per_call));
        like(listed, json!(["boss@good.example"]))
    };
    let tally = |about: &str| {
        object(about, VERDICTS.iter().map(|word| (*word, count("How many."))).collect())
    };
    let counts = vec![
        ("was", tally("By what became of them.")),
        ("would", tally("By what would have become of them.")),
        ("changed", count("How many would have been answered differently.")),
    ];
    let about_examined = format!("How many messages were looked at, at most {most}.");
    vec![
        Description::of(Get, "/email/inboundPolicy", "Shows who may write to an Agent").answer(
            200,
            "inbound policy found",
            vec![("policy", reference("InboundPolicy"))],
        ),
        Description::of(Put, "/email/inboundPolicy", "Sets who may write to an Agent")
            .body(vec![("mode", one_of(mode, &MODES))])
            .answer(200, "inbound policy set", vec![("policy", reference("InboundPolicy"))]),
        Description::of(
            Post,
            "/email/inboundPolicy/preview",
            "Shows what a draft of a policy would change",
        )
        .about(
            "Of the last days, or of one message (as text, or in base64). Nothing is changed. Send days \
             or eml.",
        )
        .body(vec![
            ("mode?", one_of(mode, &MODES)),
            ("add?", list("Senders that the draft adds to the list.")),
            ("remove?", list("Senders that it removes.")),
            ("days?", within("How far back to look.", 1..=3650)),
            ("eml?", text("A message, or its base64.")),
        ])
        .sent(json!({ "mode": "open", "days": 7 }))
        .answer(
            200,
            "inbound policy previewed; nothing was changed",
            vec![
                ("examined", count(&about_examined)),
                ("complete", flag("Whether that were all of that time.")),
                ("since?", date("From when on messages were looked at.")),
                (
                    "changed",
                    super::super::schema::list("What would have changed.", reference("PreviewChange")),
                ),
                ("counts", object("In numbers.", counts)),
                ("current?", reference("WholeIntakeRecord")),
                ("draft?", reference("WholeIntakeRecord")),
            ],
        ),
    ]
}

fn inbound_policy() -> Value {
    object(
        "Who may write to an Agent.",
        vec![
            ("accountId", id("The Agent.")),
            ("mode", one_of("Whom it admits.", &MODES)),
            ("allowlistCount", count(TOTAL)),
            ("updatedAt", date("When it was changed last.")),
        ],
    )
}

fn preview_change() -> Value {
    let reason = |about| or_null(word(about, Reason::ALL, Reason::as_str));
    object(
        "A message that would have been answered differently.",
        vec![
            ("intakeId", or_null(uuid("Its record; null of one that was sent to be looked at."))),
            ("sender", or_null(mailbox("Who wrote."))),
            ("date", date("When it came.")),
            ("was", one_of("What became of it.", &VERDICTS)),
            ("wasReason", reason("Why; null if it was accepted.")),
            ("would", one_of("What would have.", &VERDICTS)),
            ("wouldReason", reason("Why; null if it would have been accepted.")),
        ],
    )
}

fn whitelist(rules: &AccessRules) -> Vec<Description> {
    const PATH: &str = "/email/inboundWhitelist";
    let most = rules.limits.max_addresses_per_call;
    let many = || {
        let emails = with(texts("Several at once: all are taken, or none."), "minItems", json!(1));
        with(like(emails, json!(["boss@good.example"])), "maxItems", json!(most))
    };
    let given = || vec![("email?", mailbox("A sender.")), ("emails?", many())];
    let entry = object(
        "A sender.",
        vec![
            ("email", mailbox("Its address, normalised.")),
            ("note", or_null(text("What was said of it."))),
            ("addedAt", date("When it was added.")),
        ],
    );
    let warning = object(
        "What is remarkable about a sender that was named.",
        vec![("email", mailbox("The sender.")), ("warning", text("What it may be taken for."))],
    );
    let note =
        with(text("Why they are on the list."), "maxLength", json!(rules.limits.max_note_bytes));
    let added = vec![("email?", mailbox("A sender.")), ("emails?", many()), ("note?", note)];
    vec![
        Description::of(Get, PATH, "Lists the senders that an Agent admits")
            .query(vec![
                ("limit?", limit(rules)),
                ("after?", mailbox("The next of the page before.")),
            ])
            .answer(
                200,
                "inbound whitelist found",
                vec![
                    ("whitelist", list("In the order of their addresses.", entry)),
                    ("count", count("How many are on this page.")),
                    ("total", count(TOTAL)),
                    ("next", or_null(mailbox("Where the next page begins, if there is one."))),
                ],
            ),
        Description::of(Post, PATH, "Adds senders to those that an Agent admits")
            .about("Send email or emails. All are added, or none if one of them is no address.")
            .body(added)
            .sent(json!({ "email": "boss@good.example", "note": "The boss" }))
            .answer(
                200,
                "senders are on the inbound whitelist",
                vec![
                    ("added", texts("Those that were not on it, normalised.")),
                    ("existing", texts("Those that were.")),
                    ("total", count(TOTAL)),
                    ("warnings", list("What to look at again.", warning)),
                ],
            )
            .fails(&[Code::Conflict]),
        Description::of(Delete, PATH, "Removes senders from those that an Agent admits")
            .about("Name them once: as email in the query, or as email or emails in the body.")
            .query(vec![("email?", mailbox("A sender."))])
            .body(given())
            .sent(json!({ "email": "boss@good.example" }))
            .answer(
                200,
                "senders are not on the inbound whitelist",
                vec![
                    ("removed", texts("Those that were on it.")),
                    ("missing", texts("Those that were not.")),
                    ("total", count(TOTAL)),
                ],
            ),
    ]
}

fn agent_address() -> Value {
    object(
        "An address of an Agent.",
        vec![
            ("address", like(mailbox("Under which it receives."), "support@agents.example")),
            (
                "catchAll",
                flag("Whether it gets what nobody else in the domain has an address for."),
            ),
        ],
    )
}

fn addresses() -> Vec<Description> {
    const PATH: &str = "/email/addresses";
    let shown = || vec![("addresses", list("All of the Agent.", reference("AgentAddress")))];
    let address = || like(mailbox("The address."), "support@agents.example");
    vec![
        Description::of(Get, PATH, "Lists the addresses of an Agent").answer(
            200,
            "addresses found",
            shown(),
        ),
        Description::of(Post, PATH, "Gives an Agent an address")
            .about("In a domain of an account above it.")
            .body(vec![
                ("address", address()),
                ("catchAll?", flag("Whether it gets what nobody else in the domain gets.")),
            ])
            .answer(201, "the Agent has the address", shown())
            .fails(&[Code::Conflict]),
        Description::of(Delete, PATH, "Takes an address from an Agent")
            .about("Name it once: in the query or in the body.")
            .query(vec![("address?", address())])
            .body(vec![("address?", address())])
            .answer(200, "the Agent no longer has the address", shown())
            .fails(&[Code::NotFound]),
    ]
}

fn domain() -> Value {
    object(
        "A mail domain of an account, or one that it claims.",
        vec![
            ("domain", like(text("Its name."), "agents.example")),
            ("accountId", id("Whose it is.")),
            ("verified", flag("Whether it is proven.")),
            (
                "challenge",
                or_null(text("What the TXT record _gatepost.<domain> must say until then.")),
            ),
        ],
    )
}

fn domains() -> Vec<Description> {
    let shown = || vec![("domains", list("All of the account.", reference("Domain")))];
    let name = || like(text("The domain."), "agents.example");
    vec![
        Description::of(Get, "/domains", "Lists the mail domains of an account").answer(
            200,
            "domains found",
            shown(),
        ),
        Description::of(Post, "/domain", "Claims a mail domain, or looks for its proof")
            .about("Sent again once the TXT record is published, it says whether that was found.")
            .body(vec![("domain", name())])
            .answer(201, "agents.example belongs to the account", shown())
            .fails(&[Code::Conflict]),
        Description::of(Delete, "/domain", "Gives a mail domain up")
            .about("Name it once: in the query or in the body.")
            .query(vec![("domain?", name())])
            .body(vec![("domain?", name())])
            .answer(200, "the account no longer has the domain", shown())
            .fails(&[Code::NotFound, Code::Conflict]),
    ]
}

fn intake(rules: &AccessRules) -> Vec<Description> {
    let reasons = word("Only of this reason.", Reason::ALL, Reason::as_str);
    vec![
        Description::of(Get, "/email/intake", "Lists what became of messages")
            .about("The newest first. A page may end before it is full: next goes on behind it.")
            .query(vec![
                ("agent?", id_text("Only of this Agent.")),
                (
                    "sender?",
                    mailbox("Only from this sender; of other sources as sms:+15551231234."),
                ),
                ("recipient?", with(text("Only for this recipient."), "maxLength", json!(256))),
                ("verdict?", one_of("Only with this verdict.", &VERDICTS)),
                ("reason?", reasons),
                ("since?", moment("Only from then on.")),
                ("until?", moment("Only before.")),
                ("limit?", limit(rules)),
                ("after?", text("The next of the page before.")),
            ])
            .answer(
                200,
                "intake records found",
                vec![
                    ("intake", list("The newest first.", reference("IntakeRecord"))),
                    ("next", or_null(text("Where the next page begins, if there is one."))),
                ],
            ),
        Description::of(Get, "/email/intake/{id}", "Shows what became of a message, and why")
            .path(vec![("id", uuid("The record."))])
            .answer(200, "intake record found", vec![("intake", reference("WholeIntakeRecord"))]),
    ]
}

fn record() -> Fields {
    let address = pattern("From where it was sent.", "^[0-9a-fA-F.:]+$", "192.0.2.7");
    vec![
        ("id", or_null(uuid("Of the record; null of one that is not kept."))),
        ("date", date("When it came.")),
        ("source", word("By which way it came.", Source::ALL, Source::as_str)),
        ("agentId", or_null(id("The Agent; null where nobody has the address."))),
        ("recipient", like(text("For whom it was, as sent."), "support@agents.example")),
        ("sender", or_null(mailbox("Who wrote, by the From field; null where it is not one."))),
        ("envelopeFrom", like(text("The reverse-path, as sent."), "bounce@good.example")),
        ("remoteAddress", address),
        ("helo", like(text("How the sending server called itself."), "mx.good.example")),
        ("verdict", one_of("What became of it.", &VERDICTS)),
        ("reason", or_null(word("Why; null if it was accepted.", Reason::ALL, Reason::as_str))),
        ("explanation", text("The same in plain words.")),
        ("messageUuid", or_null(uuid("The message, if it was accepted."))),
        ("count", count("How often; more than once only where one record counts many.")),
    ]
}

fn whole_record() -> Fields {
    let answer =
        open("An answer of DNS that was used.", vec![("name", text("What was asked for."))]);
    let step = open(
        "One thing that was looked at.",
        vec![
            ("name", like(text("What it was."), "dkim")),
            ("result", like(text("What came of it."), "pass")),
            ("detail?", or_null(text("The same in plain words."))),
            ("inputs?", anything("What it was decided by.")),
            ("dns?", list("What was looked up for it.", answer)),
            ("micros?", count("How long it took, in microseconds.")),
        ],
    );
    let mut fields = record();
    fields.extend([
        ("size", count("Octets of the message; 0 where none was sent.")),
        (
            "sha256",
            or_null(text("Of the message, in hexadecimal; null where none was read whole.")),
        ),
        ("headers", text("Its header section, cut where it is long.")),
        ("steps", list("In the order in which they were taken.", step)),
        ("advice", or_null(text("What can be done about it; null if it was accepted."))),
    ]);
    fields
}
