//! Who has access to an account: its members; and what they did.

use serde_json::{Value, json};

use super::super::description::Description;
use super::super::error::Code;
use super::super::schema::{
    anything, count, cursor, date, flag, id, id_given, id_text, ids, like, limit, list, mailbox,
    moment, object, one_of, or_null, reference, text, uuid, with, word,
};
use super::super::verb::Verb::{Delete, Get, Post, Put};
use crate::domain::audit::Deed;
use crate::domain::member::Role;
use crate::rules::AccessRules;

/// What the area offers.
pub(super) fn operations(rules: &AccessRules) -> Vec<Description> {
    [members(rules), audit(rules)].concat()
}

/// The shapes that it shows more than once.
pub(super) fn shapes() -> Vec<(&'static str, Value)> {
    let member = vec![
        ("id", id("Of the member.")),
        ("accountType", json!({ "const": "user", "description": "Always user." })),
        ("username", mailbox("Its address.")),
        ("email", mailbox("Its address.")),
        ("role", role("What it may do.")),
        ("permittedAccountIds", ids("The Agents that it is restricted to; empty for all.")),
        ("accountId", id("The account that it belongs to.")),
        ("organizationId", id("The same, as v2 has it.")),
        ("resellerId", or_null(id("The reseller above."))),
        ("partnerId", or_null(id("The partner above."))),
        ("timestamp", count("When it was invited, in Unix milliseconds.")),
        ("createdAt", date("The same.")),
    ];
    vec![("Member", object("Somebody with access to an account.", member)), ("AuditEntry", entry())]
}

fn role(about: &str) -> Value {
    word(about, Role::ALL, Role::as_str)
}

fn members(rules: &AccessRules) -> Vec<Description> {
    const PATH: &str = "/member";
    let named = || id_text("The member.");
    let shown = || vec![("member", reference("Member"))];
    let permitted = || {
        let agents =
            list("The Agents that it is restricted to; empty for all.", id_given("An Agent."));
        with(agents, "maxItems", json!(rules.members.max_permitted))
    };
    let url = like(text("Where the invitation should lead."), "https://app.example/welcome");
    vec![
        Description::of(Get, "/members", "Lists the members of an account").answer(
            200,
            "members found",
            vec![
                ("count", count("How many there are.")),
                ("members", list("Oldest first.", reference("Member"))),
            ],
        ),
        Description::of(Get, PATH, "Shows a member")
            .query(vec![("targetMemberId", named())])
            .answer(200, "member found", shown())
            .fails(&[Code::NotFound]),
        Description::of(Post, PATH, "Invites a member")
            .about("Nothing is sent to it: the event member.invited says what was asked for.")
            .body(vec![
                ("email", mailbox("Who is invited.")),
                ("redirectUrl?", url),
                ("role?", role("What it may do; without it the narrower one.")),
                ("permittedAccountIds?", or_null(permitted())),
                ("sendWelcomeEmail?", flag("Whether it should be welcomed.")),
            ])
            .answer(201, "member invited", shown())
            .fails(&[Code::Conflict]),
        Description::of(Put, PATH, "Changes a member")
            .about("What is not there stays as it is.")
            .body(vec![
                ("targetMemberId", id_given("The member.")),
                ("email?", mailbox("Its address.")),
                ("role?", role("What it may do.")),
                ("permittedAccountIds?", permitted()),
            ])
            .answer(201, "member updated", shown())
            .fails(&[Code::NotFound, Code::Conflict]),
        Description::of(Delete, PATH, "Removes a member; its keys stop at once")
            .about("Name it in the query or in the body.")
            .query(vec![("targetMemberId?", named())])
            .body(vec![("targetMemberId?", id_given("The member."))])
            .answer(201, "member removed", shown())
            .fails(&[Code::NotFound, Code::Conflict]),
    ]
}

fn entry() -> Value {
    let by = vec![
        ("type", one_of("What did it.", &["key", "operator", "gateway"])),
        ("keyId", or_null(uuid("The key; null where it is not shown."))),
        ("accountId", or_null(id("The account whose key it was."))),
        ("memberId", or_null(id("The member, if it was a member's."))),
    ];
    object(
        "Something that was done, or refused.",
        vec![
            ("id", uuid("Of the entry.")),
            ("date", date("When.")),
            ("timestamp", count("The same in Unix seconds.")),
            ("action", word("What was done.", Deed::ALL, Deed::as_str)),
            ("accountId", or_null(id("The account that it was done to."))),
            ("object", or_null(text("What of it."))),
            ("before", anything("The values before, by field.")),
            ("after", anything("The values behind, by field.")),
            ("by", object("Who did it.", by)),
            ("remoteAddress", or_null(like(text("From where."), "192.0.2.7"))),
            ("requestId", or_null(uuid("By which request."))),
            ("count", count("How often, where one entry counts several.")),
        ],
    )
}

fn audit(rules: &AccessRules) -> Vec<Description> {
    vec![
        Description::of(Get, "/audit", "Lists who did what to an account and to all below it")
            .about("The newest first. A page may end before it is full: Link leads on behind it.")
            .query(vec![
                ("action?", word("Only this.", Deed::ALL, Deed::as_str)),
                ("actor?", like(text("Only by this key, account or member."), "operator")),
                ("since?", moment("Only from then on.")),
                ("until?", moment("Only before.")),
                ("limit?", limit(rules)),
                ("before?", cursor("Older ones than this place.")),
                ("after?", cursor("Newer ones than this place.")),
            ])
            .answer(
                200,
                "audit log found",
                vec![("audit", list("The newest first.", reference("AuditEntry")))],
            )
            .pages(),
    ]
}
