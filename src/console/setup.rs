//! Setup: what is missing until the first message comes in, each with the line to paste.

use askama::Template;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::filters;
use super::frame::{Frame, Section};
use super::visit::{Answer, Visit};
use crate::http::error::Problem;

/// Most domains of an Agent's addresses whose DNS is looked at: each takes a moment.
const MOST_DOMAINS: usize = 3;

/// One thing that must be there.
struct Check {
    /// `good`, `wait` for a missing thing, or `none` where nothing needs to be done, or nothing is
    /// known.
    tone: &'static str,
    /// The tone in words.
    state: &'static str,
    title: String,
    words: String,
    /// The line to paste, or empty.
    paste: String,
    /// The page that mends it, and its words; empty without one.
    page: &'static str,
    button: &'static str,
}

impl Check {
    fn new(tone: &'static str, title: &str, words: String) -> Self {
        let state = match tone {
            "good" => "is there",
            "wait" => "is missing",
            _ => "to check yourself",
        };
        let (title, paste) = (title.to_owned(), String::new());
        Self { tone, state, title, words, paste, page: "", button: "" }
    }

    fn paste(self, line: String) -> Self {
        Self { paste: line, ..self }
    }

    fn mended_at(self, page: &'static str, button: &'static str) -> Self {
        Self { page, button, ..self }
    }
}

#[derive(Template)]
#[template(path = "setup.html", config = "src/console/templates/askama.toml")]
struct SetupPage {
    frame: Frame,
    checks: Vec<Check>,
    /// Domains with reports of senders on TLS.
    reports: Vec<Reports>,
}

/// Shows the checks of an Agent.
pub(super) async fn show(visit: Visit) -> Result<Answer, Problem> {
    let frame = visit.frame(Section::Setup).await?;
    if !frame.is_agent() {
        const EACH: &str = "What an Agent needs to get its first message is checked for each Agent";
        return frame.open_another(&visit, "/setup", EACH).await;
    }
    let addresses = found(&visit, "listAddresses", "/addresses").await;
    let first = addresses.as_ref().and_then(|list| text(list.first()?, "address"));
    let (mut checks, mut reports) = (vec![address(addresses.as_deref())], Vec::new());
    // One after the other, as a key checks one at a time; none begins once one has waited its time.
    let until = Instant::now() + visit.console.http.rules.domains.lookup();
    for domain in domains(addresses.as_deref()) {
        if Instant::now() >= until {
            checks.push(unchecked(&domain, "the DNS of another domain took too long"));
            continue;
        }
        let (found, told) = of_domain(&visit, domain).await;
        checks.extend(found);
        reports.extend(told);
    }
    checks.push(sender(&visit).await);
    checks.push(webhook(&visit).await);
    checks.push(message(&visit, first.as_deref()).await);
    Answer::page(&SetupPage { frame, checks, reports })
}

/// The list at this place of an answer; None where the caller may not read it.
async fn found(visit: &Visit, operation: &'static str, place: &str) -> Option<Vec<Value>> {
    let answer: Value = visit.ask(visit.on(operation)).await.ok()?;
    answer.pointer(place)?.as_array().cloned()
}

fn text(value: &Value, name: &str) -> Option<String> {
    value.get(name).and_then(Value::as_str).map(str::to_owned)
}

const UNSEEN: &str = "Your key does not show this.";

fn address(addresses: Option<&[Value]>) -> Check {
    let (tone, words) = match addresses {
        None => ("none", UNSEEN.to_owned()),
        Some([]) => ("wait", "The Agent has no address, so every recipient is unknown.".to_owned()),
        Some(list) => {
            let named: Vec<_> = list.iter().filter_map(|one| text(one, "address")).collect();
            ("good", named.join(", "))
        }
    };
    Check::new(tone, "An address", words).mended_at("/accounts", "Add an address")
}

/// The domains of the addresses, each once.
fn domains(addresses: Option<&[Value]>) -> Vec<String> {
    let mut domains: Vec<String> = Vec::new();
    for one in addresses.unwrap_or_default() {
        let address = text(one, "address").unwrap_or_default();
        if let Some((_, domain)) = address.rsplit_once('@')
            && domains.len() < MOST_DOMAINS
            && !domains.iter().any(|known| known == domain)
        {
            domains.push(domain.to_owned());
        }
    }
    domains
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CheckedDomain {
    checks: Vec<DomainCheck>,
    tls_reports: Vec<TlsReport>,
}

/// A sender's claim on the TLS that it met.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TlsReport {
    received_at: String,
    organization: String,
    signed_by: Option<String>,
    successful: u64,
    failed: u64,
    failures: Vec<TlsFailure>,
}

#[derive(Deserialize)]
struct TlsFailure {
    r#type: String,
    sessions: u64,
    host: String,
    reason: String,
}

/// The last reports on a domain.
struct Reports {
    domain: String,
    reports: Vec<TlsReport>,
}

impl TlsReport {
    /// The proof of the sender, in words.
    fn proof(&self) -> String {
        match &self.signed_by {
            Some(domain) => format!("in mail signed by {domain}"),
            None => "posted, by anybody".to_owned(),
        }
    }

    /// The most frequent failure, in words; empty without one.
    fn first_failure(&self) -> String {
        let Some(first) = self.failures.first() else { return String::new() };
        let mut words = format!("{} ({})", first.r#type, first.sessions);
        for (before, more) in [(" at ", &first.host), (": ", &first.reason)] {
            if !more.is_empty() {
                words.push_str(before);
                words.push_str(more);
            }
        }
        words
    }
}

/// A check of `checkDomain`.
#[derive(Deserialize)]
struct DomainCheck {
    check: String,
    about: String,
    result: String,
    detail: String,
    advice: Option<String>,
    line: Option<String>,
}

/// Checks the DNS of a domain, and its hosts, as mail servers see them.
/// Returns also what senders reported on it.
async fn of_domain(visit: &Visit, domain: String) -> (Vec<Check>, Option<Reports>) {
    let asked = visit.on("checkDomain").with("domain", &*domain);
    match visit.ask::<CheckedDomain>(asked).await {
        Ok(CheckedDomain { checks, tls_reports: reports }) => {
            let told = (!reports.is_empty()).then_some(Reports { domain, reports });
            (checks.into_iter().map(Check::from).collect(), told)
        }
        Err(problem) => (vec![unchecked(&domain, &problem.masked().detail)], None),
    }
}

fn unchecked(domain: &str, why: &str) -> Check {
    Check::new("none", &format!("The DNS of {domain}"), format!("It was not checked: {why}."))
}

impl From<DomainCheck> for Check {
    fn from(found: DomainCheck) -> Self {
        let DomainCheck { check, about, result, detail, advice, line } = found;
        let title = match check.as_str() {
            "mx" => format!("The MX record of {about}"),
            "address" => format!("The address of {about}"),
            "ptr" => format!("The name of {about} (PTR)"),
            "certificate" => format!("The certificate for {about}"),
            "mta-sts" => format!("MTA-STS of {about}"),
            "tlsa" => format!("DANE of {about} (TLSA)"),
            "tls-rpt" => format!("TLS-RPT of {about}"),
            "tls-reports" => format!("TLS by the reports of senders to {about}"),
            "port" => "The port for mail".to_owned(),
            other => format!("{other} of {about}"),
        };
        let (tone, state) = match result.as_str() {
            "ok" => ("good", "is right"),
            "warning" => ("wait", "should be looked at"),
            "failure" => ("wait", "is wrong"),
            _ => ("none", "may stay as it is"),
        };
        let mut letters = detail.chars();
        let first = letters.next().map(char::to_uppercase).into_iter().flatten();
        let mut words: String = first.chain(letters).collect();
        if let Some(advice) = advice {
            words = format!("{words}: {advice}");
        }
        words.push('.');
        let paste = line.unwrap_or_default();
        Self { tone, state, title, words, paste, page: "", button: "" }
    }
}

async fn sender(visit: &Visit) -> Check {
    let answer: Option<Value> = visit.ask(visit.on("getInboundPolicy")).await.ok();
    let policy = answer.as_ref().and_then(|answer| answer.get("policy"));
    let mode = policy.and_then(|policy| text(policy, "mode"));
    let listed = policy.and_then(|policy| policy.get("allowlistCount")).and_then(Value::as_u64);
    let (tone, words) = match (mode.as_deref(), listed) {
        (Some("open"), _) => ("good", "Every proven sender may write (mode open).".to_owned()),
        (Some(_), Some(0)) => {
            ("wait", "Nobody is on the list, so every message is refused.".into())
        }
        (Some(_), Some(count)) => ("good", format!("{count} on the list.")),
        _ => ("none", UNSEEN.to_owned()),
    };
    Check::new(tone, "A sender who may write", words).mended_at("/policy", "Add a sender")
}

async fn webhook(visit: &Visit) -> Check {
    let (tone, words) = match found(visit, "listWebhooks", "/webhooks").await.as_deref() {
        None => ("none", UNSEEN.to_owned()),
        Some([]) => (
            "wait",
            "None of this Agent's own. One of an account above hears of its mail, too; a reader of \
             the events needs none:"
                .to_owned(),
        ),
        Some(list) => ("good", format!("{} of this Agent.", list.len())),
    };
    let check = Check::new(tone, "A webhook", words).mended_at("/webhooks", "Create a webhook");
    match tone {
        "good" => check,
        _ => check.paste(format!("gatepost events --follow {}", visit.account)),
    }
}

async fn message(visit: &Visit, address: Option<&str>) -> Check {
    let asked = visit.on("listIntakeRecords").with("limit", 1);
    let answer: Option<Value> = visit.ask(asked).await.ok();
    let records = answer.as_ref().and_then(|answer| answer.get("intake")).and_then(Value::as_array);
    let verdict = records.and_then(|records| text(records.first()?, "verdict"));
    let title = "The first message";
    let check = match verdict {
        Some(verdict) => Check::new("good", title, format!("The latest one was {verdict}.")),
        // This server signs no mail: the key of a test lies with its operator.
        None => {
            let words = "None has come in yet. Send one from a mail account of yours; or the \
                         operator sends a signed test message on the server:";
            let to = address.unwrap_or("AGENT@DOMAIN");
            let check = Check::new("wait", title, words.to_owned());
            check.paste(format!("gatepost doctor --send-test {to}"))
        }
    };
    check.mended_at("/live", "Watch for it")
}
