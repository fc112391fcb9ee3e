//! Filters, totals and cursors count only rows that the request may see (threats E6): names of
//! others find nothing, and their rows are not counted.

use serde_json::Value;

use crate::domain::clock::Timestamp;
use crate::http::tests::access::access_world::{AccessWorld, mark, name};
use crate::http::tests::access::matrix::{AGENT, tree};
use crate::http::tests::access::sample::{Sample, sample};
use crate::http::tests::access::tree::{Expected, Key, Named, Reach, Tree, rules};
use crate::store::Cursor;

/// An administrator of each level, an Agent, and restricted members of two levels.
const ASKING: &[&str] = &["0", "1", "3", "6", "pm002mp", "pm004mp", "pm006mp"];

/// Each key with each target that it reaches, and the accounts that it may see there.
fn askers(town: &AccessWorld, operation: &str) -> Vec<(Key, Named, Reach)> {
    let rule = &rules().0[operation];
    let keys = town.keys.iter().filter(|key| ASKING.contains(&key.what.as_str()));
    let targets = (0..town.tree.nodes.len()).map(Named::Node).chain([Named::Nothing]);
    let both = keys.flat_map(|key| targets.clone().map(move |target| (key, target)));
    let allowed = both.filter_map(|(key, target)| match town.tree.expected(rule, key, target) {
        Expected::Allowed(reach) => Some((key.clone(), target, reach)),
        _ => None,
    });
    allowed.collect()
}

fn is_shown(tree: &Tree, reach: &Reach, node: usize) -> bool {
    tree.shows(reach, node) && !tree.is_gone(node)
}

impl AccessWorld {
    /// Reads, and checks that the answer shows nothing out of reach.
    async fn read(
        &mut self,
        operation: &str,
        (key, target, reach): &(Key, Named, Reach),
        mut request: Sample,
    ) -> Value {
        if let Some(id) = self.tree.id(*target) {
            request = request.asking("targetAccountId", id);
        }
        let reply = self.send(operation, &request, &key.token).await;
        let expected = Expected::Allowed(reach.clone());
        let leaks = self.leaks(&reply.text(), &expected, key.owner);
        let what = format!("{operation} by {} with {request:?}: {}", key.what, reply.text());
        assert!(leaks.is_empty(), "{leaks:?}: {what}");
        assert_eq!(reply.status, 200, "{what}");
        reply.json()
    }
}

#[tokio::test]
async fn a_search_finds_and_counts_what_is_in_reach() {
    const SEARCH: &str = "GET /searchAccounts";
    let mut town = AccessWorld::of(tree()).await;
    let levels = [('P', "partner"), ('R', "reseller"), ('O', "organization"), ('A', "account")];
    for asker in askers(&town, SEARCH) {
        let (_, _, reach) = &asker;
        for (kind, word) in levels {
            let request = || {
                let mut request = sample(SEARCH, &town.goods[AGENT], 0);
                request.query.clear();
                request.asking("accountType", word)
            };
            let (whole, named) = (request(), request());
            let due: Vec<usize> = (0..town.tree.nodes.len())
                .filter(|node| town.tree.nodes[*node].kind == kind)
                .filter(|node| is_shown(&town.tree, reach, *node))
                .collect();
            let found = town.read(SEARCH, &asker, whole).await;
            assert_eq!(found["totalAccounts"], due.len(), "{asker:?} {word}");
            assert_eq!(found["accounts"].as_array().unwrap().len(), due.len(), "{asker:?} {word}");
            for node in 0..town.tree.nodes.len() {
                let by_name = named.clone().asking("queryText", name(node));
                let by_id = named.clone().asking("externalAccountId", mark(node));
                for (request, can) in [(by_name, true), (by_id, kind != 'P')] {
                    let found = town.read(SEARCH, &asker, request).await;
                    let expected = usize::from(can && due.contains(&node));
                    assert_eq!(found["totalAccounts"], expected, "{asker:?} {word} {node}");
                }
            }
        }
    }
}

#[tokio::test]
async fn pages_and_filters_of_others_lead_nowhere() {
    let mut town = AccessWorld::of(tree()).await;
    let agents: Vec<usize> =
        (0..town.tree.nodes.len()).filter(|node| town.tree.nodes[*node].kind == 'A').collect();
    for operation in ["GET /messages/recent", "GET /email/intake", "GET /audit"] {
        for asker in askers(&town, operation) {
            for node in agents.clone() {
                let mail = town.goods[node].mail.as_ref().unwrap();
                let (id, at) = (mail.message.0, Timestamp::from_millis(1_795_000_000_300));
                let cursor = Cursor { at, id }.to_string();
                let plain = sample(operation, &town.goods[AGENT], 0);
                let request = plain.clone().asking("after", &cursor);
                town.read(operation, &asker, request).await;
                if operation == "GET /email/intake" {
                    let request = plain.asking("sender", format!("{}@good.example", mark(node)));
                    let found = town.read(operation, &asker, request).await;
                    let found = found["intake"].as_array().unwrap().len();
                    let shown = town.tree.shows(&asker.2, node);
                    assert!(found == 0 || shown, "{asker:?} {node}");
                    assert!(found > 0 || !is_shown(&town.tree, &asker.2, node), "{asker:?} {node}");
                } else if operation == "GET /audit" {
                    let request = plain.asking("by", town.tree.nodes[node].id);
                    town.read(operation, &asker, request).await;
                }
            }
        }
    }
}

/// Proves that another tenant's external id causes no conflict, which would reveal the id.
#[tokio::test]
async fn external_ids_of_others_are_not_met() {
    let mut town = AccessWorld::of(tree()).await;
    for node in [AGENT, 8, 9] {
        let update = crate::store::AccountUpdate {
            external_id: Some(Some("same".into())),
            ..Default::default()
        };
        town.house.tenancy.update_account(town.account(node), update).await.unwrap();
    }
    let operation = "GET /getAccountByExternalId";
    for (key, expected) in [("0", 409), ("1", 409), ("3", 200), ("6", 200), ("pm004mp", 200)] {
        let mut request = sample(operation, &town.goods[AGENT], 0);
        request.query.clear();
        let request = request.asking("externalAccountId", "same");
        let token = town.keys.iter().find(|one| one.what == key).unwrap().token.clone();
        // By default a member acts on itself, and has no accounts there.
        let request = match key {
            "pm004mp" => request.asking("targetAccountId", town.tree.nodes[3].id),
            _ => request,
        };
        let reply = town.send(operation, &request, &token).await;
        assert_eq!(reply.status, expected, "{key}: {}", reply.text());
        assert!(!reply.text().contains(&mark(8)) && !reply.text().contains(&mark(9)));
    }
}
