//! Every operation × every key × every target × every place that names the target.

use std::collections::{BTreeMap, BTreeSet};

use crate::app::access::need::Effect;
use crate::http::operation::Operation;
use crate::http::table::OPERATIONS;
use crate::http::tests::access::access_world::AccessWorld;
use crate::http::tests::access::asked::{Asked, anonymous, places};
use crate::http::tests::access::tree::{
    Expected, Key, Named, Node, Owner, Person, Rule, Tree, by_link, rules,
};
use crate::http::verb::Verb;

/// The places of some accounts in [`tree`].
const PARTNER: usize = 0;
const RESELLER: usize = 1;
const ORGANIZATION: usize = 3;
/// The Agent that samples are about.
pub(super) const AGENT: usize = 6;

/// Targets inside, above and outside the caller's accounts, and an unknown id.
const EVERYWHERE: &[Named] = &[
    Named::Nothing,
    Named::Nobody,
    Named::Node(PARTNER),
    Named::Node(2),
    Named::Node(ORGANIZATION),
    Named::Node(AGENT),
    Named::Node(7),
];

/// Kind, parent, whether active, whether deleted.
const ACCOUNTS: &[(char, usize, bool, bool)] = &[
    ('P', 0, true, false),
    ('R', PARTNER, true, false),
    ('R', PARTNER, true, false),
    ('O', RESELLER, true, false),
    ('O', RESELLER, true, false),
    ('O', 2, true, false),
    ('A', ORGANIZATION, true, false),
    ('A', ORGANIZATION, true, false),
    ('A', 4, true, false),
    ('A', 5, true, false),
    // Inactive, and below an inactive one.
    ('A', ORGANIZATION, false, false),
    ('O', RESELLER, false, false),
    ('A', 11, true, false),
    // Deleted, and below a deleted one.
    ('A', ORGANIZATION, true, true),
    ('O', RESELLER, true, true),
    ('A', 14, true, true),
];

/// Account, whether an administrator, permitted Agents, whether removed.
const PEOPLE: &[(usize, bool, &[usize], bool)] = &[
    (PARTNER, true, &[], false),
    (RESELLER, true, &[], false),
    (ORGANIZATION, true, &[], false),
    (ORGANIZATION, false, &[], false),
    (ORGANIZATION, true, &[AGENT], false),
    (ORGANIZATION, false, &[AGENT], false),
    (RESELLER, true, &[AGENT, 8], false),
    // Restricted to a deleted Agent: the restriction still applies.
    (ORGANIZATION, true, &[13], false),
    (ORGANIZATION, true, &[], true),
    (11, true, &[], false),
    (5, true, &[], false),
];

pub(super) fn tree() -> Tree {
    let nodes = ACCOUNTS.iter().enumerate().map(|(at, (kind, up, active, deleted))| Node {
        kind: *kind,
        up: (at > 0).then_some(*up),
        active: *active,
        deleted: *deleted,
        id: 0,
        contact: None,
    });
    let people = PEOPLE.iter().map(|(at, admin, permitted, removed)| Person {
        at: *at,
        admin: *admin,
        permitted: permitted.to_vec(),
        removed: *removed,
        id: 0,
    });
    Tree { nodes: nodes.collect(), people: people.collect() }
}

/// One target of each kind; a few for a key that opens nothing.
fn targets(tree: &Tree, key: &Key) -> Vec<Named> {
    let mut named = vec![Named::Nothing, Named::Node(AGENT)];
    if tree.opens(key) {
        named.push(Named::Nobody);
        let others = (0..tree.nodes.len()).filter(|node| ![AGENT, 5, 12, 15].contains(node));
        named.extend(others.map(Named::Node));
        named.extend([2, 8, 10].map(Named::Person));
        named.extend([AGENT, 9].map(Named::Contact));
        if let Owner::Person(own) = key.owner
            && !named.contains(&Named::Person(own))
        {
            named.push(Named::Person(own));
        }
    }
    named
}

#[test]
fn every_operation_is_in_the_oracle_and_the_oracle_has_no_other() {
    let (rules, waiting) = rules();
    let built: BTreeSet<String> = OPERATIONS.iter().map(Operation::name).collect();
    let known: BTreeSet<String> = rules.keys().cloned().collect();
    assert_eq!(built, known);
    for operation in OPERATIONS {
        let (name, rule) = (operation.name(), &rules[&operation.name()]);
        assert_eq!(rule.changes, operation.need.effect == Effect::Write, "{name}");
        // A link or an image in a mail can make a reader send a GET (threats E13).
        assert!(!rule.changes || operation.verb != Verb::Get, "{name}");
        assert_eq!(rule.query, operation.target_names, "{name}");
        let linked = by_link().contains(&name);
        assert_eq!(operation.linked.is_some(), linked, "{name}");
        assert!(!linked || !rule.changes, "{name}");
    }
    let early: Vec<_> = waiting.iter().filter(|operation| built.contains(*operation)).collect();
    assert!(early.is_empty(), "built, and said to be waiting: {early:?}");
}

impl AccessWorld {
    /// The keys of all accounts and members, and some texts that are no keys.
    async fn all_keys(&mut self) -> Vec<Key> {
        // Keys of one kind open the same, so one of each will do.
        let same = [2, 4, 5, 7, 8, 9].map(Owner::Node);
        let mut keys = self.keys.clone();
        keys.retain(|key| !same.contains(&key.owner) && key.owner != Owner::Person(10));
        let owner = Owner::Node(AGENT);
        keys.retain(|key| !key.worker || key.owner == owner);
        let (good, worker) = (false, false);
        let of = |what: &str, token: String| Key { what: what.into(), owner, token, good, worker };
        for what in ["revoked", "expired"] {
            let made = self.house.tenancy.create_key(self.account(AGENT), what).await.unwrap();
            keys.push(of(what, made.token));
            match what {
                "revoked" => self.house.tenancy.revoke_key(made.key.id).await.unwrap(),
                _ => self.expire(made.key.id.0).await,
            }
        }
        keys.push(of("made up", format!("gp_{}", "A".repeat(43))));
        keys.push(of("none", String::new()));
        keys
    }
}

/// The requests so far, and the number of each result.
#[derive(Default)]
struct Walk {
    came_to: BTreeMap<&'static str, usize>,
    /// The answers without a valid key. There are only two: one with a key that opens nothing, one
    /// without any key.
    strangers: BTreeSet<(bool, String)>,
}

#[tokio::test]
async fn every_reading_is_answered_as_the_oracle_says() {
    walk(|_, rule| !rule.changes).await;
}

#[tokio::test]
async fn every_change_is_answered_as_the_oracle_says() {
    walk(|operation, rule| rule.changes && !operation.starts_with("POST ")).await;
}

#[tokio::test]
async fn every_post_that_changes_is_answered_as_the_oracle_says() {
    walk(|operation, rule| rule.changes && operation.starts_with("POST ")).await;
}

async fn walk(takes: fn(&str, &Rule) -> bool) {
    let mut town = AccessWorld::of(tree()).await;
    let keys = town.all_keys().await;
    let (rules, _) = rules();
    let mut walk = Walk::default();
    for operation in OPERATIONS.iter().map(Operation::name) {
        let rule = &rules[&operation];
        if !takes(&operation, rule) {
            continue;
        }
        refusals(&mut town, &mut walk, (&operation, rule), &keys).await;
        allowances(&mut town, &mut walk, (&operation, rule), &keys).await;
    }
    assert_eq!(walk.strangers.len(), 2, "{:#?}", walk.strangers);
    for word in ["no key", "forbidden", "wrong kind", "allowed"] {
        assert!(walk.came_to[word] > 100, "{:?}", walk.came_to);
    }
}

/// Refused requests: all answers are equal, and nothing changes.
async fn refusals(
    town: &mut AccessWorld,
    walk: &mut Walk,
    (operation, rule): (&str, &Rule),
    keys: &[Key],
) {
    let before = town.rows().await;
    for key in keys {
        let (places, mut answers) = (places(rule, key), BTreeSet::new());
        for (turn, named) in targets(&town.tree, key).into_iter().enumerate() {
            let expected = town.tree.expected(rule, key, named);
            if matches!(expected, Expected::Allowed(_)) {
                continue;
            }
            // Some targets in every place, the others in one place each.
            let all = town.tree.opens(key) && EVERYWHERE.contains(&named);
            let turn = turn % places.len();
            for place in if all { &places[..] } else { &places[turn..=turn] } {
                let expected = expected.clone();
                let asked = Asked { operation, rule, key, named, place, expected };
                let reply = town.ask(&asked, 0).await;
                asked.check(town, &reply);
                match asked.expected {
                    Expected::NoKey => {
                        walk.strangers.insert((key.token.is_empty(), anonymous(&reply)));
                    }
                    // A restricted member is told why its own account refuses.
                    Expected::Forbidden if !town.is_home(key, named) => {
                        answers.insert(anonymous(&reply));
                    }
                    _ => {}
                }
                walk.count(&asked.expected);
            }
        }
        assert!(answers.len() < 2, "{operation} by {}: {answers:#?}", key.what);
    }
    same(operation, &before, &town.rows().await);
}

/// Allowed requests: show and change nothing of other accounts.
async fn allowances(
    town: &mut AccessWorld,
    walk: &mut Walk,
    (operation, rule): (&str, &Rule),
    keys: &[Key],
) {
    let mut before = town.rows().await;
    let mut by_target: BTreeMap<usize, Vec<(&Key, Named, Expected)>> = BTreeMap::new();
    for key in keys {
        for named in targets(&town.tree, key) {
            let expected = town.tree.expected(rule, key, named);
            if let Expected::Allowed(reach) = &expected {
                by_target.entry(reach.target).or_default().push((key, named, expected));
            }
        }
    }
    let mut elsewhere = BTreeSet::new();
    for (target, calls) in by_target {
        for (turn, (key, named, expected)) in calls.into_iter().enumerate() {
            // The first target in every place, the others in one place each.
            let places = places(rule, key);
            let turn = turn.checked_sub(1).map(|turn| turn % places.len());
            for place in turn.map_or(&places[..], |turn| &places[turn..=turn]) {
                let expected = expected.clone();
                let asked = Asked { operation, rule, key, named, place, expected };
                let reply = town.ask(&asked, walk.number()).await;
                asked.check(town, &reply);
                if reply.status == 404 && operation.contains('{') {
                    elsewhere.insert(anonymous(&reply));
                }
                walk.count(&asked.expected);
            }
        }
        if rule.changes {
            let after = town.rows().await;
            for row in before.symmetric_difference(&after) {
                assert!(town.concerns(row, target), "{operation} on {target} changed {row}");
            }
            before = after;
        }
    }
    assert!(elsewhere.len() < 2, "{operation}: {elsewhere:#?}");
    if !rule.changes {
        same(operation, &before, &town.rows().await);
    }
}

fn same(operation: &str, before: &BTreeSet<String>, after: &BTreeSet<String>) {
    let changed: Vec<_> = before.symmetric_difference(after).collect();
    assert!(changed.is_empty(), "{operation} changed {changed:#?}");
}

impl Walk {
    fn count(&mut self, expected: &Expected) {
        let word = match expected {
            Expected::NoKey => "no key",
            Expected::Forbidden => "forbidden",
            Expected::WrongKind => "wrong kind",
            Expected::Allowed(_) => "allowed",
        };
        *self.came_to.entry(word).or_default() += 1;
    }

    /// A number that no earlier request had.
    fn number(&self) -> usize {
        self.came_to.values().sum()
    }
}
