//! The fixtures of `fixtures/mail`, compiled in so that the demo needs nothing but the program.
//! `fixtures/README.md` describes the form of a case.

use std::collections::BTreeMap;

use include_dir::{Dir, DirEntry, include_dir};
use serde::Deserialize;
use toml::{Table, toml};

static MAIL: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/fixtures/mail");

/// A fixture that cannot be used; the error names the file.
#[derive(Debug, thiserror::Error)]
#[error("fixtures/{file}: {detail}")]
pub struct FixtureError {
    file: String,
    detail: String,
}

/// One message, its transaction, and the expected result.
#[derive(Clone, Debug)]
pub struct Case {
    /// `accepted/plain`, `refused/dkim_missing/plain`, …
    pub name: String,
    pub script: Script,
    raw: &'static [u8],
}

/// The `.toml` beside a message.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    pub about: String,
    #[serde(default = "default_helo")]
    pub helo: String,
    pub from: String,
    pub to: Vec<String>,
    /// `accepted`, or the reason code.
    pub expect: String,
    /// The expected beginning of the settling reply.
    pub reply: String,
    #[serde(default)]
    pad_to_bytes: usize,
    pub record: Option<ExpectedRecord>,
    /// Whether `fixtures/records.json` holds its record, word for word.
    #[serde(default)]
    pub golden: bool,
    /// Rules that an operator changed: one table per file of `policies/`.
    #[serde(default)]
    pub rules: BTreeMap<String, Table>,
}

/// Cases for one gateway.
#[derive(Clone, Debug)]
pub struct Group {
    /// Rule files as names and texts, overriding the compiled-in ones.
    pub rules: Vec<(String, String)>,
    pub cases: Vec<Case>,
}

/// Expected parts of the stored message; None is not compared.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExpectedRecord {
    pub sender: Option<String>,
    pub name: Option<String>,
    pub agent: Option<String>,
    pub subject: Option<String>,
    pub text: Option<String>,
    pub text_contains: Vec<String>,
    pub tag: Option<String>,
    pub attachments: Option<Vec<ExpectedAttachment>>,
    pub aligned_domain: Option<String>,
    pub unsigned_headers: Option<Vec<String>>,
    pub origin: Option<String>,
    pub findings: Option<Vec<String>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedAttachment {
    pub filename: Option<String>,
    pub content_type: Option<String>,
    pub size: Option<u64>,
}

/// The Agents that receive the cases.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentsFile {
    pub domain: String,
    #[serde(rename = "agent")]
    pub agents: Vec<AgentEntry>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentEntry {
    pub name: String,
    pub addresses: Vec<String>,
    pub mode: String,
    pub allow: Vec<String>,
    pub active: bool,
}

fn default_helo() -> String {
    "client.example".to_owned()
}

impl Case {
    /// All cases, sorted by name.
    pub fn all() -> Result<Vec<Self>, FixtureError> {
        let mut cases = Vec::new();
        let mut folders = vec![&MAIL];
        while let Some(folder) = folders.pop() {
            for entry in folder.entries() {
                match entry {
                    DirEntry::Dir(inner) => folders.push(inner),
                    DirEntry::File(file) => {
                        if file.path().extension().is_some_and(|ending| ending == "toml") {
                            cases.push(Self::read(file)?);
                        }
                    }
                }
            }
        }
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(cases)
    }

    fn read(file: &include_dir::File<'static>) -> Result<Self, FixtureError> {
        let path = file.path();
        let error =
            |detail: String| FixtureError { file: format!("mail/{}", path.display()), detail };
        let message = path.with_extension("eml");
        let raw = MAIL.get_file(&message).ok_or_else(|| error("has no .eml beside it".into()))?;
        let text = file.contents_utf8().ok_or_else(|| error("is not UTF-8".into()))?;
        let script = toml::from_str(text).map_err(|e| error(e.to_string()))?;
        let name = path.with_extension("").display().to_string();
        Ok(Self { name, script, raw: raw.contents() })
    }

    pub fn named(name: &str) -> Result<Self, FixtureError> {
        let error =
            || FixtureError { file: format!("mail/{name}.toml"), detail: "is missing".into() };
        MAIL.get_file(format!("{name}.toml")).ok_or_else(error).and_then(Self::read)
    }

    /// All cases, grouped by the rules of their gateways; those without changes come first.
    pub fn groups() -> Result<Vec<Group>, FixtureError> {
        let mut groups: BTreeMap<_, Vec<Self>> = BTreeMap::new();
        for case in Self::all()? {
            groups.entry(case.rule_files()).or_default().push(case);
        }
        let group = |((_, rules), cases)| Group { rules, cases };
        Ok(groups.into_iter().map(group).collect())
    }

    /// Returns whether the case changes rules, and its rule files. The DNS timeout is short for all
    /// cases, because one resolver never answers.
    fn rule_files(&self) -> (bool, Vec<(String, String)>) {
        let quick = toml! {
            [dns]
            query_timeout_seconds = 1
            retries = 0
        };
        let mut rules = BTreeMap::from([("intake".to_owned(), quick)]);
        for (file, table) in &self.script.rules {
            rules.entry(file.clone()).or_default().extend(table.clone());
        }
        let files = rules.iter().map(|(file, table)| (format!("{file}.toml"), table.to_string()));
        (!self.script.rules.is_empty(), files.collect())
    }

    /// The bytes to send.
    pub fn raw(&self) -> Vec<u8> {
        const FILLER: &[u8] =
            b"This line makes the message longer, and says nothing else at all.\r\n";
        let mut raw = self.raw.to_vec();
        while raw.len() < self.script.pad_to_bytes {
            raw.extend_from_slice(FILLER);
        }
        raw
    }
}

pub fn agents() -> Result<AgentsFile, FixtureError> {
    toml::from_str(include_str!("../../fixtures/agents.toml"))
        .map_err(|error| FixtureError { file: "agents.toml".into(), detail: error.to_string() })
}

/// The private key of alice@good.example in PEM; the file name holds selector and domain.
pub fn key_of_alice() -> (&'static str, &'static str) {
    const PEM: &str = include_str!("../../fixtures/keys/s1._domainkey.good.example.pem");
    ("s1._domainkey.good.example.pem", PEM)
}

/// The DNS answers for the cases, in the format of `testkit::dns`.
pub fn zone() -> &'static str {
    include_str!("../../fixtures/dns/zone.tsv")
}
