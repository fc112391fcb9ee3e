//! `gatepost check`: shows the whole verdict on a file, step by step, without delivering it; or
//! repeats the verdict of a record with the DNS answers recorded in it.

mod assumed_envelope;
mod comparison;
mod recorded_dns;
mod recorded_verdict;

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use bytes::Bytes;
use clap::Args;
use serde_json::{Map, Value};

use self::comparison::{Comparison, ReachedVerdict};
use self::recorded_verdict::{RecordedGround, RecordedVerdict};
use super::account_name::AccountName;
use super::global_args::GlobalArgs;
use super::send::HERE;
use super::{Failure, print_json, say};
use crate::app::intake::{Case, Examination, Visit, examine, examine_file, judge, tls_report};
use crate::app::mailbox::intake::WholeIntakeRecord;
use crate::app::tenancy::TenancyError;
use crate::config::HostPort;
use crate::domain::account::AccountType;
use crate::domain::domain_name::DomainName;
use crate::domain::id::AccountId;
use crate::domain::intake_record::IntakeRecord;
use crate::domain::policy::Mode;
use crate::domain::reason::Reason;
use crate::domain::relay::HopOutcome;
use crate::domain::verdict::Verdict;
use crate::mail::line_ends::as_received;
use crate::run;
use crate::shutdown::Shutdown;
use crate::store::Standing;
use crate::testkit::dns::DnsServer;

/// Steps that a record alone cannot repeat, so their results are copied from it: `loop` depends on
/// the installation's delivery marker, `rates` and `tlsReport` on earlier mail, `relay` on the
/// application's answer.
const COPIED: [&str; 4] = ["loop", "rates", "relay", "tlsReport"];

/// Show the verdict on a message, step by step, without delivering it
#[derive(Args, Debug)]
#[command(after_help = "Prints the shape of GET /email/intake/{id} with --json.")]
pub(super) struct Check {
    #[arg(value_name = "FILE.eml")]
    file: PathBuf,
    /// An Agent, by id or by one of its addresses: applies its policy too
    #[arg(long, value_name = "AGENT")]
    agent: Option<AccountName>,
    /// Verify the file as of a record from GET /email/intake/{id} ("-" reads standard input): with
    /// its time, DNS answers and policy. Succeeds if the verdict is the same
    #[arg(long, value_name = "RECORD.json", conflicts_with_all = ["agent", "from", "helo", "ip"])]
    record: Option<PathBuf>,
    /// The envelope sender, for SPF [default: the From of the file; "" is the null reverse-path]
    #[arg(long, value_name = "ADDRESS")]
    from: Option<String>,
    /// The client's name in EHLO, for SPF
    #[arg(long, value_name = "NAME", default_value = "localhost")]
    helo: String,
    /// The address of the sending server, for SPF
    // `--remote` is the old name of `--ip`.
    #[arg(long, alias = "remote", value_name = "IP", default_value_t = HERE)]
    ip: IpAddr,
    /// Resolvers to ask instead of the system's
    #[arg(long, env = "GATEPOST_DNS", value_name = "HOST:PORT", value_delimiter = ',')]
    dns: Option<Vec<HostPort>>,
}

/// The Agent that the verdict is about.
struct Recipient {
    agent: Option<AccountId>,
    address: String,
    standing: Standing,
    /// Is set if the message has reached the address before.
    visit: Option<Visit>,
}

impl Check {
    pub(super) async fn run(self, global: &GlobalArgs) -> Result<ExitCode, Failure> {
        let raw = std::fs::read(&self.file)
            .map_err(|error| format!("cannot read {}: {error}", self.file.display()))?;
        match &self.record {
            None => self.check(global, raw).await,
            Some(record) => self.check_again(global, RecordedVerdict::read(record)?, raw).await,
        }
    }

    async fn check(&self, global: &GlobalArgs, raw: Vec<u8>) -> Result<ExitCode, Failure> {
        let mut options = global.options()?;
        options.dns = self.dns.clone().or(options.dns);
        let dns = options.dns().await?;
        let rules = global.rules()?;
        let raw = Bytes::from(as_received(raw, rules.smtp.framing.bare_line_ends));
        let rules = Arc::new(rules.intake);
        let authenticator = run::authenticator(dns.as_deref(), &rules, &options.hostname()?)?;
        let assumed = self.assumed_envelope(&raw, &rules);
        let envelope = &assumed.envelope;
        let mint = run::system_mint();
        let now = mint.clock().now();
        let examination = examine_file(&authenticator, &rules, envelope, &raw, now).await;
        let recipient = self.recipient(global, &examination).await?;
        let visit = recipient.visit.as_ref();
        let case = Case { envelope, recipient: &recipient.address, visit, now };
        let mut record = judge::record(&case, &examination, &recipient.standing, &mint);
        record.agent = recipient.agent;
        let mut shown = fields(&record)?;
        // Nothing was written, so there is no id.
        shown.insert("id".into(), Value::Null);
        if global.json {
            print_json(&Value::Object(shown))?;
        } else {
            say!("{assumed}\n")?;
            show_record(&Value::Object(shown))?;
        }
        let accepted = record.verdict.reason().is_none();
        Ok(if accepted { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Verifies the message of a record with the DNS answers of the record.
    async fn check_again(
        &self,
        global: &GlobalArgs,
        recorded: RecordedVerdict,
        raw: Vec<u8>,
    ) -> Result<ExitCode, Failure> {
        let raw = recorded.same_message(raw, &self.file)?;
        let rules = Arc::new(global.rules()?.intake);
        let helpers = Shutdown::default();
        let mut answers = recorded.dns_answers()?;
        let dns = DnsServer::start(std::mem::take(&mut answers.zone), helpers).await?;
        let hostname = match recorded.receiver() {
            Some(name) => DomainName::parse(name)?,
            None => global.options()?.hostname()?,
        };
        let authenticator = run::authenticator(Some(&[dns.addr()]), &rules, &hostname)?;
        let envelope = &recorded.envelope;
        let examination = examine(&authenticator, &rules, envelope, &raw, recorded.arrived).await;
        let visit = recorded.evidence.step("loop").map(Visit::of_record);
        let (recipient, visit, now) =
            (recorded.text("recipient"), visit.as_ref(), recorded.arrived);
        let case = Case { envelope, recipient, visit, now };
        let mint = run::system_mint();
        let record = match &recorded.ground {
            RecordedGround::Policy(standing) => {
                let mut record = judge::record(&case, &examination, standing, &mint);
                apply_later_steps(&mut record, &recorded);
                record
            }
            RecordedGround::TlsReport(step) => {
                tls_report::record(&case, &examination, (**step).clone(), &mint)
            }
        };
        let mut shown = fields(&record)?;
        for name in ["id", "date", "agentId", "messageUuid"] {
            shown.insert(name.into(), recorded.field(name).clone());
        }
        let was = ReachedVerdict { fields: &recorded.fields, evidence: &recorded.evidence };
        let is = ReachedVerdict { fields: &shown, evidence: &record.evidence };
        let comparison = Comparison::of(was, is, &answers);
        if global.json {
            comparison.add_to(&mut shown);
            print_json(&Value::Object(shown))?;
        } else {
            show_record(&Value::Object(shown))?;
            comparison.print()?;
        }
        Ok(if comparison.differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Returns the named Agent as recipient; without `--agent`, an open one without a name.
    async fn recipient(
        &self,
        global: &GlobalArgs,
        examination: &Examination,
    ) -> Result<Recipient, Failure> {
        let Some(agent) = &self.agent else {
            let standing = Standing {
                answers: true,
                active: true,
                mode: Mode::Open,
                policy_version: 0,
                listed: false,
                relay: None,
            };
            return Ok(Recipient { agent: None, address: String::new(), standing, visit: None });
        };
        let store = global.open().await?;
        let (id, address) = match agent {
            AccountName::Id(id) => {
                let account = store.account(*id).await?.ok_or(TenancyError::NoAccount(*id))?;
                if account.kind != AccountType::Agent {
                    return Err(TenancyError::NoAgent { account: *id, kind: account.kind }.into());
                }
                let addresses = store.addresses(*id).await?;
                let address = addresses.into_iter().next().map(|held| held.address);
                (*id, address.ok_or_else(|| format!("Agent {id} has no address"))?)
            }
            AccountName::Address(address) => {
                // As at RCPT, without the tag: a catch-all matches, too.
                let (address, _) = address.without_tag();
                let found = store.look_up(Some(&address), None).await?.answering;
                let found = found.ok_or_else(|| format!("no Agent has the address {address}"))?;
                (found.agent, address)
            }
        };
        // A store without an identity has never marked a message.
        let identity = store.known_identity().await?;
        let visit = identity.and_then(|identity| examination.visit(identity, &address));
        let sender = examination.sender.as_ref().unwrap_or(&address);
        let standing = store.standing(id, &address, sender).await?;
        let standing = standing.ok_or_else(|| format!("account {id} is not an Agent"))?;
        Ok(Recipient { agent: Some(id), address: address.to_string(), standing, visit })
    }
}

/// Applies the record's `rates` and `relay` steps, which come after the policy, to a verdict that
/// is accepted again.
fn apply_later_steps(record: &mut IntakeRecord, recorded: &RecordedVerdict) {
    if record.verdict != Verdict::Accepted {
        return;
    }
    let over = recorded.has_result("rates", Reason::RateLimited.as_str());
    let (name, reason) = if over {
        ("rates", Some(Reason::RateLimited))
    } else if recorded.has_result("relay", HopOutcome::Refused.as_str()) {
        ("relay", Some(Reason::RelayRefused))
    } else if recorded.has_result("relay", HopOutcome::Deferred.as_str()) {
        ("relay", Some(Reason::RelayUnavailable))
    } else {
        ("relay", None)
    };
    if let Some(step) = recorded.evidence.step(name) {
        record.evidence.push(step.clone());
    }
    if reason.is_some() {
        record.verdict = Verdict::of(reason);
        record.explanation = recorded.text("explanation").to_owned();
    }
}

/// Returns the record as the API shows it.
fn fields(record: &IntakeRecord) -> Result<Map<String, Value>, Failure> {
    let shown = serde_json::to_value(WholeIntakeRecord::from(record))?;
    Ok(serde_json::from_value(shown)?)
}

/// Prints a record for people: steps, verdict, explanation and advice.
pub(super) fn show_record(record: &Value) -> Result<(), Failure> {
    let text = |key: &str| record.get(key).and_then(Value::as_str).unwrap_or_default();
    for step in record.get("steps").and_then(Value::as_array).into_iter().flatten() {
        let text = |key| step.get(key).and_then(Value::as_str).unwrap_or_default();
        // One line per signature.
        let detail = text("detail").replace('\n', &format!("\n{:23}", ""));
        say!("{:<10} {:<10}  {detail}", text("name"), text("result"))?;
    }
    let reason = text("reason");
    let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    say!("\n{}{reason}", text("verdict"))?;
    for line in [text("explanation"), text("advice")] {
        if !line.is_empty() {
            say!("{line}")?;
        }
    }
    Ok(())
}
