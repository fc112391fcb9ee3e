//! Every body matches the catalogue, field by field: goldens of each event in each mode, and events
//! of the fixtures' mail (`tests/it/events.rs`).

use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::app::delivery::payload;
use crate::app::tenancy::record::account_record;
use crate::domain::account::{Account, AccountType};
use crate::domain::automation::{Automation, Origin};
use crate::domain::clock::Timestamp;
use crate::domain::delivery::Subject;
use crate::domain::event::Event;
use crate::domain::evidence::results::Results;
use crate::domain::marker::Marker;
use crate::domain::message::{Attachment, Message, Passage};
use crate::rules::Rules;
use crate::schema::Shapes;
use crate::testkit::golden;
use crate::webhook::sample;

fn message() -> Message {
    let mut message = sample::message("Hello\n\n> before");
    message.mailed_mut().mail.stripped_text = "Hello".into();
    message.mailed_mut().mail.attachments = vec![
        Attachment {
            part: 2,
            content_type: "text/html".into(),
            filename: "body.html".into(),
            size: 20,
            listed: false,
        },
        Attachment {
            part: 3,
            content_type: "application/pdf".into(),
            filename: "Ünvoice 1.pdf".into(),
            size: 2000,
            listed: true,
        },
    ];
    message.mailed_mut().authentication = Some(results().into());
    message.mailed_mut().passage = Passage {
        marker: Marker::read(&[b'a'; 32]),
        automation: Some(Automation {
            origin: Origin::List,
            may_auto_reply: false,
            signs: vec!["List-Id".into()],
        }),
    };
    message
}

/// A subject of the event's kind, with a value in every field.
fn subject(name: EventName) -> Subject {
    let webhook = json!({
        "id": "00000000-0000-0000-0000-0000000000bb", "origin": "https://hooks.example",
        "label": "CRM", "type": "incoming",
    });
    match name.about() {
        About::Message if name == EventName::MessageReceived => {
            Subject::Message(Box::new(sample::received()))
        }
        About::Message => Subject::Message(Box::new(message())),
        About::Contact => Subject::Contact(sample::contact()),
        About::Published => Subject::Told(json!({
            "accountId": 7, "campaignId": format!("camp{:032x}", 0x931829b5857f_u64),
            "revision": 3, "changed": ["agentInstructions", "title"], "versionId": null,
            "previousVersionId": 1_750_194_180_352_i64,
        })),
        About::Reverted => Subject::Told(json!({
            "accountId": 7, "campaignId": format!("camp{:032x}", 0x931829b5857f_u64),
            "revision": 4, "changed": ["title"],
        })),
        About::Policy => Subject::Told(json!({
            "accountId": 7, "mode": "allowlist", "allowlistCount": 12, "added": 2, "removed": 0,
        })),
        About::Account => {
            let event = sample::event(name, 1);
            let account = Account {
                id: event.lineage.agent.unwrap(),
                kind: AccountType::Agent,
                name: "Support".into(),
                username: "support".into(),
                parent: event.lineage.organization,
                lineage: event.lineage,
                active: true,
                created_at: Timestamp::from_millis(1_718_463_395_123),
                external_id: Some("x-1".into()),
                details: Map::new(),
            };
            Subject::Told(json!({ "account": account_record(&account) }))
        }
        About::Invitation => Subject::Told(json!({
            "member": {
                "id": 9, "accountType": "user", "username": "anna@good.example",
                "email": "anna@good.example", "role": "member", "permittedAccountIds": [7],
                "accountId": 3, "organizationId": 3, "resellerId": 2, "partnerId": 1,
                "timestamp": 1_718_463_395_123_i64, "createdAt": "2024-06-15T14:56:35.123Z",
            },
            "redirectUrl": "https://app.example/welcome",
            "sendWelcomeEmail": null,
            "invitedBy": { "accountId": 3, "memberId": null },
        })),
        About::Webhook => Subject::Told(json!({ "accountId": 7, "webhook": webhook })),
        About::DisabledWebhook => Subject::Told(json!({
            "accountId": 7, "webhook": webhook, "reason": "every attempt failed for 5 days",
            "failingSince": "2024-06-10T14:56:35.123Z", "lastStatus": 503, "error": null,
        })),
    }
}

fn event(name: EventName) -> Event {
    let event = sample::event(name, 1);
    match name.about() {
        About::Message => event,
        About::Contact => Event { message: None, ..event },
        _ => Event { message: None, contact: None, ..event },
    }
}

fn shown(name: EventName, subject: &Subject, mode: Payload) -> Value {
    let rules = Rules::defaults().unwrap().webhooks.payload;
    serde_json::from_slice(&payload::body(&event(name), subject, mode, &rules, &sample::links()))
        .unwrap()
}

/// Returns the faults of a body in this mode.
fn check(entry: &Entry, mode: Payload, body: &Value) -> Vec<String> {
    Shapes::of(&entry.schema).schema(&entry.schema["$defs"][mode.as_str()]).faults(body)
}

/// Results from a fixture.
fn results() -> Results {
    let records = std::fs::read("fixtures/records.json").unwrap();
    let records: Value = serde_json::from_slice(&records).unwrap();
    let shown = &records["accepted/address_as_its_own_name"]["authentication"];
    serde_json::from_value(shown.clone()).unwrap()
}

#[test]
fn every_golden_is_what_is_made_and_as_the_catalogue_says() {
    let mut made = BTreeMap::new();
    for entry in catalog() {
        for mode in Payload::ALL {
            let body = shown(entry.name, &subject(entry.name), *mode);
            let name = format!("{}.{mode}.json", entry.name);
            assert_eq!(check(&entry, *mode, &body), Vec::<String>::new(), "{name}");
            made.insert(name, format!("{}\n", serde_json::to_string_pretty(&body).unwrap()));
        }
    }
    golden::hold_folder("fixtures/webhook", &made).unwrap();
}

#[test]
fn what_is_erased_or_cut_is_as_the_catalogue_says() {
    for entry in catalog() {
        for mode in Payload::ALL {
            if matches!(entry.name.about(), About::Message | About::Contact) {
                let body = shown(entry.name, &Subject::Erased, *mode);
                assert_eq!(check(&entry, *mode, &body), Vec::<String>::new());
            }
            let mut rules = Rules::defaults().unwrap().webhooks.payload;
            for max in (300..5000).step_by(100) {
                rules.max_body_bytes = max;
                let subject = subject(entry.name);
                let body =
                    payload::body(&event(entry.name), &subject, *mode, &rules, &sample::links());
                let body = serde_json::from_slice(&body).unwrap();
                let wrong = check(&entry, *mode, &body);
                assert!(wrong.is_empty(), "{} {mode} {max}: {wrong:?}", entry.name);
            }
        }
    }
}

#[test]
fn a_field_that_is_not_explained_or_not_there_is_found() {
    let entry = &catalog()[0];
    let body = shown(entry.name, &subject(entry.name), Payload::Full);
    let mut more = body.clone();
    more["data"]["message"]["metadata"]["emailSecret"] = json!(1);
    let mut less = body.clone();
    less["data"]["message"].as_object_mut().unwrap().remove("uuid");
    let mut other = body.clone();
    other["messageTimestamp"] = json!("1718463395");
    let mut name = body;
    name["event"] = json!("email.sent");
    for wrong in [more, less, other, name] {
        assert!(!check(entry, Payload::Full, &wrong).is_empty(), "{wrong}");
    }
}

/// Every property of every schema has a description.
#[test]
fn every_field_is_explained() {
    fn walk(schema: &Value, path: &str) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            let said = property["description"].as_str().is_some_and(|text| text.ends_with('.'));
            assert!(said || property.get("$ref").is_some(), "{path}");
            walk(property, &path);
        }
        for (number, part) in schema["anyOf"].as_array().into_iter().flatten().enumerate() {
            walk(part, &format!("{path}[{number}]"));
        }
        for (name, part) in schema["$defs"].as_object().into_iter().flatten() {
            walk(part, &format!("{path}#{name}"));
        }
        if schema["items"].is_object() {
            walk(&schema["items"], &format!("{path}[]"));
        }
    }
    for entry in catalog() {
        walk(&entry.schema, entry.name.as_str());
        assert_eq!(entry.schema["title"], entry.name.as_str());
    }
}

/// The book's table names each field of the record and of its metadata, with its types.
#[test]
fn the_book_shows_the_record_as_the_schema_has_it() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/message.md");
    let page = std::fs::read_to_string(page).unwrap();
    let table = page.split("| of the Message record | type |").nth(1).unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut shown = Vec::new();
    for row in rows {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let (names, kinds) = (cells.next().unwrap(), cells.next().unwrap());
        shown.extend(names.split(", ").map(|name| format!("{}: {kinds}", name.trim_matches('`'))));
    }
    let schema = record_schema();
    let mail = &schema["$defs"]["MailMetadata"];
    let mut wanted = [types(&schema, &schema, ""), types(&schema, mail, "metadata.")].concat();
    wanted.sort();
    shown.sort();
    assert_eq!(shown, wanted);
    assert_eq!(schema["required"].as_array().unwrap().len(), 42);
}

/// The fields of a part of this schema, each with its types.
fn types(schema: &Value, part: &Value, place: &str) -> Vec<String> {
    let fields = part["properties"].as_object().unwrap();
    fields.iter().map(|(name, one)| format!("{place}{name}: {}", kinds(schema, one))).collect()
}

fn kinds(schema: &Value, property: &Value) -> String {
    if let Some(reference) = property["$ref"].as_str() {
        return kinds(schema, schema.pointer(reference.strip_prefix('#').unwrap()).unwrap());
    }
    match &property["type"] {
        Value::Array(kinds) => {
            kinds.iter().map(|kind| kind.as_str().unwrap()).collect::<Vec<_>>().join(" or ")
        }
        Value::String(kind) => kind.clone(),
        _ => {
            let any = property["anyOf"].as_array().unwrap().iter();
            any.map(|one| kinds(schema, one)).collect::<Vec<_>>().join(" or ")
        }
    }
}
