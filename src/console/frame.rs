//! The frame of every page: the account above, the sections beside, what was done or failed on top.

use askama::Template;
use serde::Deserialize;

use super::visit::{Answer, Visit};
use crate::http::error::Problem;

/// The part of the console that a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    None,
    Live,
    Refused,
    Rooms,
    Policy,
    Webhooks,
    Accounts,
    Domains,
    Keys,
    Audit,
    Agent,
    Setup,
    System,
    Sessions,
}

/// An entry of the navigation.
pub(super) struct Entry {
    pub(super) section: Section,
    pub(super) path: &'static str,
    pub(super) words: &'static str,
}

/// A group of the navigation: its words and its entries.
type Group = (&'static str, &'static [Entry]);

/// Most Agents of a page that leads to one of them.
const AGENTS: u32 = 50;

/// The navigation, in groups.
const GROUPS: &[Group] = &[
    (
        "",
        &[
            Entry { section: Section::Live, path: "/live", words: "Live" },
            Entry { section: Section::Refused, path: "/refused", words: "Refused" },
            Entry { section: Section::Rooms, path: "/rooms", words: "Rooms" },
        ],
    ),
    (
        "Setup",
        &[
            Entry { section: Section::Setup, path: "/setup", words: "First message" },
            Entry { section: Section::Policy, path: "/policy", words: "Policy" },
            Entry { section: Section::Webhooks, path: "/webhooks", words: "Webhooks" },
            Entry { section: Section::Agent, path: "/agent", words: "Configuration" },
            Entry { section: Section::Accounts, path: "/accounts", words: "Accounts" },
            Entry { section: Section::Domains, path: "/domains", words: "Domains" },
            Entry { section: Section::Keys, path: "/keys", words: "Keys and members" },
            Entry { section: Section::Audit, path: "/audit", words: "Audit" },
        ],
    ),
    ("Gateway", &[Entry { section: Section::System, path: "/system", words: "System" }]),
    ("You", &[Entry { section: Section::Sessions, path: "/sessions", words: "Sessions" }]),
];

/// Results of forms, by the word in the address of the page that shows it.
const DONE: &[(&str, &str)] = &[
    ("allowed", "The sender is on the list now: its next authenticated message is accepted."),
    ("saved", "The policy is saved: it holds for the next message, on every gateway."),
    ("tested", "The test event is on its way: reload to see what became of it."),
    ("replayed", "It will be sent again: reload to see what became of it."),
    ("webhook", "The webhook is changed."),
    ("removed", "The webhook is removed: nothing more is sent to it."),
    ("created", "The account is created."),
    ("switched", "The account is switched: it holds from the next message and request on."),
    ("deleted", "The account is deleted. Its rows are erased step by step."),
    ("address", "The Agent has the address: mail to it is taken from now on."),
    ("released", "The Agent no longer has the address."),
    ("domain", "The account no longer has the domain."),
    ("revoked", "The key is revoked: it opens nothing on any gateway, and its sessions end."),
    ("invited", "The member is invited. Nothing is sent: make a key for the member."),
    ("member", "The member is changed."),
    ("dismissed", "The member is removed, and the member's keys stop at once."),
    ("published", "The configuration is live. The former one is kept as a version."),
    ("reverted", "Staging is the live configuration again."),
    ("restored", "The version is in staging: publish it to make it live."),
    ("erased", "The message is erased. A contact or a room without messages goes with it."),
    ("forgotten", "The contact is erased, with all its messages to this organization."),
    ("ended", "The session is ended: its next click asks for a key."),
    ("withdrawn", "The link is withdrawn: it opens nothing."),
];

/// The parts around a page.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) account: i64,
    pub(super) name: String,
    /// `account` for an Agent, `organization`, `reseller` or `partner`.
    pub(super) kind: String,
    /// The member or account that signed in.
    pub(super) who: String,
    is_administrator: bool,
    section: Section,
    /// Goes with every form.
    pub(super) csrf: String,
    /// Goes with a form that creates something: sent twice, it is carried out once.
    pub(super) once: String,
    pub(super) done: &'static str,
    pub(super) problem: Option<Problem>,
    /// The search as it was sent.
    pub(super) query: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    #[serde(default)]
    name: String,
    #[serde(rename = "accountType", default)]
    kind: String,
}

impl Frame {
    pub(super) async fn of(visit: &Visit, section: Section) -> Result<Self, Problem> {
        let shown: Shown = visit.ask(visit.on("getAccount")).await?;
        let caller = &visit.api.caller;
        let member = caller.member.as_ref().map(|member| member.email.to_string());
        // Not beside the result of another form.
        let word = if visit.form.is_empty() { visit.query.get("done") } else { "" };
        let done = DONE.iter().find(|(known, _)| *known == word);
        Ok(Self {
            account: visit.account,
            name: shown.name,
            kind: shown.kind,
            who: member.unwrap_or_else(|| caller.account.name.clone()),
            is_administrator: caller.is_administrator(),
            section,
            csrf: super::session::csrf(&visit.secret),
            once: visit.console.http.mint.uuid().to_string(),
            done: done.map_or("", |(_, words)| words),
            problem: visit.problem.clone(),
            query: visit.query.get("q").to_owned(),
        })
    }

    /// Whether the account is an Agent.
    pub(super) fn is_agent(&self) -> bool {
        self.kind == "account"
    }

    /// The page of an account of a level that does not have the page: leads to `page` of the Agents
    /// below, if the account is none.
    pub(super) async fn open_another(
        self,
        visit: &Visit,
        page: &'static str,
        words: &'static str,
    ) -> Result<Answer, Problem> {
        let mut below = Agents::default();
        if !self.is_agent() {
            let agents = visit.on("searchAccounts").with("accountType", "account");
            below = visit.ask(agents.with("pageSize", AGENTS)).await?;
        }
        Answer::page(&OpenAgentPage { frame: self, page, words, below })
    }

    /// The address of a page of this account.
    pub(super) fn to(&self, page: &str) -> String {
        format!("/console/{}{page}", self.account)
    }

    /// The navigation; the gateway itself is for those who operate it.
    pub(super) fn groups(&self) -> impl Iterator<Item = &'static Group> {
        let operates = self.kind == "partner" && self.is_administrator;
        let is_system = |entry: &Entry| entry.section == Section::System;
        GROUPS.iter().filter(move |(_, entries)| operates || !entries.iter().any(is_system))
    }

    pub(super) fn is_here(&self, entry: &Entry) -> bool {
        entry.section == self.section
    }
}

#[derive(Template)]
#[template(path = "open_agent.html", config = "src/console/templates/askama.toml")]
struct OpenAgentPage {
    frame: Frame,
    /// The path of the page below an account.
    page: &'static str,
    words: &'static str,
    below: Agents,
}

/// The first Agents below an account.
#[derive(Default, Deserialize)]
struct Agents {
    accounts: Vec<Agent>,
    /// Set if there are more.
    next: Option<i64>,
}

#[derive(Deserialize)]
struct Agent {
    id: i64,
    #[serde(default)]
    name: String,
}

/// An error as a page.
#[derive(Template)]
#[template(path = "problem.html", config = "src/console/templates/askama.toml")]
pub(super) struct ProblemPage {
    pub(super) problem: Problem,
    pub(super) frame: Option<Frame>,
}
