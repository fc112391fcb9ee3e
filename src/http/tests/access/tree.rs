//! A tree of accounts and members, and the required result of a request in it: by the contract
//! (§1, §4) and `fixtures/access.toml`, without any code of the program's own decisions.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Clone, Debug)]
pub(super) struct Node {
    /// `P`artner, `R`eseller, `O`rganization, `A`gent.
    pub(super) kind: char,
    pub(super) up: Option<usize>,
    pub(super) active: bool,
    pub(super) deleted: bool,
    pub(super) id: i64,
    /// The id of the contact that wrote to this Agent.
    pub(super) contact: Option<i64>,
}

#[derive(Clone, Debug)]
pub(super) struct Person {
    /// The account that it belongs to.
    pub(super) at: usize,
    pub(super) admin: bool,
    pub(super) permitted: Vec<usize>,
    pub(super) removed: bool,
    pub(super) id: i64,
}

/// The accounts, parents before children, and the members.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    pub(super) people: Vec<Person>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Node(usize),
    Person(usize),
}

/// A text sent as a key.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) what: String,
    pub(super) owner: Owner,
    pub(super) token: String,
    /// Neither revoked nor expired, and made by us.
    pub(super) good: bool,
    /// The key of the worker that the Agent has now.
    pub(super) worker: bool,
}

/// The target that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Named {
    Nothing,
    Node(usize),
    Person(usize),
    /// The contact of this Agent.
    Contact(usize),
    /// An id of nobody.
    Nobody,
}

/// A line of `fixtures/access.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    pub(super) why: String,
    pub(super) operations: Vec<String>,
    pub(super) callers: String,
    pub(super) targets: String,
    pub(super) changes: bool,
    pub(super) restricted: Restricted,
    pub(super) members: bool,
    pub(super) query: Vec<String>,
    #[serde(default)]
    pub(super) body: Vec<String>,
    pub(super) done: Vec<u16>,
}

/// A restricted member's access to its own account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Restricted {
    Nothing,
    Part,
    /// Not even to its Agents.
    Never,
}

/// A field that an account cannot set for itself.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Above {
    pub(super) why: String,
    pub(super) field: String,
    pub(super) operations: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Book {
    waiting: Vec<String>,
    by_link: Vec<String>,
    above: Vec<Above>,
    rule: Vec<Rule>,
}

fn book() -> Book {
    toml::from_str(include_str!("../../../../fixtures/access.toml")).unwrap()
}

/// Returns the fields that only accounts above may set.
pub(super) fn above() -> Vec<Above> {
    let above = book().above;
    assert!(!above.is_empty() && above.iter().all(|one| !one.why.is_empty()));
    above
}

/// Operations that a signed link opens without a key.
pub(super) fn by_link() -> Vec<String> {
    book().by_link
}

/// The oracle's lines by operation, and the operations that do not exist yet.
pub(super) fn rules() -> (BTreeMap<String, Rule>, Vec<String>) {
    let book = book();
    let mut rules = BTreeMap::new();
    for rule in &book.rule {
        assert!(!rule.why.is_empty());
        for operation in &rule.operations {
            let twice = rules.insert(operation.clone(), rule.clone());
            assert!(twice.is_none(), "{operation} is there twice");
        }
    }
    (rules, book.waiting)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// 401.
    NoKey,
    /// 403.
    Forbidden,
    /// 400: within reach, but of the wrong kind.
    WrongKind,
    Allowed(Reach),
}

/// The accounts that an allowed request may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    pub(super) target: usize,
    /// The Agents of the target to which the request is restricted.
    pub(super) part: Option<Vec<usize>>,
    /// The member that the request is about, if any.
    pub(super) person: Option<usize>,
}

impl Tree {
    /// The account and all above it.
    pub(super) fn line(&self, node: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(node), |node| self.nodes[*node].up)
    }

    /// Whether `node` is `top` or lies below it.
    pub(super) fn is_within(&self, node: usize, top: usize) -> bool {
        self.line(node).any(|at| at == top)
    }

    /// Deleted, or below a deleted account.
    pub(super) fn is_gone(&self, node: usize) -> bool {
        self.line(node).any(|at| self.nodes[at].deleted)
    }

    /// Active, and all above it.
    pub(super) fn is_awake(&self, node: usize) -> bool {
        self.line(node).all(|at| self.nodes[at].active && !self.nodes[at].deleted)
    }

    pub(super) fn home(&self, owner: Owner) -> usize {
        match owner {
            Owner::Node(node) => node,
            Owner::Person(person) => self.people[person].at,
        }
    }

    pub(super) fn id(&self, named: Named) -> Option<i64> {
        match named {
            Named::Nothing => None,
            Named::Node(node) => Some(self.nodes[node].id),
            Named::Person(person) => Some(self.people[person].id),
            Named::Contact(agent) => self.nodes[agent].contact,
            Named::Nobody => Some(crate::http::tests::access::NOBODY),
        }
    }

    /// Whether the key opens anything at all.
    pub(super) fn opens(&self, key: &Key) -> bool {
        let home = self.home(key.owner);
        let removed = matches!(key.owner, Owner::Person(person) if self.people[person].removed);
        let awake = self.line(home).all(|at| self.nodes[at].active && !self.nodes[at].deleted);
        key.good && !removed && awake
    }

    /// The member behind a key, if it is restricted.
    pub(super) fn restricted(&self, owner: Owner) -> Option<&Person> {
        let Owner::Person(person) = owner else { return None };
        Some(&self.people[person]).filter(|person| !person.permitted.is_empty())
    }

    /// The oracle: the result that the rule requires.
    pub(super) fn expected(&self, rule: &Rule, key: &Key, named: Named) -> Expected {
        if !self.opens(key) {
            return Expected::NoKey;
        }
        let home = self.home(key.owner);
        // A worker is no administrator.
        if key.worker && !rule.members {
            return Expected::Forbidden;
        }
        if let Owner::Person(own) = key.owner {
            let itself = named == Named::Nothing || named == Named::Person(own);
            if itself && rule.targets.contains('M') {
                let reach = Reach { target: home, part: Some(Vec::new()), person: Some(own) };
                return Expected::Allowed(reach);
            }
            if !self.people[own].admin && !rule.members {
                return Expected::Forbidden;
            }
        }
        let calls = |kind: char| rule.callers.contains(kind);
        if !(calls(self.nodes[home].kind) || key.worker && calls('W')) {
            return Expected::Forbidden;
        }
        let (target, person) = match named {
            Named::Nothing => (home, None),
            Named::Node(node) if !self.is_gone(node) => (node, None),
            Named::Person(person)
                if !self.people[person].removed && !self.is_gone(self.people[person].at) =>
            {
                (self.people[person].at, Some(person))
            }
            _ => return Expected::Forbidden,
        };
        if !self.is_within(target, home) {
            return Expected::Forbidden;
        }
        let mut part = None;
        if let Some(caller) = self.restricted(key.owner) {
            let own_account = target == home && person.is_none();
            if own_account && rule.restricted == Restricted::Part {
                part = Some(caller.permitted.clone());
            } else if rule.restricted == Restricted::Never
                || person.is_some()
                || !caller.permitted.contains(&target)
            {
                return Expected::Forbidden;
            }
        }
        let kind = if person.is_some() { 'M' } else { self.nodes[target].kind };
        if !rule.targets.contains(kind) {
            return Expected::WrongKind;
        }
        Expected::Allowed(Reach { target, part, person })
    }

    /// The oracle for a request that sets a field which only accounts above may set.
    pub(super) fn expected_from_above(&self, rule: &Rule, key: &Key, named: Named) -> Expected {
        let (home, restricted) = (self.home(key.owner), self.restricted(key.owner).is_some());
        match self.expected(rule, key, named) {
            Expected::Allowed(reach) if reach.target == home || restricted => Expected::Forbidden,
            expected => expected,
        }
    }

    /// Whether an answer may show objects of this account.
    pub(super) fn shows(&self, reach: &Reach, node: usize) -> bool {
        match &reach.part {
            Some(agents) => agents.contains(&node),
            None => self.is_within(node, reach.target),
        }
    }
}
