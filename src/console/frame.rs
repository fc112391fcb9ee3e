//! The frame of every page: the account above, the sections beside, what was done or failed on top.

use askama::Template;
use serde::Deserialize;

use super::visit::Visit;
use crate::http::error::Problem;

/// The part of the console that a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    None,
    Live,
    Rooms,
    Sessions,
}

/// An entry of the navigation.
pub(super) struct Entry {
    pub(super) section: Section,
    pub(super) path: &'static str,
    pub(super) words: &'static str,
}

/// The navigation, in groups.
const GROUPS: &[(&str, &[Entry])] = &[
    (
        "",
        &[
            Entry { section: Section::Live, path: "/live", words: "Live" },
            Entry { section: Section::Rooms, path: "/rooms", words: "Rooms" },
        ],
    ),
    ("You", &[Entry { section: Section::Sessions, path: "/sessions", words: "Sessions" }]),
];

/// What was done, by the word in the address of the page that shows it.
const DONE: &[(&str, &str)] = &[
    ("allowed", "The sender is on the list now: its next authenticated message is accepted."),
    ("erased", "The message is erased. A contact or a room without messages goes with it."),
    ("ended", "The session is ended: its next click asks for a key."),
];

/// What surrounds a page.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) account: i64,
    pub(super) name: String,
    /// `account` for an Agent, `organization`, `reseller` or `partner`.
    pub(super) kind: String,
    /// Who signed in.
    pub(super) who: String,
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
        let done = DONE.iter().find(|(word, _)| *word == visit.query.get("done"));
        Ok(Self {
            account: visit.account,
            name: shown.name,
            kind: shown.kind,
            who: member.unwrap_or_else(|| caller.account.name.clone()),
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

    /// The address of a page of this account.
    pub(super) fn to(&self, page: &str) -> String {
        format!("/console/{}{page}", self.account)
    }

    pub(super) fn groups(&self) -> &'static [(&'static str, &'static [Entry])] {
        GROUPS
    }

    pub(super) fn is_here(&self, entry: &Entry) -> bool {
        entry.section == self.section
    }
}

/// An error as a page.
#[derive(Template)]
#[template(path = "problem.html", config = "src/console/templates/askama.toml")]
pub(super) struct ProblemPage<'p> {
    pub(super) title: &'static str,
    pub(super) problem: &'p Problem,
    pub(super) frame: Option<Frame>,
}
