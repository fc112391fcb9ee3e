//! `gatepost check`: shows the whole verdict on a file, step by step, without delivering it; or
//! repeats the verdict of a record with the DNS answers kept in it.

mod again;
mod assumed;
mod kept;
mod told;

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use bytes::Bytes;
use clap::Args;
use serde_json::{Map, Value};

use self::again::{Again, Verdict as Reached};
use self::kept::RecordedVerdict;
use super::account_name::AccountName;
use super::given::GlobalArgs;
use super::send::HERE;
use super::{Failure, print_json, say};
use crate::app::intake::{Case, Examination, Visit, examine, examine_file, judge};
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
/// the installation's delivery marker, `rates` on earlier mail, `relay` on the application's
/// answer.
const GIVEN: [&str; 3] = ["loop", "rates", "relay"];

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

impl Check {
    pub(super) async fn run(self, given: &GlobalArgs) -> Result<ExitCode, Failure> {
        let raw = std::fs::read(&self.file)
            .map_err(|error| format!("cannot read {}: {error}", self.file.display()))?;
        match &self.record {
            None => self.check(given, raw).await,
            Some(record) => self.check_again(given, RecordedVerdict::read(record)?, raw).await,
        }
    }

    async fn check(&self, given: &GlobalArgs, raw: Vec<u8>) -> Result<ExitCode, Failure> {
        let mut options = given.options()?;
        options.dns = self.dns.clone().or(options.dns);
        let dns = options.dns().await?;
        let rules = given.rules()?;
        let raw = Bytes::from(as_received(raw, rules.smtp.framing.bare_line_ends));
        let rules = Arc::new(rules.intake);
        let authenticator = run::authenticator(dns.as_deref(), &rules, &options.hostname()?)?;
        let assumed = self.assumed(&raw, &rules);
        let envelope = &assumed.envelope;
        let mint = run::system_mint();
        let now = mint.clock().now();
        let examination = examine_file(&authenticator, &rules, envelope, &raw, now).await;
        let (agent, recipient, standing, visit) = self.standing(given, &examination).await?;
        let visit = visit.as_ref();
        let case = Case { envelope, recipient: &recipient, visit, now };
        let mut record = judge::record(&case, &examination, &standing, &mint);
        record.agent = agent;
        let mut shown = fields(&record)?;
        // Nothing was written, so there is no id.
        shown.insert("id".into(), Value::Null);
        if given.json {
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
        given: &GlobalArgs,
        kept: RecordedVerdict,
        raw: Vec<u8>,
    ) -> Result<ExitCode, Failure> {
        let raw = kept.same_message(raw, &self.file)?;
        let rules = Arc::new(given.rules()?.intake);
        let helpers = Shutdown::default();
        let mut told = kept.told()?;
        let dns = DnsServer::start(std::mem::take(&mut told.zone), helpers).await?;
        let hostname = match kept.receiver() {
            Some(name) => DomainName::parse(name)?,
            None => given.options()?.hostname()?,
        };
        let authenticator = run::authenticator(Some(&[dns.addr()]), &rules, &hostname)?;
        let envelope = &kept.envelope;
        let examination = examine(&authenticator, &rules, envelope, &raw, kept.arrived).await;
        let visit = kept.evidence.step("loop").map(Visit::of_record);
        let (recipient, visit, now) = (kept.text("recipient"), visit.as_ref(), kept.arrived);
        let case = Case { envelope, recipient, visit, now };
        let mut record = judge::record(&case, &examination, &kept.standing, &run::system_mint());
        behind_policy(&mut record, &kept);
        let mut shown = fields(&record)?;
        for name in ["id", "date", "agentId", "messageUuid"] {
            shown.insert(name.into(), kept.field(name).clone());
        }
        let was = Reached { fields: &kept.fields, evidence: &kept.evidence };
        let is = Reached { fields: &shown, evidence: &record.evidence };
        let again = Again::compare(was, is, &told);
        if given.json {
            again.add_to(&mut shown);
            print_json(&Value::Object(shown))?;
        } else {
            show_record(&Value::Object(shown))?;
            again.tell()?;
        }
        Ok(if again.differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Returns the Agent, its address, its standing, and a previous visit of the message. Without
    /// `--agent`, the standing of an open Agent.
    async fn standing(
        &self,
        given: &GlobalArgs,
        examination: &Examination,
    ) -> Result<(Option<AccountId>, String, Standing, Option<Visit>), Failure> {
        let Some(agent) = &self.agent else {
            let standing = Standing {
                answers: true,
                active: true,
                mode: Mode::Open,
                policy_version: 0,
                listed: false,
                relay: None,
            };
            return Ok((None, String::new(), standing, None));
        };
        let store = given.open().await?;
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
        match store.standing(id, &address, sender).await? {
            Some(standing) => Ok((Some(id), address.to_string(), standing, visit)),
            None => Err(format!("account {id} is not an Agent").into()),
        }
    }
}

/// Applies the record's `rates` and `relay` steps, which come after the policy, to a verdict that
/// is accepted again.
fn behind_policy(record: &mut IntakeRecord, kept: &RecordedVerdict) {
    if record.verdict != Verdict::Accepted {
        return;
    }
    let over = kept.came_to("rates", Reason::RateLimited.as_str());
    let (name, reason) = if over {
        ("rates", Some(Reason::RateLimited))
    } else if kept.came_to("relay", HopOutcome::Refused.as_str()) {
        ("relay", Some(Reason::RelayRefused))
    } else if kept.came_to("relay", HopOutcome::Deferred.as_str()) {
        ("relay", Some(Reason::RelayUnavailable))
    } else {
        ("relay", None)
    };
    if let Some(step) = kept.evidence.step(name) {
        record.evidence.push(step.clone());
    }
    if reason.is_some() {
        record.verdict = Verdict::of(reason);
        record.explanation = kept.text("explanation").to_owned();
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
