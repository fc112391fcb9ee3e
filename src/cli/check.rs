//! `gatepost check`: the whole verdict of a file, step by step, without delivering it.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use bytes::Bytes;
use clap::Args;
use serde_json::{Value, json};

use super::send::{HERE, with_crlf};
use super::{Failure, StoreArgs, print_json, say};
use crate::app::intake::{Examination, examine, judge};
use crate::domain::account::AccountType;
use crate::domain::address::Address;
use crate::domain::id::AccountId;
use crate::domain::policy::{Mode, Proof};
use crate::domain::ports::{Client, Envelope};
use crate::domain::reason::Reason;
use crate::domain::verdict::Verdict;
use crate::run;
use crate::store::Standing;

/// Say what would become of a message, step by step, without delivering it
#[derive(Args, Debug)]
pub(super) struct Check {
    #[arg(value_name = "FILE.eml")]
    file: PathBuf,
    /// An Agent, by id or by one of its addresses: applies its policy too
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// The envelope sender, for SPF [default: the null reverse-path]
    #[arg(long, value_name = "ADDRESS", default_value = "")]
    from: String,
    /// The name said in EHLO, for SPF
    #[arg(long, value_name = "NAME", default_value = "localhost")]
    helo: String,
    /// The address of the sending server, for SPF
    #[arg(long, value_name = "IP", default_value_t = HERE)]
    remote: IpAddr,
    /// Resolvers to ask instead of the system's
    #[arg(long, env = "GATEPOST_DNS", value_name = "HOST:PORT", value_delimiter = ',')]
    dns: Option<Vec<std::net::SocketAddr>>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

impl Check {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let raw = std::fs::read(&self.file)
            .map_err(|error| format!("cannot read {}: {error}", self.file.display()))?;
        let raw = Bytes::from(with_crlf(raw));
        let mut options = self.store.options()?;
        options.dns = self.dns.clone().or(options.dns);
        let rules = Arc::new(self.store.rules()?.intake);
        let authenticator =
            run::authenticator(options.dns.as_deref(), &rules, &options.hostname()?)?;
        let mint = run::system_mint();
        let envelope = Envelope {
            client: Client {
                address: self.remote,
                helo: self.helo.clone(),
                esmtp: true,
                tls: None,
            },
            reverse_path: self.from.clone(),
            recipients: Vec::new(),
            smtputf8: true,
        };
        let now = mint.clock().now();
        let mut examination = examine(&authenticator, &rules, &envelope, &raw, now).await;
        let standing = self.standing(&mut examination).await?;
        let reason = judge(&examination, &standing);
        self.show(&examination, &standing, reason)?;
        Ok(if reason.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// The Agent's standing; without an Agent that of one that is open to all.
    async fn standing(&self, examination: &mut Examination) -> Result<Standing, Failure> {
        let Some(agent) = &self.agent else {
            return Ok(Standing {
                answers: true,
                active: true,
                mode: Mode::Open,
                policy_version: 0,
                listed: false,
            });
        };
        let store = self.store.open().await?;
        let (id, address) = match agent.parse::<AccountId>() {
            Ok(id) => {
                let addresses = store.addresses(id).await?;
                let address = addresses.into_iter().next().map(|(address, _)| address);
                (id, address.ok_or_else(|| format!("Agent {id} has no address"))?)
            }
            Err(_) => {
                // As at RCPT, without the tag.
                let address = Address::parse(agent).map_err(|e| format!("{agent:?}: {e}"))?;
                let (address, _) = address.without_tag();
                let found = store.look_up(Some(&address), None).await?.answering;
                let found = found.ok_or_else(|| format!("no Agent has the address {address}"))?;
                (found.agent, address)
            }
        };
        examination.find_loop(store.identity().await?, std::iter::once(&address));
        let kind = store.account(id).await?.map(|account| account.kind);
        let sender = examination.sender.as_ref().unwrap_or(&address);
        match store.standing(id, &address, sender).await? {
            Some(standing) if kind == Some(AccountType::Agent) => Ok(standing),
            _ => Err(format!("account {id} is not an Agent").into()),
        }
    }

    fn show(
        &self,
        examination: &Examination,
        standing: &Standing,
        reason: Option<Reason>,
    ) -> Result<(), Failure> {
        let verdict = Verdict::of(reason);
        if self.json {
            return print_json(&json!({
                "verdict": verdict.as_str(),
                "reason": reason.map(Reason::as_str),
                "explanation": reason.map(Reason::explanation),
                "advice": reason.map(Reason::advice),
                "detail": examination.detail,
                "sender": examination.sender.as_ref().map(Address::to_string),
                "steps": examination.steps,
                "authentication": examination.authentication,
            }));
        }
        for step in &examination.steps {
            let text = |key| step.get(key).and_then(Value::as_str).unwrap_or_default();
            say!("{:<10} {:<10} {}", text("name"), text("result"), text("detail"))?;
        }
        if examination.proof == Proof::Authenticated {
            let listed = if standing.listed { "listed" } else { "not listed" };
            say!("{:<10} {:<10} the sender is {listed}", "policy", standing.mode.as_str())?;
        }
        say!("\n{verdict}{}", reason.map(|r| format!(" ({r})")).unwrap_or_default())?;
        if let Some(reason) = reason {
            say!("{}\n{}", reason.explanation(), reason.advice())?;
        }
        Ok(())
    }
}
