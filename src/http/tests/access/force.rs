//! The times when a key is in force, and texts that are no keys (threats E7, E9).

use crate::app::access::token;
use crate::http::tests::access::access_world::AccessWorld;
use crate::http::tests::access::matrix::{AGENT, tree};
use crate::http::tests::access::sample::sample;
use crate::http::tests::access::tree::Owner;

/// The names of the keys that open something now.
async fn open(town: &mut AccessWorld) -> Vec<String> {
    let mut open = Vec::new();
    for key in town.keys.clone() {
        let request = sample("GET /account", &town.goods[AGENT], 0);
        let reply = town.send("GET /account", &request, &key.token).await;
        assert!([200, 401].contains(&reply.status), "{}", reply.text());
        if reply.status == 200 {
            open.push(key.what);
        }
    }
    open
}

fn expected(town: &AccessWorld) -> Vec<String> {
    let open = town.keys.iter().filter(|key| town.tree.opens(key));
    open.map(|key| key.what.clone()).collect()
}

#[tokio::test]
async fn a_key_sleeps_while_its_account_or_one_above_is_inactive() {
    let mut town = AccessWorld::of(tree()).await;
    let awake = open(&mut town).await;
    assert_eq!(awake, expected(&town));
    for node in [6, 3, 1, 0] {
        town.house.tenancy.set_active(town.account(node), false).await.unwrap();
        town.tree.nodes[node].active = false;
        let open_now = open(&mut town).await;
        assert_eq!(open_now, expected(&town), "{node} is off");
        assert!(open_now.len() < awake.len());
        town.house.tenancy.set_active(town.account(node), true).await.unwrap();
        town.tree.nodes[node].active = true;
        assert_eq!(open(&mut town).await, awake);
    }
}

#[tokio::test]
async fn keys_stop_with_whatever_they_hang_on() {
    let mut town = AccessWorld::of(tree()).await;
    let partner = town.keys[0].token.clone();
    let member = town.tree.people[3].id;
    let remove = sample("DELETE /member", &town.goods[AGENT], 0);
    let remove = remove.asking("targetAccountId", town.tree.nodes[3].id);
    let remove = remove.holding("targetMemberId", member.into());
    let reply = town.send("DELETE /member", &remove, &partner).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    town.tree.people[3].removed = true;
    assert_eq!(open(&mut town).await, expected(&town));
    for (node, operation, field, below) in [
        (7, "DELETE /deleteAccount", "targetAccountId", "targetOrganizationId"),
        (3, "DELETE /deleteOrganization", "targetOrganizationId", "targetResellerId"),
    ] {
        let above = town.tree.nodes[town.tree.nodes[node].up.unwrap()].id;
        let delete = sample(operation, &town.goods[AGENT], 0).asking(below, above);
        let delete = delete.holding(field, town.tree.nodes[node].id.into());
        let reply = town.send(operation, &delete.holding("cascade", true.into()), &partner).await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        town.tree.nodes[node].deleted = true;
        assert_eq!(open(&mut town).await, expected(&town), "{node} is deleted");
    }
    let left = town.keys.iter().filter(|key| town.tree.opens(key));
    assert!(left.clone().any(|key| key.owner == Owner::Node(4)), "a neighbour's goes on");
    assert!(left.count() > 3);
}

/// Threats E9: a key is found by its SHA-256 and compared with nothing, so the time of an answer
/// does not tell how near a guess was.
#[tokio::test]
async fn a_near_miss_is_as_far_off_as_any_guess() {
    let mut town = AccessWorld::of(tree()).await;
    let real = town.keys[AGENT].token.clone();
    let hash = token::hash(&real).unwrap().0;
    for place in 3..real.len() {
        let other = if real.as_bytes()[place] == b'A' { "B" } else { "A" };
        let mut near = real.clone();
        near.replace_range(place..=place, other);
        let its = token::hash(&near).unwrap().0;
        assert_ne!(its[..4], hash[..4], "the beginning of the hash tells nothing");
        let request = sample("GET /account", &town.goods[AGENT], 0);
        let reply = town.send("GET /account", &request, &near).await;
        reply.problem(401, "unauthorized", "query parameter token");
    }
}
