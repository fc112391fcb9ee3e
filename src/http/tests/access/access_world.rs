//! A running API over a store in which every account has an object of every kind. Each object has
//! the mark of its account, so a leak shows its source.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Row as _};
use url::Url;
use uuid::Uuid;

use crate::app::tenancy::{Claiming, Invitation, KeyTerms};
use crate::domain::account::{Account, AccountType};
use crate::domain::address::Address;
use crate::domain::agent_config::ConfigKind;
use crate::domain::app::AppRef;
use crate::domain::domain_name::DomainName;
use crate::domain::event::Category;
use crate::domain::id::{AccountId, MemberId};
use crate::domain::key::KeyOwner;
use crate::domain::member::Role;
use crate::domain::reason::Reason;
use crate::domain::verdict::Verdict;
use crate::http::tests::access::line::Line;
use crate::http::tests::access::sample::Sample;
use crate::http::tests::access::tree::{Expected, Key, Named, Owner, Person, Reach, Tree};
use crate::http::tests::{House, Received, Reply, record};
use crate::shutdown::Shutdown;
use crate::store::{AccountUpdate, DeliveryFilter, Intake, Page};
use crate::testkit::dns::{DnsServer, Zone};

/// Ids begin here: 13 digits, which no answer holds by chance (a group of a UUID has twelve).
const FIRST: i64 = 7_200_000_000_000;
/// The name of each message's one part.
pub(super) const PICTURE: &str = "a.png";
/// A domain in which every account may have addresses.
const SHARED: &str = "shared.example";

/// The objects of one account.
pub(super) struct Goods {
    pub(super) mark: String,
    pub(super) key: Uuid,
    pub(super) webhook: Uuid,
    /// A delivery to that webhook, of mail that the Agent received.
    pub(super) delivery: Option<Uuid>,
    pub(super) domain: Option<String>,
    /// Mail of an Agent.
    pub(super) mail: Option<Received>,
    /// The live configuration of an Agent and a version of it.
    pub(super) config: Option<(String, String)>,
}

/// A running API over a tree.
pub(super) struct AccessWorld {
    pub(super) house: House,
    pub(super) tree: Tree,
    /// Goods by the account's place in the tree.
    pub(super) goods: Vec<Goods>,
    /// A key of each account, then one of each member, then one of each Agent's worker.
    pub(super) keys: Vec<Key>,
    /// The Agent that samples are about.
    pub(super) about: usize,
    line: Line,
    pub(super) database: SqliteConnection,
    /// Reads every row of every table.
    all: String,
}

/// The mark on every object of an account.
pub(super) fn mark(node: usize) -> String {
    format!("zq{node:03}qz")
}

/// The mark in the account's name, which accounts below may be told.
pub(super) fn name(node: usize) -> String {
    format!("nm{node:03}mn")
}

/// The mark on everything of a member.
pub(super) fn badge(person: usize) -> String {
    format!("pm{person:03}mp")
}

fn level(kind: char) -> AccountType {
    match kind {
        'P' => AccountType::Partner,
        'R' => AccountType::Reseller,
        'O' => AccountType::Organization,
        _ => AccountType::Agent,
    }
}

impl AccessWorld {
    /// Builds and stocks the tree, then deactivates and deletes.
    pub(super) async fn of(mut tree: Tree) -> Self {
        let dns = DnsServer::start(Zone::default(), Shutdown::default()).await.unwrap();
        // The one connection is idle while rows are read, which takes long on a busy machine.
        let unhurried = "[connections]\nheader_seconds = 300\n";
        let house = House::empty(dns.addr(), unhurried).await;
        let mut database = house.database().await;
        let begin = format!("UPDATE user_ids SET last = {FIRST}");
        sqlx::query(AssertSqlSafe(begin)).execute(&mut database).await.unwrap();
        let line = Line::to(house.address).await;
        let (mut goods, mut keys) = (Vec::new(), Vec::new());
        let mut accounts: Vec<Account> = Vec::new();
        for node in 0..tree.nodes.len() {
            let above = tree.nodes[node].up.map(|up| accounts[up].id);
            let account = move_in(&house, level(tree.nodes[node].kind), above, node).await;
            tree.nodes[node].id = account.id.get();
            let key = house.tenancy.create_key(account.id, &mark(node)).await.unwrap();
            goods.push(stock(&house, &account, node, key.key.id.0).await);
            keys.push(Key {
                what: format!("{node}"),
                owner: Owner::Node(node),
                token: key.token,
                good: true,
                worker: false,
            });
            accounts.push(account);
        }
        let mut workers = Vec::new();
        for (node, account) in accounts.iter().enumerate() {
            if account.kind == AccountType::Agent {
                let token = house.employ(account, &mark(node)).await;
                let (what, owner) = (format!("w{node:03}"), Owner::Node(node));
                workers.push(Key { what, owner, token, good: true, worker: true });
            }
        }
        let about = (0..goods.len()).find(|node| tree.nodes[*node].kind == 'A').unwrap();
        let all = whole(&mut database).await;
        let mut town = Self { house, tree, goods, keys, about, line, database, all };
        for person in 0..town.tree.people.len() {
            let key = town.invite(person).await;
            town.keys.push(key);
        }
        town.keys.extend(workers);
        town.settle().await;
        town
    }

    async fn invite(&mut self, person: usize) -> Key {
        let about = &self.tree.people[person];
        let email = format!("{}@people.example", badge(person));
        let invitation = Invitation {
            email: Address::parse(&email).unwrap(),
            role: if about.admin { Role::Admin } else { Role::Member },
            permitted: Some(about.permitted.iter().map(|agent| self.account(*agent)).collect()),
            redirect_url: None,
            send_welcome_email: None,
        };
        let tenancy = &self.house.tenancy;
        let account = tenancy.account(self.account(about.at)).await.unwrap();
        let member = tenancy.invite(&account, invitation).await.unwrap();
        let owner = KeyOwner::Member(member.id);
        let key = tenancy.issue_key(owner, KeyTerms::of(&badge(person))).await.unwrap();
        self.tree.people[person].id = member.id.get();
        let (what, owner) = (badge(person), Owner::Person(person));
        Key { what, owner, token: key.token, good: true, worker: false }
    }

    /// Notes the ids of contacts; deactivates, deletes and removes whatever the tree marks so.
    async fn settle(&mut self) {
        for (at, node) in self.tree.nodes.iter_mut().enumerate() {
            let contact = sqlx::query("SELECT id FROM contacts WHERE address = $1")
                .bind(format!("{}@good.example", mark(at)))
                .fetch_optional(&mut self.database)
                .await
                .unwrap();
            node.contact = contact.map(|row| row.get(0));
            let id = AccountId::new(node.id).unwrap();
            if !node.active {
                self.house.tenancy.set_active(id, false).await.unwrap();
            }
        }
        let tops = |tree: &Tree, node: usize| {
            tree.nodes[node].deleted && tree.nodes[node].up.is_none_or(|up| !tree.is_gone(up))
        };
        for node in (0..self.tree.nodes.len()).filter(|node| tops(&self.tree, *node)) {
            self.house.tenancy.delete_account(self.account(node), true).await.unwrap();
        }
        for at in 0..self.tree.people.len() {
            let person = &self.tree.people[at];
            if !person.removed || self.tree.is_gone(person.at) {
                continue;
            }
            let account = self.house.tenancy.account(self.account(person.at)).await.unwrap();
            let id = MemberId::new(person.id).unwrap();
            // The last administrator stays.
            let removed = self.house.tenancy.remove_member(&account, id).await.is_ok();
            self.tree.people[at].removed = removed;
        }
    }

    /// A new account below `target`, of the kind that the operation deletes if there can be one.
    pub(super) async fn make_below(&mut self, target: usize, operation: &str) -> i64 {
        let wanted = if operation == "DELETE /deleteAccount" { 'A' } else { 'O' };
        let (above, kind) = match (self.tree.nodes[target].kind, wanted) {
            ('O', _) => (Some(target), 'A'),
            (_, 'A') => (self.live_below(target, 'O'), 'A'),
            ('R', _) => (Some(target), 'O'),
            _ => (Some(target), 'R'),
        };
        let above = match above {
            Some(node) => self.account(node),
            // No live account is in between: makes one.
            None => self.make_organization_below(target).await,
        };
        let made = self.house.tenancy.create_account(level(kind), above, "new", &[]).await;
        made.unwrap().id.get()
    }

    async fn make_organization_below(&self, target: usize) -> AccountId {
        let levels = if self.tree.nodes[target].kind == 'P' { &['R', 'O'][..] } else { &['O'] };
        let mut above = self.account(target);
        for kind in levels {
            let made = self.house.tenancy.create_account(level(*kind), above, "new", &[]).await;
            above = made.unwrap().id;
        }
        above
    }

    fn live_below(&self, target: usize, kind: char) -> Option<usize> {
        let fits = |node: &usize| {
            self.tree.nodes[*node].kind == kind
                && self.tree.is_within(*node, target)
                && !self.tree.is_gone(*node)
        };
        (0..self.tree.nodes.len()).find(fits)
    }

    /// Every row of every table as one line of text, without the traces that a refused request may
    /// leave: the count of refusals, and the use of the key.
    pub(super) async fn rows(&mut self) -> BTreeSet<String> {
        let all = AssertSqlSafe(self.all.as_str());
        let rows = sqlx::query(all).fetch_all(&mut self.database).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Foreign marks in a text that may show `reach` to this caller.
    pub(super) fn leaks(&self, text: &str, expected: &Expected, caller: Owner) -> Vec<String> {
        let reach = match expected {
            Expected::Allowed(reach) => Some(reach),
            _ => None,
        };
        let shows = |node| reach.is_some_and(|reach| self.tree.shows(reach, node));
        let mut found = Vec::new();
        let numbers: BTreeSet<i64> =
            text.split(|c: char| !c.is_ascii_digit()).filter_map(|run| run.parse().ok()).collect();
        for (at, node) in self.tree.nodes.iter().enumerate() {
            let above = reach.is_some_and(|reach| self.is_at_or_above(at, reach));
            if text.contains(&mark(at)) && !shows(at) {
                found.push(format!("something of {at}"));
            }
            if text.contains(&name(at)) && !shows(at) && !above {
                found.push(format!("the name of {at}"));
            }
            // A member is shown with its Agents' ids.
            let listed = self.tree.people.iter().enumerate().any(|(one, person)| {
                let shown = reach.is_some_and(|reach| {
                    reach.person == Some(one) || self.may_act(one, reach.target)
                });
                shown && person.permitted.contains(&at)
            });
            if numbers.contains(&node.id) && !shows(at) && !above && !listed {
                found.push(format!("the id of {at}"));
            }
            if node.contact.is_some_and(|id| numbers.contains(&id)) && !shows(at) {
                found.push(format!("the contact of {at}"));
            }
        }
        for (at, person) in self.tree.people.iter().enumerate() {
            let own = caller == Owner::Person(at) || reach.is_some_and(|r| r.person == Some(at));
            let whole = reach.is_some_and(|r| r.part.is_none()) && shows(person.at);
            let above = reach.is_some_and(|reach| self.is_at_or_above(person.at, reach));
            // The audit log names actors from above an account, up to the caller's own account.
            let acted = self.tree.is_within(person.at, self.tree.home(caller))
                && self.tree.restricted(caller).is_none();
            let whole = whole || reach.is_some_and(|r| self.may_act(at, r.target) && acted);
            let hidden = !own && !whole;
            if hidden && text.contains(&badge(at)) {
                found.push(format!("something of member {at}"));
            }
            let told = above && acted;
            if hidden && !told && numbers.contains(&person.id) {
                found.push(format!("the id of member {at}"));
            }
        }
        found
    }

    /// Whether a request about `target` may have changed this row: it names only accounts above and
    /// below the target, and carries no mark of any other. If it names accounts, the target or one
    /// below it is among them.
    pub(super) fn concerns(&self, row: &str, target: usize) -> bool {
        let numbers = |text: &str| -> BTreeSet<i64> {
            let runs = text.split(|c: char| !c.is_ascii_digit());
            runs.filter_map(|run| run.parse().ok()).collect()
        };
        let all = numbers(row);
        let near = |node| self.tree.is_within(node, target) || self.tree.is_within(target, node);
        // The actor in the audit log need not concern the target.
        let row = row.split(" actor_account=").next().unwrap_or_default();
        let told = numbers(row);
        let mut named =
            self.tree.nodes.iter().enumerate().filter(|(_, node)| told.contains(&node.id));
        // Rows of these tables name only the organization, also for an Agent.
        let shared =
            ["attempts:", "contacts:", "contents:", "deliveries:", "outcomes:", "search_waiting:"];
        let its_own = shared.iter().any(|table| row.starts_with(table))
            || named.clone().next().is_none()
            || named.any(|(at, _)| self.tree.is_within(at, target));
        its_own
            && self.tree.nodes.iter().enumerate().all(|(at, node)| {
                let marked = row.contains(&mark(at)) && !self.tree.is_within(at, target);
                !marked && (!all.contains(&node.id) || near(at))
            })
    }

    /// Whether the request names the owner of its key, the owner's account, or nothing.
    pub(super) fn is_home(&self, key: &Key, named: Named) -> bool {
        let home = self.tree.home(key.owner);
        [Named::Nothing, Named::Node(home)].contains(&named)
            || matches!(key.owner, Owner::Person(own) if named == Named::Person(own))
    }

    /// The answer to a request with this key, or without one.
    pub(super) async fn send(&mut self, operation: &str, sample: &Sample, token: &str) -> Reply {
        let (method, _) = operation.split_once(' ').unwrap();
        let target = sample.target(Some(token).filter(|token| !token.is_empty()));
        let body = sample.body.as_ref().map(ToString::to_string);
        self.line.ask(method, &target, body.as_deref()).await
    }

    /// The answer to a message for the MCP server.
    pub(super) async fn post_mcp(&mut self, token: &str, body: &str) -> Reply {
        let lines = format!(
            "Authorization: Bearer {token}\r\nAccept: application/json, text/event-stream\r\n"
        );
        self.line.ask_with("POST", "/mcp", &lines, Some(body)).await
    }

    pub(super) fn account(&self, node: usize) -> AccountId {
        AccountId::new(self.tree.nodes[node].id).unwrap()
    }

    /// Puts the end of a key into the past.
    pub(super) async fn expire(&mut self, key: Uuid) {
        let expire = "UPDATE keys SET expires_at = 1 WHERE id = $1";
        let id = key.as_bytes().as_slice();
        sqlx::query(expire).bind(id).execute(&mut self.database).await.unwrap();
    }

    /// Whether this member may act on this Agent, and so is shown with it.
    pub(super) fn may_act(&self, person: usize, agent: usize) -> bool {
        let Person { at, permitted, .. } = &self.tree.people[person];
        let permitted = permitted.is_empty() || permitted.contains(&agent);
        self.tree.nodes[agent].kind == 'A' && self.tree.nodes[agent].up == Some(*at) && permitted
    }

    fn is_at_or_above(&self, node: usize, reach: &Reach) -> bool {
        let part = reach.part.iter().flatten().copied();
        part.chain([reach.target]).any(|shown| self.tree.is_within(shown, node))
    }
}

/// The statement of `AccessWorld::rows`.
async fn whole(database: &mut SqliteConnection) -> String {
    let columns = "SELECT tables.name AS table_name, columns.name AS column_name
                   FROM sqlite_schema AS tables JOIN pragma_table_info(tables.name) AS columns
                   WHERE tables.type = 'table' AND tables.name NOT LIKE 'sqlite%'
                         AND columns.name <> 'last_used_at'";
    let mut tables: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in sqlx::query(columns).fetch_all(database).await.unwrap() {
        let (table, column): (String, String) = (row.get(0), row.get(1));
        tables.entry(table).or_default().push(format!("' {column}=' || quote({column})"));
    }
    let selects = tables.iter().map(|(table, columns)| {
        let kept = if table == "audit_entries" { "deed <> 'access.denied'" } else { "1 = 1" };
        format!("SELECT '{table}:' || {} FROM {table} WHERE {kept}", columns.join(" || "))
    });
    selects.collect::<Vec<_>>().join(" UNION ALL ")
}

async fn move_in(
    house: &House,
    kind: AccountType,
    above: Option<AccountId>,
    node: usize,
) -> Account {
    let Some(above) = above else {
        let partner = house.tenancy.create_partner(&name(node)).await.unwrap();
        let shared = DomainName::parse(SHARED).unwrap();
        house.tenancy.add_domain(&shared, partner.id).await.unwrap();
        return partner;
    };
    house.tenancy.create_account(kind, above, &name(node), &[]).await.unwrap()
}

/// Gives an account one of everything that an account of its kind can have.
async fn stock(house: &House, account: &Account, node: usize, key: Uuid) -> Goods {
    let mark = mark(node);
    let url = Url::parse(&format!("https://hooks.example/{mark}")).unwrap();
    let destinations = &house.http.use_cases.destinations;
    destinations.add(account.id, url, Category::Incoming, &mark).await.unwrap();
    if account.parent.is_some() {
        let update = AccountUpdate {
            external_id: Some(Some(mark.clone())),
            details: serde_json::Map::from_iter([("description".into(), mark.as_str().into())]),
            ..AccountUpdate::default()
        };
        house.tenancy.update_account(account.id, update).await.unwrap();
    }
    let webhook = house.store.destinations(account.id).await.unwrap()[0].id;
    let mut domain = None;
    let (mut mail, mut config) = (None, None);
    if account.kind == AccountType::Agent {
        mail = Some(write_to(house, account, &mark).await);
        config = Some(configure(house, account, &mark).await);
    } else {
        let name = DomainName::parse(&format!("{mark}.example")).unwrap();
        house.tenancy.add_domain(&name, account.id).await.unwrap();
        domain = Some(name.to_string());
    }
    keep_apps(house, account, &mark).await;
    let mut refused = record(&house.mint, account, Verdict::Refused(Reason::DkimMissing), None);
    refused.explanation = format!("because of {mark}");
    house.commit(Intake { record: refused, accepted: None }).await;
    let page = Page { limit: 1, from: None, until: None };
    let made = house.store.deliveries(webhook, &DeliveryFilter::default(), &page, 1).await.unwrap();
    let delivery = made.first().map(|made| made.id.0);
    Goods { mark, key, webhook: webhook.0, delivery, domain, mail, config }
}

/// Configures and publishes an Agent, and keeps a version.
async fn configure(house: &House, agent: &Account, mark: &str) -> (String, String) {
    let agents = &house.http.use_cases.agents;
    let fields = json!({ "type": "chatAgent", "title": mark, "description": mark });
    agents.stage(agent.id, fields.as_object().unwrap(), None).await.unwrap();
    let published = agents.publish(agent.id, None).await.unwrap();
    let version = agents.keep_version(agent.id, mark, ConfigKind::Default).await.unwrap();
    (published.configs.live.id.to_string(), version.to_string())
}

/// Stores data of an integration, and for an Agent two apps.
async fn keep_apps(house: &House, account: &Account, mark: &str) {
    let (apps, app) = (&house.http.use_cases.apps, |id| AppRef::new(id, "v1").unwrap());
    let held = house.http.use_cases.access.features(account).await.unwrap();
    let url = json!(format!("https://{mark}.example"));
    let kept = serde_json::Map::from_iter([
        ("baseUrl".to_owned(), url),
        ("apiToken".to_owned(), json!(mark)),
    ]);
    apps.set_integration(account.id, &app("crm"), &kept).await.unwrap();
    if account.kind == AccountType::Agent {
        apps.install(account, &app("crm"), &kept, &held).await.unwrap();
        apps.install(account, &app("webhook"), &serde_json::Map::new(), &held).await.unwrap();
    }
}

async fn write_to(house: &House, agent: &Account, mark: &str) -> Received {
    let address = Address::parse(&format!("{mark}@{SHARED}")).unwrap();
    house.tenancy.claim_address(agent, &address, false, Claiming::Never).await.unwrap();
    let sender = Address::parse(&format!("{mark}@good.example")).unwrap();
    let note = format!("{mark} knows them");
    let listed = std::slice::from_ref(&sender);
    house.tenancy.allow(agent.id, listed, Some(&note)).await.unwrap();
    house.deliver(agent, (sender, address), &raw_of(mark), 0).await
}

impl AccessWorld {
    /// Delivers another message to the Agent of the samples.
    pub(super) async fn write_again(&mut self) {
        let id = AccountId::new(self.tree.nodes[self.about].id).unwrap();
        let agent = self.house.store.account(id).await.unwrap().unwrap();
        let mark = mark(self.about);
        let address = Address::parse(&format!("{mark}@{SHARED}")).unwrap();
        let sender = Address::parse(&format!("{mark}@good.example")).unwrap();
        let mail = self.house.deliver(&agent, (sender, address), &raw_of(&mark), 0).await;
        self.goods[self.about].mail = Some(mail);
    }

    /// Keeps another version for the samples.
    pub(super) async fn keep_version_again(&mut self) {
        let id = AccountId::new(self.tree.nodes[self.about].id).unwrap();
        let (mark, agents) = (mark(self.about), &self.house.http.use_cases.agents);
        let version = agents.keep_version(id, &mark, ConfigKind::Default).await.unwrap();
        let goods = &mut self.goods[self.about];
        goods.config = goods.config.take().map(|(config, _)| (config, version.to_string()));
    }
}

fn raw_of(mark: &str) -> String {
    format!(
        "From: {mark}@good.example\r\nContent-Type: image/png; name={PICTURE}\r\n\r\nfor {mark} only"
    )
}
