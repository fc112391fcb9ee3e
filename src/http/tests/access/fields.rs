//! What nobody may set is no field of any operation (threats E4, E5): an account's level, its place
//! in the tree, its id, a right.

use serde_json::json;

use super::matrix::{AGENT, tree};
use super::sample::sample;
use super::town::Town;
use crate::http::body::BodyRule;
use crate::http::router::OPERATIONS;

/// What decides, or is decided, elsewhere.
const DECIDED: [&str; 20] = [
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

/// Where one of them is a field all the same: what it sets there is its own.
const KNOWN: [(&str, &str); 7] = [
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
    let mut town = Town::of(tree()).await;
    let before = town.rows().await;
    let keys = [town.keys[0].token.clone(), town.keys[AGENT].token.clone()];
    for operation in OPERATIONS {
        if operation.body == BodyRule::None {
            continue;
        }
        let name = operation.name();
        for field in DECIDED {
            let known = operation.body.names().contains(&field);
            assert_eq!(known, KNOWN.contains(&(name.as_str(), field)), "{name} {field}");
            if known {
                continue;
            }
            for token in &keys {
                let request = sample(&name, &town.goods[AGENT], 0).holding(field, json!(1));
                let reply = town.send(&name, &request, token).await;
                assert_eq!(reply.status, 400, "{name} {field}: {}", reply.text());
                reply.problem(400, "invalid_request", &format!("\"{field}\" is not known here"));
            }
        }
    }
    assert_eq!(town.rows().await, before);
}
