//! `gatepost send`: sends message files over SMTP, signed if asked.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::dev::sending::DevArgs;
use super::global_args::GlobalArgs;
use super::local::{one_line, record_of};
use super::{Failure, print_json, say};
use crate::mail::line_ends::with_crlf;
use crate::testkit::signer::{Key, Signer};
use crate::testkit::smtp_client::{Transaction, deliver};

/// Send messages over SMTP, signed on the way if asked
#[derive(Args, Debug)]
#[command(
    after_help = "Prints {\"message\":…,\"recipient\":…,\"reply\":…,\"record\":…} for each reply with --json."
)]
pub(super) struct Send {
    /// Messages; a file without any CRLF gets CRLF line ends, any other is sent unchanged
    #[arg(value_name = "FILE.eml", required_unless_present = "dev")]
    files: Vec<PathBuf>,
    /// Recipients [with --dev, default: its Agent]
    #[arg(long = "to", value_name = "ADDRESS", required_unless_present = "dev")]
    to: Vec<String>,
    /// The server
    #[arg(long, value_name = "HOST:PORT", required_unless_present = "dev")]
    server: Option<String>,
    /// The envelope sender [default: the null reverse-path; with --dev the sender]
    #[arg(long, value_name = "ADDRESS")]
    from: Option<String>,
    /// The client's name in EHLO
    #[arg(long, value_name = "NAME", default_value = "localhost")]
    helo: String,
    /// Sign with this private key (PEM). A file named SELECTOR._domainkey.DOMAIN.pem implies
    /// selector and domain
    #[arg(long, value_name = "KEY")]
    sign: Option<PathBuf>,
    /// d= of the signature
    #[arg(long, value_name = "DOMAIN", requires = "sign")]
    domain: Option<String>,
    /// s= of the signature
    #[arg(long, value_name = "SELECTOR", requires = "sign")]
    selector: Option<String>,
    #[command(flatten)]
    dev: DevArgs,
    #[arg(skip)]
    json: bool,
}

/// One message and its destination.
struct Posting<'p> {
    server: &'p str,
    from: &'p str,
    to: &'p [String],
    name: &'p str,
    raw: &'p [u8],
}

impl Send {
    pub(super) async fn run(mut self, global: &GlobalArgs) -> Result<ExitCode, Failure> {
        (self.dev.data, self.json) = (global.folder_of_dev(), global.json);
        let went_well = match &self.server {
            Some(server) => self.send_files(server).await?,
            None => self.send_to_dev().await?,
        };
        Ok(if went_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Returns whether every recipient accepted every message.
    async fn send_files(&self, server: &str) -> Result<bool, Failure> {
        let signer = self.sign.as_deref().map(|key| self.signer(key)).transpose()?;
        let from = self.from.as_deref().unwrap_or_default();
        let mut all_accepted = true;
        for file in &self.files {
            let raw = std::fs::read(file)
                .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
            let mut raw = with_crlf(raw);
            if let Some(signer) = &signer {
                raw = signer.sign(&raw)?;
            }
            let name = &file.display().to_string();
            let posting = Posting { server, from, to: &self.to, name, raw: &raw };
            for reply in self.send(&posting).await? {
                all_accepted &= reply.starts_with("250");
            }
        }
        Ok(all_accepted)
    }

    /// Returns whether every reply is as expected.
    async fn send_to_dev(&self) -> Result<bool, Failure> {
        let agent = [DevArgs::AGENT.to_owned()];
        let to = if self.to.is_empty() { &agent[..] } else { &self.to };
        let dev = self.dev.prepare(&self.files, to)?;
        if !self.json {
            dev.print_expected()?;
        }
        let (server, mut went_well) = (&dev.server.to_string(), true);
        for message in &dev.messages {
            let from = self.from.as_deref().unwrap_or(&message.from);
            let posting = Posting { server, from, to, name: &message.name, raw: &message.raw };
            for reply in self.send(&posting).await? {
                let is_as_expected = dev.is_as_expected(&reply);
                went_well &= is_as_expected;
                if self.json {
                    continue;
                }
                if let Some(record) = record_of(&reply) {
                    say!("record: http://{}/api/v2/email/intake/{record}", dev.http)?;
                }
                dev.print_judgement(is_as_expected)?;
            }
        }
        Ok(went_well)
    }

    /// Sends one message, in as many transactions as the server requires. Prints and returns the
    /// reply for each recipient.
    async fn send(&self, posting: &Posting<'_>) -> Result<Vec<String>, Failure> {
        let Posting { server, from, to, name, raw } = posting;
        let (mut waiting, mut all) = (to.to_vec(), Vec::new());
        while !waiting.is_empty() {
            let transaction = Transaction { helo: &self.helo, from, to: &waiting, raw };
            let replies = deliver(server, &transaction)
                .await
                .map_err(|error| self.failure(server, &error))?;
            let mut later = Vec::new();
            for (index, recipient) in waiting.iter().enumerate() {
                let reply = match replies.recipients.get(index) {
                    // The recipient needs another transaction.
                    Some(reply) if reply.starts_with("452 4.5.3") => {
                        later.push(recipient.clone());
                        continue;
                    }
                    Some(reply) if !reply.starts_with('2') => reply,
                    _ => replies.settling(),
                };
                let reply = one_line(reply);
                if self.json {
                    let record = record_of(&reply);
                    print_json(&json!({
                        "message": name, "recipient": recipient, "reply": reply, "record": record,
                    }))?;
                } else {
                    say!("{name}  {recipient}  {reply}")?;
                }
                all.push(reply);
            }
            // Without progress the loop would never end.
            if later.len() == waiting.len() {
                return Err(format!("{server} accepts no recipient: {}", replies.settling()).into());
            }
            waiting = later;
        }
        Ok(all)
    }

    fn failure(&self, server: &str, error: &io::Error) -> Failure {
        if self.dev.dev && error.kind() == io::ErrorKind::ConnectionRefused {
            return self.dev.not_running();
        }
        format!("{server}: {error}").into()
    }

    fn signer(&self, path: &Path) -> Result<Signer, Failure> {
        let key = read_key(path)?;
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let named = name.split_once(KEYS);
        let selector = self.selector.as_deref().or(named.map(|(selector, _)| selector));
        let domain = self.domain.as_deref().or(named.map(|(_, domain)| domain));
        match (domain, selector) {
            (Some(domain), Some(selector)) => Ok(Signer::new(key, domain, selector)),
            _ => Err(format!(
                "{} does not say its selector and domain: add --domain and --selector",
                path.display()
            )
            .into()),
        }
    }
}

/// Stands between the selector and the domain of a key (RFC 6376 §3.6.2.1).
const KEYS: &str = "._domainkey.";

/// Names a key file by selector and domain, as `--sign` reads it.
pub(super) fn key_file(selector: &str, domain: &str) -> String {
    format!("{selector}{KEYS}{domain}.pem")
}

/// Reads a private key, PEM.
pub(super) fn read_key(path: &Path) -> Result<Key, Failure> {
    let pem = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Key::from_pem(&pem).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// The assumed client address of a message that is only checked.
pub(super) const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
