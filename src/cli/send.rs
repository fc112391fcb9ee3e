//! `gatepost send`: messages from files over real SMTP, signed on the way if asked.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::{Failure, say};
use crate::mail::line_ends::with_crlf;
use crate::testkit::signer::{Key, Signer};
use crate::testkit::smtp_client::{Replies, Transaction, deliver};

/// Send messages over SMTP, signed on the way if asked
#[derive(Args, Debug)]
pub(super) struct Send {
    /// Messages; a file without a single CRLF gets CRLF line ends, any other is sent as it is
    #[arg(value_name = "FILE.eml", required = true)]
    files: Vec<PathBuf>,
    /// Recipients
    #[arg(long = "to", value_name = "ADDRESS", required = true)]
    to: Vec<String>,
    /// The server
    #[arg(long, value_name = "HOST:PORT")]
    server: String,
    /// The envelope sender [default: the null reverse-path]
    #[arg(long, value_name = "ADDRESS", default_value = "")]
    from: String,
    /// The name to say in EHLO
    #[arg(long, value_name = "NAME", default_value = "localhost")]
    helo: String,
    /// Sign with this private key (PEM). A file named SELECTOR._domainkey.DOMAIN.pem says the
    /// selector and the domain itself
    #[arg(long, value_name = "KEY")]
    sign: Option<PathBuf>,
    /// d= of the signature
    #[arg(long, value_name = "DOMAIN", requires = "sign")]
    domain: Option<String>,
    /// s= of the signature
    #[arg(long, value_name = "SELECTOR", requires = "sign")]
    selector: Option<String>,
}

impl Send {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let signer = self.sign.as_deref().map(|key| self.signer(key)).transpose()?;
        let mut all_accepted = true;
        for file in &self.files {
            let raw = std::fs::read(file)
                .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
            let mut raw = with_crlf(raw);
            if let Some(signer) = &signer {
                raw = signer.sign(&raw)?;
            }
            all_accepted &= self.send(file, &raw).await?;
        }
        Ok(if all_accepted { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Sends one message, in as many transactions as the server asks for; answers whether every
    /// recipient accepted it.
    async fn send(&self, file: &Path, raw: &[u8]) -> Result<bool, Failure> {
        let mut waiting = self.to.clone();
        let mut all_accepted = true;
        while !waiting.is_empty() {
            let transaction = Transaction { helo: &self.helo, from: &self.from, to: &waiting, raw };
            let replies = deliver(&self.server, &transaction)
                .await
                .map_err(|error| format!("{}: {error}", self.server))?;
            let (shown, later) = sort(&replies, &waiting);
            for (recipient, reply) in shown {
                all_accepted &= reply.starts_with("250");
                say!("{}  {recipient}  {reply}", file.display())?;
            }
            // Without progress the server would be asked the same for ever.
            if later.len() == waiting.len() {
                return Err(
                    format!("{} takes no recipient: {}", self.server, replies.settling()).into()
                );
            }
            waiting = later;
        }
        Ok(all_accepted)
    }

    fn signer(&self, path: &Path) -> Result<Signer, Failure> {
        let pem = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let named = name.split_once("._domainkey.");
        let selector = self.selector.as_deref().or(named.map(|(selector, _)| selector));
        let domain = self.domain.as_deref().or(named.map(|(_, domain)| domain));
        match (domain, selector) {
            (Some(domain), Some(selector)) => {
                Ok(Signer::new(Key::from_pem(&pem)?, domain, selector))
            }
            _ => Err(format!(
                "{} does not say its selector and domain: add --domain and --selector",
                path.display()
            )
            .into()),
        }
    }
}

/// What to tell of each recipient, and who needs a transaction of their own.
fn sort(replies: &Replies, recipients: &[String]) -> (Vec<(String, String)>, Vec<String>) {
    let mut shown = Vec::new();
    let mut later = Vec::new();
    for (index, recipient) in recipients.iter().enumerate() {
        match replies.recipients.get(index) {
            Some(reply) if reply.starts_with("452 4.5.3") => later.push(recipient.clone()),
            Some(reply) if !reply.starts_with('2') => {
                shown.push((recipient.clone(), reply.clone()));
            }
            _ => shown.push((recipient.clone(), replies.settling().to_owned())),
        }
    }
    (shown, later)
}

/// Where a message that is only looked at is taken to come from.
pub(super) const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
