//! The table of operations is the API: no other path answers, and each row is complete.

use std::collections::{BTreeMap, BTreeSet};

use crate::app::access::need::Effect;
use crate::domain::feature::Feature;
use crate::domain::id::AccountId;
use crate::http::table::OPERATIONS;
use crate::http::tag::Tag;
use crate::http::tests::House;
use crate::http::verb::Verb;

/// POSTs that create nothing: repeating one is harmless.
const CREATE_NOTHING: [&str; 5] = [
    "POST /account",
    "POST /updateOrganization",
    "POST /updateAccount",
    // Sets each feature to the given value.
    "POST /features/assign",
    // Nothing keeps its answer, which has secrets (threats S4).
    "POST /computer/accounts/{targetAccountId}/secrets/release",
];

#[tokio::test]
async fn what_answers_is_what_the_table_says() {
    let house = House::new().await;
    let mut paths: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let mut named = BTreeSet::new();
    for operation in OPERATIONS {
        for path in operation.paths() {
            paths.entry(filled(path)).or_default().insert(operation.verb.as_str());
            // Two may share a path if one takes the ids of messages, which the other never does.
            let of_message = path.contains("{messageUuid}");
            let first = named.insert((filled(path), of_message, operation.verb));
            assert!(first, "{} is there twice", operation.name());
        }
    }
    for (path, verbs) in &paths {
        for verb in ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"] {
            let reply = house.send(verb, &format!("/api/v2{path}"), None).await;
            let name = format!("{verb} {path}");
            if verbs.contains(verb) {
                assert_eq!(reply.status, 401, "{name}");
                reply.problem(401, "unauthorized", "query parameter token");
                continue;
            }
            reply.problem(405, "method_not_allowed", "Allow");
            let allow: BTreeSet<&str> = reply.headers["allow"].split(',').map(str::trim).collect();
            let allow: BTreeSet<&str> = allow.into_iter().filter(|verb| *verb != "HEAD").collect();
            assert_eq!(&allow, verbs, "{name}");
            // No page of another origin may read an answer (threats E13).
            assert!(!reply.headers.keys().any(|name| name.starts_with("access-control")), "{name}");
        }
    }
}

/// Fills the path like `filled`, with this target.
pub(super) fn about(path: &str, target: AccountId) -> String {
    filled(&path.replace("{targetAccountId}", &target.to_string()))
}

/// A path with something in place of its names.
pub(super) fn filled(path: &str) -> String {
    let segments = path.split('/').map(|one| if one.starts_with('{') { "1" } else { one });
    segments.collect::<Vec<_>>().join("/")
}

/// Proves that setting up needs the feature of its area, while showing and removing do not.
#[test]
fn what_sets_something_up_needs_its_feature_and_nothing_else_does() {
    let mut needed = BTreeSet::new();
    for operation in OPERATIONS {
        let name = operation.name();
        let sets_up = matches!(operation.verb, Verb::Post | Verb::Put)
            && name != "POST /computer/accounts/{targetAccountId}/deprovision";
        let expected = match operation.tag {
            _ if !sets_up => None,
            Tag::AgentTemplates => Some(Feature::Templates),
            Tag::ComputerAgents if operation.need.worker => Some(Feature::SecretRelease),
            Tag::ComputerAgents => Some(Feature::Computer),
            Tag::Apps | Tag::Integrations => Some(Feature::Apps),
            // The preview only reads.
            Tag::InboundEmail if operation.need.effect == Effect::Write => {
                Some(Feature::InboundEmail)
            }
            _ if name == "POST /webhookRelay/{type}" => Some(Feature::Relays),
            _ => None,
        };
        assert_eq!(operation.need.feature, expected, "{name}");
        needed.extend(expected);
    }
    // Every operation needs `api`, of the account of the key.
    needed.insert(Feature::Api);
    assert_eq!(needed.len(), Feature::ALL.len());
}

#[test]
fn each_operation_declares_what_it_is() {
    for operation in OPERATIONS {
        let name = operation.name();
        let need = operation.need;
        assert!(!operation.tag.as_str().is_empty(), "{name}");
        // A GET changes nothing, so following a link is harmless.
        assert!(operation.verb != Verb::Get || need.effect == Effect::Read, "{name}");
        let creates = operation.verb == Verb::Post
            && need.effect == Effect::Write
            && !CREATE_NOTHING.contains(&name.as_str());
        assert_eq!(need.once, creates, "{name}: a POST that creates declares .once()");
        assert!(!need.narrows || need.effect == Effect::Read, "{name}");
        let mut names = BTreeSet::new();
        let declared = operation.form.query.iter().chain(operation.target_names);
        assert!(declared.into_iter().all(|name| names.insert(*name)), "{name}: twice in the query");
        assert!(!names.contains("token"), "{name}");
    }
    for name in CREATE_NOTHING {
        assert!(OPERATIONS.iter().any(|operation| operation.name() == name), "{name}");
    }
}
