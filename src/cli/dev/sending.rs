//! `gatepost send --dev`: sends a letter to the Agent of the running `gatepost dev`, signed by its
//! sender or forged.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;

use super::folder::{Addresses, DEFAULT_FOLDER, Folder};
use super::forge::{self, Forge};
use super::letter::Letter;
use super::names;
use crate::cli::{Failure, say};
use crate::mail::line_ends::with_crlf;
use crate::run;

/// Flags of `gatepost send` for `gatepost dev`.
#[derive(Args, Debug)]
#[group(skip)]
pub(in crate::cli) struct DevArgs {
    /// Send to the Agent of the running `gatepost dev`, signed by its sender
    #[arg(long, conflicts_with_all = ["server", "sign"])]
    pub dev: bool,
    /// The folder of that `gatepost dev` [default: gatepost-dev]
    #[arg(long, value_name = "DIR", requires = "dev")]
    pub data: Option<PathBuf>,
    /// The subject of a letter that is written for you
    #[arg(long, value_name = "TEXT", requires = "dev", conflicts_with = "files")]
    subject: Option<String>,
    /// Its text
    #[arg(long, value_name = "TEXT", requires = "dev", conflicts_with = "files")]
    text: Option<String>,
    /// Forge it; the command succeeds if the server is not deceived
    #[arg(long, value_name = "HOW", requires = "dev", conflicts_with = "files")]
    forge: Option<Forge>,
}

/// A message ready to send.
pub(in crate::cli) struct Prepared {
    pub name: String,
    pub from: String,
    pub raw: Vec<u8>,
}

/// Messages for the Agent of a running `gatepost dev`.
pub(in crate::cli) struct ToDev {
    pub server: SocketAddr,
    pub http: SocketAddr,
    pub messages: Vec<Prepared>,
    forge: Option<Forge>,
}

impl DevArgs {
    pub const AGENT: &'static str = names::AGENT;

    /// Finds the server, and writes the letter or reads the files.
    pub fn prepare(&self, files: &[PathBuf], to: &[String]) -> Result<ToDev, Failure> {
        let folder = self.folder()?;
        let running = folder.addresses().filter(|known| known.runs);
        let Addresses { smtp, http, .. } = running.ok_or_else(|| self.not_running())?;
        let messages = if files.is_empty() {
            vec![self.letter(&folder, to)?]
        } else {
            files.iter().map(|file| sign_file(&folder, file)).collect::<Result<_, _>>()?
        };
        Ok(ToDev { server: smtp, http, messages, forge: self.forge })
    }

    /// The error if no server is found, or none responds.
    pub fn not_running(&self) -> Failure {
        let folder = self.folder().map(|folder| folder.path().display().to_string());
        let folder = folder.unwrap_or_else(|_| DEFAULT_FOLDER.to_owned());
        format!("no `gatepost dev` runs in {folder}: start `gatepost dev` in another terminal")
            .into()
    }

    fn folder(&self) -> Result<Folder, Failure> {
        Folder::named(self.data.as_deref())
    }

    fn letter(&self, folder: &Folder, to: &[String]) -> Result<Prepared, Failure> {
        let subject = self.subject.clone().unwrap_or_else(|| "Hello from gatepost dev".to_owned());
        let text = self.text.clone().unwrap_or_else(|| {
            "Hello,\n\nplease send the invoice for order 4711.\n\nAlice".to_owned()
        });
        let (name, from) = ("Alice Example", names::SENDER);
        let letter = Letter { name, from, subject, form: "plain", text };
        forge::prepare(letter, self.forge, &to.join(", "), folder, &run::system_mint())
    }
}

impl ToDev {
    /// Prints the expected verdict on a forged letter.
    pub fn print_expected(&self) -> Result<(), Failure> {
        self.forge.map_or(Ok(()), |forge| say!("expected: {}", forge.verdict()))
    }

    /// Whether a reply is as expected.
    pub fn is_as_expected(&self, reply: &str) -> bool {
        reply.starts_with(&self.forge.map_or_else(|| "250".to_owned(), |forge| forge.reply()))
    }

    /// Prints, for a forged letter, whether the reply was as expected.
    pub fn print_judgement(&self, is_as_expected: bool) -> Result<(), Failure> {
        let words = if is_as_expected { "as expected" } else { "DIFFERS from what is expected" };
        self.forge.map_or(Ok(()), |_| say!("{words}"))
    }
}

/// Signs a file by the sender's domain, whatever its From says.
fn sign_file(folder: &Folder, file: &Path) -> Result<Prepared, Failure> {
    let raw =
        std::fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let [domain, ..] = names::DOMAINS;
    let raw = names::signer(folder, domain)?.sign(&with_crlf(raw))?;
    Ok(Prepared { name: file.display().to_string(), from: names::SENDER.to_owned(), raw })
}
