//! Apps, Integrations, Features: what Agents have of the catalogue, what accounts keep for apps,
//! and what they may use.

use serde_json::{Map, Value, json};

use super::super::description::Description;
use super::super::error::Code;
use super::super::schema::{
    Fields, anything, count, date, flag, id, like, list, object, one_of, or_null, pattern,
    reference, text, texts, word,
};
use super::super::verb::Verb::{Delete, Get, Post, Put};
use crate::domain::feature::Feature;
use crate::rules::SettingType;

const APP: &str = "/apps/{appId}/{appVersion}";
const INTEGRATION: &str = "/integration/{slug}/{version}";
/// `domain::app::is_name`.
const NAME: &str = "^[A-Za-z0-9][A-Za-z0-9._-]*$";
const KEPT: &str = "What is left out stays, null takes it away; {\"present\": true}, which answers \
    show in the place of a secret, keeps it.";
/// As the catalogue spells them.
const TYPES: &[SettingType] = &[
    SettingType::Text,
    SettingType::Url,
    SettingType::Number,
    SettingType::Boolean,
    SettingType::Choice,
];

/// What the area offers.
pub(super) fn operations() -> Vec<Description> {
    [apps(), integrations(), features()].concat()
}

/// The shapes that it shows more than once.
pub(super) fn shapes() -> Vec<(&'static str, Value)> {
    vec![("App", app()), ("AccountFeature", feature())]
}

fn apps() -> Vec<Description> {
    let path =
        || vec![("appId", name("The app.", "crm")), ("appVersion", name("Its version.", "v1"))];
    let one = || vec![("app", reference("App"))];
    let settings = || {
        let settings = anything("Settings of the app, by their names.");
        like(settings, json!({ "baseUrl": "https://crm.example/", "apiToken": "secret" }))
    };
    let removed = object(
        "What was removed.",
        vec![("appId", name("The app.", "crm")), ("version", name("Its version.", "v1"))],
    );
    vec![
        Description::of(Get, "/apps", "Lists the catalogue, and what of it an Agent has")
            .about("Of an account that is no Agent nothing is installed.")
            .answer(
                200,
                "apps found",
                vec![
                    ("apps", list("In the order of ids and versions.", reference("App"))),
                    ("count", count("How many they are.")),
                ],
            ),
        Description::of(Get, APP, "Shows an app that an Agent has installed")
            .path(path())
            .answer(200, "app found", one())
            .fails(&[Code::NotFound]),
        Description::of(Post, APP, "Installs an app on an Agent")
            .about("With some of its settings or all: the answer names those that are missing.")
            .path(path())
            .body(vec![("settings?", settings())])
            .answer(201, "app installed", one())
            .fails(&[Code::NotFound, Code::Conflict]),
        Description::of(Put, APP, "Changes settings of an app that an Agent has installed")
            .about(KEPT)
            .path(path())
            .body(vec![("settings", settings())])
            .answer(200, "app updated", one())
            .fails(&[Code::NotFound, Code::Conflict]),
        Description::of(Delete, APP, "Removes an app from an Agent, with its settings")
            .about("409 while a configuration of the Agent, staged or live, assigns it.")
            .path(path())
            .answer(200, "app removed", vec![("removed", removed)])
            .fails(&[Code::NotFound, Code::Conflict]),
    ]
}

fn integrations() -> Vec<Description> {
    let path = || vec![("slug", name("The app.", "acme")), ("version", name("Its version.", "v1"))];
    let shown = || -> Fields {
        let data = anything("What is kept; of a secret only that it is there.");
        vec![
            ("appId", name("The app.", "acme")),
            ("appVersion", name("Its version.", "v1")),
            ("appData", like(data, json!({ "key": { "present": true } }))),
        ]
    };
    let data = anything("What is to be kept, by names.");
    vec![
        Description::of(Get, INTEGRATION, "Shows what an account keeps for an app")
            .path(path())
            .answer(200, "integration found", shown())
            .fails(&[Code::NotFound]),
        Description::of(Put, INTEGRATION, "Keeps data of an account for an app")
            .about(KEPT)
            .path(path())
            .body(vec![("appData", like(data, json!({ "key": "value" })))])
            .answer(200, "integration kept", shown())
            .fails(&[Code::NotFound, Code::Conflict]),
    ]
}

fn features() -> Vec<Description> {
    let shown = || {
        vec![
            ("accountId", id("The account.")),
            ("features", list("All that there are.", reference("AccountFeature"))),
        ]
    };
    let one = |feature: &Feature| {
        let given = flag("Given, denied, or (null) left to the default.");
        (feature.as_str().to_owned(), or_null(given))
    };
    let given: Map<String, Value> = Feature::ALL.iter().map(one).collect();
    let given = json!({
        "type": "object", "properties": given, "minProperties": 1, "additionalProperties": false,
        "description": "Those that are assigned.", "examples": [{ "relays": false }],
    });
    vec![
        Description::of(Get, "/features", "Shows what an account may use").answer(
            200,
            "features found",
            shown(),
        ),
        Description::of(Post, "/features/assign", "Gives an account features, or takes them away")
            .about(
                "By administrators of a partner or a reseller above it, and only what their own \
                 account has. What an account lacks, all below it lack.",
            )
            .body(vec![("features", given)])
            .answer(200, "features assigned", shown())
            .fails(&[Code::FeatureRequired]),
    ]
}

fn name(about: &str, example: &str) -> Value {
    pattern(about, NAME, example)
}

fn app() -> Value {
    let setting = object(
        "A setting.",
        vec![
            ("name", name("What it is called.", "apiToken")),
            ("title", text("What it is for.")),
            ("type", word("What it takes.", TYPES, SettingType::as_str)),
            ("required", flag("Whether nothing works without it.")),
            ("secret", flag("Whether it is sealed, and never shown.")),
            ("choices", texts("The values of a choice.")),
        ],
    );
    let dependency = object(
        "Something else that it needs.",
        vec![
            ("type", one_of("What it is.", &["app", "feature"])),
            ("name", name("Its id, or its name.", "crm")),
            ("satisfied", flag("Whether it is there.")),
        ],
    );
    let settings = anything("What is set; of a secret only whether it is there.");
    let settings = like(settings, json!({ "apiToken": { "present": true } }));
    object(
        "An app, and how it stands with an account.",
        vec![
            ("appId", name("The app.", "crm")),
            ("version", name("Its version.", "v1")),
            ("title", or_null(text("What it is called; null if the catalogue has it no more."))),
            ("description", or_null(text("What it does."))),
            ("offered", flag("Whether it can be installed.")),
            ("installed", flag("Whether it is.")),
            ("setupComplete", flag("Whether it is, and has all that it needs.")),
            ("missing", like(texts("Required settings that an installed one lacks."), json!([]))),
            ("dependencies", list("What it needs beside them.", dependency)),
            ("settingsSchema", list("The settings that it takes.", setting)),
            ("settings", or_null(settings)),
            ("installedAt", or_null(date("When it was installed."))),
            ("updatedAt", or_null(date("When it was changed last."))),
        ],
    )
}

fn feature() -> Value {
    object(
        "A feature, and how an account stands with it.",
        vec![
            ("feature", word("Its name.", Feature::ALL, Feature::as_str)),
            ("title", text("What it is called.")),
            ("description", text("What it is.")),
            ("enabled", flag("Whether the account has it.")),
            ("granted", or_null(flag("What was assigned to the account itself; null: nothing."))),
            ("default", flag("What an account has to which nothing was assigned.")),
            ("heldAbove", flag("Whether its parent has it, without which it has none.")),
        ],
    )
}
