//! No operation has a field that no caller may set (threats E4, E5): an account's level, its place
//! in the tree, its id, a right.

use serde_json::json;

use crate::http::request::body::BodyRule;
use crate::http::table::OPERATIONS;
use crate::http::tests::access::access_world::AccessWorld;
use crate::http::tests::access::asked::{Asked, places};
use crate::http::tests::access::matrix::{AGENT, tree};
use crate::http::tests::access::sample::{Sample, sample};
use crate::http::tests::access::tree::{Expected, Key, Named, Owner, above, rules};

/// Names of values that are decided elsewhere.
const DECIDED: &[&str] = &[
    "id",
    "accountId",
    "accountType",
    "kind",
    "parentId",
    "parent",
    "partnerId",
    "resellerId",
    "organizationId",
    "superAdmin",
    "permittedAccountIds",
    "active",
    "deleted",
    "createdAt",
    "timestamp",
    "username",
    "memberId",
    "scope",
    "__proto__",
    "constructor",
];

/// Exceptions: fields of these names that set something else.
const KNOWN: &[(&str, &str)] = &[
    ("POST /account", "active"),
    ("POST /updateOrganization", "active"),
    ("POST /updateAccount", "active"),
    ("POST /member", "permittedAccountIds"),
    ("PUT /member", "permittedAccountIds"),
    ("POST /webhooks", "id"),
    ("DELETE /webhooks", "id"),
    ("DELETE /tokens", "id"),
];

#[tokio::test]
async fn nobody_sets_what_is_decided_elsewhere() {
    let mut town = AccessWorld::of(tree()).await;
    let before = town.rows().await;
    let keys = vec![town.keys[0].token.clone(), town.keys[AGENT].token.clone()];
    let owned = |key: &&Key| key.worker && key.owner == Owner::Node(AGENT);
    let workers: Vec<_> = town.keys.iter().filter(owned).map(|key| key.token.clone()).collect();
    for operation in OPERATIONS {
        if operation.form.body == BodyRule::None {
            continue;
        }
        let name = operation.name();
        for field in DECIDED.iter().copied() {
            let known = operation.form.body.names().contains(&field);
            assert_eq!(known, KNOWN.contains(&(name.as_str(), field)), "{name} {field}");
            if known {
                continue;
            }
            let keys = if operation.need.worker { &workers } else { &keys };
            for token in keys {
                let request = sample(&name, &town.goods[AGENT], 0).holding(field, json!(1));
                let reply = town.send(&name, &request, token).await;
                assert_eq!(reply.status, 400, "{name} {field}: {}", reply.text());
                reply.problem(400, "invalid_request", &format!("\"{field}\" is not known here"));
            }
        }
    }
    assert_eq!(town.rows().await, before);
}

/// Each key sets the field to its present value on every account, so nothing changes.
#[tokio::test]
async fn what_is_set_from_above_is_set_by_nobody_for_itself() {
    let mut town = AccessWorld::of(tree()).await;
    let before = town.rows().await;
    let ((rules, _), keys, nodes) = (rules(), town.keys.clone(), town.tree.nodes.len());
    let (mut done, mut refused) = (0, 0);
    for (field, operation) in above().iter().flat_map(|above| {
        above.operations.iter().map(|operation| (above.field.as_str(), operation.as_str()))
    }) {
        assert_eq!(field, "active", "the tree below knows what others are");
        let rule = &rules[operation];
        for (key, node) in keys.iter().flat_map(|key| (0..nodes).map(move |node| (key, node))) {
            let named = Named::Node(node);
            let expected = town.tree.expected_from_above(rule, key, named);
            match expected {
                Expected::Allowed(_) => done += 1,
                Expected::Forbidden => refused += 1,
                _ => {}
            }
            let active = town.tree.nodes[node].active;
            let sample = Sample { body: Some(json!({ field: active })), ..plain(&town, operation) };
            let sample = sample.asking("targetAccountId", town.tree.nodes[node].id);
            let reply = town.send(operation, &sample, &key.token).await;
            let place = &places(rule, key)[0];
            Asked { operation, rule, key, named, place, expected }.check(&town, &reply);
        }
    }
    assert!(done > 30 && refused > 300, "{done} {refused}");
    assert_eq!(town.rows().await, before);
}

fn plain(town: &AccessWorld, operation: &str) -> Sample {
    sample(operation, &town.goods[AGENT], 0)
}
