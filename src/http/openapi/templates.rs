//! Agent Templates: what many Agents are configured to be, and bringing it to them.

use serde_json::{Value, json};

use super::super::description::Description;
use super::super::error::Code;
use super::super::schema::{
    Fields, anything, count, date, flag, id, id_given, like, limit, list, object, one_of, or_null,
    reference, text, texts, uuid, with, within,
};
use super::super::verb::Verb::{Delete, Get, Post};
use crate::rules::AccessRules;

const LARGEST: u64 = 9_007_199_254_740_991;

/// What the area offers.
pub(super) fn operations(rules: &AccessRules) -> Vec<Description> {
    [making(rules), reading(), changing(rules), applying()].concat()
}

/// The shapes that it shows more than once.
pub(super) fn shapes() -> Vec<(&'static str, Value)> {
    let mut whole = head();
    whole.extend([
        ("config", config("The fields of a configuration that it has.")),
        ("fields", locks("Fields of a configuration, and whether Agents must leave them.")),
        ("integrations", list("What must be set up on Agents.", reference("TemplateIntegration"))),
    ]);
    let named = vec![
        ("slug", like(text("What it is called."), "crm")),
        ("version", like(text("In which version."), "1")),
    ];
    let integration = object("An integration, by name.", named);
    vec![
        ("TemplateHead", object("A template, without what it holds.", head())),
        ("Template", object("A template.", whole)),
        ("TemplateIntegration", integration),
        ("TemplateMigration", object("A migration of Agents to a template.", progress())),
    ]
}

fn head() -> Fields {
    vec![
        ("id", uuid("Of the template.")),
        ("accountId", id("The reseller or the partner that owns it.")),
        ("name", text("What it is called.")),
        ("enabled", flag("Whether it may be applied; a draft is not.")),
        ("revision", count("Grows with each change of what it holds.")),
        ("createdAt", date("When it was made.")),
        ("updatedAt", date("When it was changed last.")),
    ]
}

fn config(about: &str) -> Value {
    like(anything(about), json!({ "agentLang": "en-US" }))
}

fn locks(about: &str) -> Value {
    like(anything(about), json!({ "agentLang": { "locked": true } }))
}

/// The parts that a template is made of, as they are sent.
fn parts(rules: &AccessRules) -> Fields {
    let most = rules.templates.max_integrations;
    let integrations = list("What must be set up on Agents.", reference("TemplateIntegration"));
    vec![
        (
            "config?",
            config("Fields of a configuration, as POST /agent takes them; null takes one away."),
        ),
        ("fields?", locks("Fields of a configuration: a locked one no linked Agent may change.")),
        ("integrations?", with(integrations, "maxItems", json!(most))),
    ]
}

fn making(rules: &AccessRules) -> Vec<Description> {
    let mut body = vec![("name", text("What it is called."))];
    body.extend(parts(rules));
    vec![
        Description::of(Post, "/templates/createTemplate", "Makes a template, as a draft")
            .about("The target is the reseller or the partner that owns it.")
            .body(body)
            .answer(201, "template created as a draft", vec![("template", reference("Template"))])
            .fails(&[Code::Conflict]),
    ]
}

fn reading() -> Vec<Description> {
    let link = object(
        "That it was applied to the Agent.",
        vec![
            ("accountId", id("The Agent.")),
            ("revision", count("Of the template, when it was last brought whole.")),
            ("linkedAt", date("When it was applied first.")),
        ],
    );
    let migration = or_null(reference("TemplateMigration"));
    vec![
        Description::of(Get, "/templates", "Lists the target's templates and those from above")
            .answer(
                200,
                "templates found",
                vec![("templates", list("The oldest first.", reference("TemplateHead")))],
            ),
        Description::of(Get, "/templates/{templateId}", "Shows a template")
            .path(vec![("templateId", uuid("The template."))])
            .answer(
                200,
                "template found",
                vec![
                    ("template", reference("Template")),
                    (
                        "migration",
                        with(migration, "description", json!("The last one, for its owner.")),
                    ),
                    ("link", or_null(link)),
                ],
            )
            .fails(&[Code::NotFound]),
    ]
}

fn changing(rules: &AccessRules) -> Vec<Description> {
    const PATH: &str = "/templates/{templateId}";
    let mut body = vec![("name?", text("What it is called."))];
    body.push(("enabled?", flag("Whether it may be applied.")));
    body.extend(parts(rules));
    body.push(("revision?", within("Only if the template has it.", 0..=LARGEST)));
    body.push(("migrate?", wish(rules)));
    let migration = json!({
        "anyOf": [reference("TemplateMigration"), forecast()],
        "description": "How far it has come, or what it would change.",
    });
    vec![
        Description::of(Post, PATH, "Changes a template, or migrates Agents to it")
            .about(
                "What is not sent stays. Linked Agents stay as they are until a migration (migrate, \
                 sent alone) brings the template to them; what it locks counts at once.",
            )
            .path(vec![("templateId", uuid("The template."))])
            .body(body)
            .answer(
                200,
                "template updated, or migration foreseen; then nothing was changed",
                vec![("template?", reference("Template")), ("migration?", migration)],
            )
            .answer(
                202,
                "migration queued",
                vec![("migration", reference("TemplateMigration"))],
            )
            .fails(&[Code::NotFound, Code::Conflict]),
        Description::of(Delete, PATH, "Deletes a template")
            .path(vec![("templateId", uuid("The template."))])
            .query(vec![("detachAll?", one_of("Also while Agents are linked.", &["true", "false"]))])
            .body(vec![("detachAll?", flag("Also while Agents are linked with it."))])
            .answer(200, "template deleted", vec![("templateId", uuid("What it was."))])
            .fails(&[Code::NotFound, Code::Conflict]),
    ]
}

fn wish(rules: &AccessRules) -> Value {
    let targets = list("Only these Agents.", id_given("One of them."));
    let targets = with(targets, "minItems", json!(1));
    let fields = vec![
        ("dryRun?", flag("Only tell what would change.")),
        ("sectionsToMigrate?", or_null(texts("Only these fields of the configuration."))),
        ("approveOverrides?", overrides("What customers changed and may be written over.")),
        (
            "targetAccountIds?",
            or_null(with(targets, "maxItems", json!(rules.templates.max_targets))),
        ),
        ("after?", id_given("The next of the page before, of a dry run.")),
        ("limit?", limit(rules)),
    ];
    let wish = object("A migration of the linked Agents, or of some.", fields);
    like(with(wish, "additionalProperties", json!(false)), json!({ "dryRun": true }))
}

fn overrides(about: &str) -> Value {
    let names = json!({ "type": "array", "items": { "type": "string" } });
    let any = [json!({ "type": "boolean" }), names, json!({ "type": "null" })];
    json!({ "anyOf": any, "description": about, "examples": [false] })
}

fn forecast() -> Value {
    let one = object(
        "An Agent.",
        vec![
            ("accountId", id("Which.")),
            ("changed", texts("The fields that would change.")),
            ("overrides", texts("Those that its customer changed, and that would stay.")),
            ("tooLarge", flag("It would be too large, and stay as it is.")),
        ],
    );
    object(
        "What a migration would change.",
        vec![
            ("dryRun", flag("Yes.")),
            ("revision", count("Of the template.")),
            ("agents", list("In the order of their ids.", one)),
            ("next", or_null(id("Where the next page begins, if there is one."))),
        ],
    )
}

fn progress() -> Fields {
    let targets = list("Only these Agents.", id("One of them."));
    vec![
        ("dryRun", like(flag("No."), false)),
        ("status", one_of("How far it has come.", &["queued", "finished"])),
        ("revision", count("Of the template, as it was when this was asked for.")),
        ("sectionsToMigrate", or_null(texts("Only these fields."))),
        ("approveOverrides", overrides("What customers changed and may be written over.")),
        ("targetAccountIds", or_null(targets)),
        ("requestedAt", date("When it was asked for.")),
        ("finishedAt", or_null(date("When it had come to all."))),
        ("examined", count("Agents that it has come to.")),
        ("changed", count("Agents whose staging it changed.")),
        ("overridden", count("Agents in which something stayed, because it is the customer's.")),
        (
            "failed",
            count("Agents left as they are: too large then, or without an app that it assigns."),
        ),
        ("lastFailedAccountId", or_null(id("The last of those."))),
    ]
}

fn applying() -> Vec<Description> {
    let agent = object(
        "What the template made of the Agent.",
        vec![
            ("accountId", id("The Agent.")),
            ("templateId", uuid("The template.")),
            ("templateRevision", count("Of the template.")),
            ("campaignId", text("Of the live configuration, which is as it was.")),
            ("agentConfigId", text("Of staging.")),
            ("revision", count("Of staging.")),
            ("changed", texts("The fields of staging that are others now.")),
            ("overrides", texts("Those that the customer changed, and that stayed.")),
            (
                "requiredIntegrations",
                list("What must be set up.", reference("TemplateIntegration")),
            ),
        ],
    );
    let gone = object(
        "What is no longer linked.",
        vec![("accountId", id("The Agent.")), ("templateId", uuid("The template."))],
    );
    vec![
        Description::of(Post, "/createAgentFromTemplate", "Applies a template to one Agent")
            .about(
                "Its staging becomes what the template has. With detach, by the template's owner or \
                 above it, the link goes: the configuration stays, and nothing of it is locked.",
            )
            .body(vec![
                ("templateId", uuid("The template.")),
                (
                    "approveOverrides?",
                    overrides("What the customer changed and may be written over."),
                ),
                ("detach?", like(flag("Takes the link away."), false)),
            ])
            .answer(201, "template applied to staging", vec![("agent", agent)])
            .answer(200, "template detached; the configuration stays", vec![("detached", gone)])
            .fails(&[Code::NotFound, Code::Conflict]),
    ]
}
