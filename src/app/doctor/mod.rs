//! Checks of a gateway and of what surrounds it: its store, its resolvers, its certificates, and the
//! DNS of its domains.
//!
//! A [`Check`] says what was looked at, how it is, and what to do. One file has the checks of one
//! subject; `domain_checks` are those that a customer may ask for. `gatepost doctor` and `serve
//! --check` add what only they see: files, ports and a message on its way. Never here: changing
//! anything but an object of a try (no store is migrated), or waiting without a limit. It holds no
//! lock.

pub mod certificates;
pub mod database;
pub mod domain;
pub mod domain_checks;
pub mod egress;
mod mta_sts;
pub mod originals;
pub mod resolvers;
pub mod tls_reports;

use schemars::JsonSchema;
use serde::Serialize;

use crate::domain::words::words;
use crate::wire::Word;

words! {
    /// A kind of check.
    CheckSubject {
        Settings = "settings",
        Files = "files",
        Disk = "disk",
        Database = "database",
        Clock = "clock",
        Originals = "originals",
        Egress = "egress",
        Resolver = "resolver",
        Certificate = "certificate",
        Port = "port",
        Mx = "mx",
        Address = "address",
        Ptr = "ptr",
        MtaSts = "mta-sts",
        Tlsa = "tlsa",
        TlsRpt = "tls-rpt",
        TlsReports = "tls-reports",
        Message = "message",
    }
}

words! {
    /// The result of a check.
    Tone {
        Ok = "ok",
        /// It works, or may work; somebody should look.
        Warning = "warning",
        Failure = "failure",
        /// There was nothing to check, or it could not be checked.
        Skipped = "skipped",
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub subject: CheckSubject,
    /// A domain, an address, a path: which one of its kind; empty if there is one only.
    pub about: String,
    pub tone: Tone,
    /// How it is.
    pub detail: String,
    /// The remedy.
    pub advice: Option<String>,
    /// A line to paste: a DNS record or a command.
    pub line: Option<String>,
}

impl Check {
    /// Begins a check of this kind about one thing.
    pub fn of(subject: CheckSubject, about: impl Into<String>) -> CheckTopic {
        CheckTopic { subject, about: about.into() }
    }

    /// Adds a line to paste.
    #[must_use]
    pub fn paste(self, line: impl Into<String>) -> Self {
        Self { line: Some(line.into()), ..self }
    }
}

/// A check without its result.
#[derive(Clone, Debug)]
pub struct CheckTopic {
    subject: CheckSubject,
    about: String,
}

impl CheckTopic {
    pub fn ok(self, detail: impl Into<String>) -> Check {
        self.with(Tone::Ok, detail.into(), None)
    }

    pub fn skipped(self, detail: impl Into<String>) -> Check {
        self.with(Tone::Skipped, detail.into(), None)
    }

    pub fn warning(self, detail: impl Into<String>, advice: impl Into<String>) -> Check {
        self.with(Tone::Warning, detail.into(), Some(advice.into()))
    }

    pub fn failure(self, detail: impl Into<String>, advice: impl Into<String>) -> Check {
        self.with(Tone::Failure, detail.into(), Some(advice.into()))
    }

    fn with(self, tone: Tone, detail: String, advice: Option<String>) -> Check {
        Check { subject: self.subject, about: self.about, tone, detail, advice, line: None }
    }
}

/// A check as the API and `gatepost doctor --json` show it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DoctorCheck")]
pub struct CheckRecord {
    /// The kind of check.
    check: Word<CheckSubject>,
    /// Which one of its kind: a domain, a host, an address; empty if there is one only.
    about: String,
    /// The result.
    result: Word<Tone>,
    /// How it is.
    detail: String,
    /// The remedy; null if there is nothing to do.
    advice: Option<String>,
    /// A line to paste, such as a DNS record; null if there is none.
    line: Option<String>,
}

impl From<Check> for CheckRecord {
    fn from(check: Check) -> Self {
        let Check { subject, about, tone, detail, advice, line } = check;
        Self { check: Word(subject), about, result: Word(tone), detail, advice, line }
    }
}
