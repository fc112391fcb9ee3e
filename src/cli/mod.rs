//! The command line: one file per subcommand (contract §7).
//!
//! Commands act as the operator, on the store itself; only `demo`, `dev`, `send` and `serve` use the
//! network.
//! Exit codes: 0 success, 1 failure, 2 usage. Results go to standard output, everything else to
//! standard error.

#![expect(clippy::print_stderr, reason = "talking is what this room does")]

mod account;
mod backup;
mod beside;
mod check;
mod check_store;
mod demo;
mod dev;
mod domain;
mod init;
mod key;
mod local;
mod member;
mod migrate;
mod paint;
mod policy;
mod restore;
mod send;
mod serve;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, CommandFactory as _, Parser, Subcommand};

use crate::app::tenancy::Tenancy;
use crate::config::{self, DatabaseUrl, S3Key, S3Options, ServeOptions};
use crate::domain::secret::Secret;
use crate::rules::Rules;
use crate::run;
use crate::store::{BlobPlace, Location, Place, S3Access, Store};

/// Whatever ends a command early; printed with all its causes.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// An inbound mail server for AI agents.
#[derive(Parser, Debug)]
#[command(name = "gatepost", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Show everything on this machine, with no set-up and no network
    Demo(demo::Demo),
    /// Run a server for building an agent: one Agent, a local DNS, every verdict and event as it
    /// comes
    Dev(dev::Dev),
    /// Take mail in over SMTP and serve the HTTP API
    Serve(Box<serve::Serve>),
    /// Create the store, the partner account and its first key
    Init(init::Init),
    /// Bring the store to this version, as `serve` does when it starts
    Migrate(migrate::Migrate),
    /// Copy the embedded store, while servers run on it
    Backup(backup::Backup),
    /// Make a store from a backup
    Restore(restore::Restore),
    /// Read all that is stored, and say what is damaged
    CheckStore(check_store::CheckStore),
    /// Accounts: partner > reseller > organization > account (an Agent)
    Account(account::AccountArgs),
    /// API keys
    Key(key::KeyArgs),
    /// People with access to an account, or to some of its Agents
    Member(member::MemberArgs),
    /// Mail domains and whom they belong to
    Domain(domain::DomainArgs),
    /// An Agent's inbound policy
    Policy(policy::PolicyArgs),
    /// Send messages over SMTP, signed on the way if asked
    Send(send::Send),
    /// Say what would become of a message, step by step, without delivering it
    Check(check::Check),
}

/// Every command with its arguments, as the book shows them.
pub fn description() -> clap::Command {
    Arguments::command()
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // --help and --version are errors to the parser only.
            let code = if error.use_stderr() { 2 } else { 0 };
            let _unprintable = error.print();
            return ExitCode::from(code);
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("gatepost: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run_command(arguments.command)) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("gatepost: {}", with_causes(failure.as_ref()));
            ExitCode::FAILURE
        }
    }
}

async fn run_command(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Demo(command) => command.run().await,
        Command::Dev(command) => command.run().await,
        Command::Serve(command) => command.run().await,
        Command::Init(command) => command.run().await,
        Command::Migrate(command) => command.run().await,
        Command::Backup(command) => command.run().await,
        Command::Restore(command) => command.run().await,
        Command::CheckStore(command) => command.run().await,
        Command::Account(command) => command.run().await,
        Command::Key(command) => command.run().await,
        Command::Member(command) => command.run().await,
        Command::Domain(command) => command.run().await,
        Command::Policy(command) => command.run().await,
        Command::Send(command) => command.run().await,
        Command::Check(command) => command.run().await,
    }
}

/// The chain of causes, once each.
fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

/// What every command about accounts or members takes.
#[derive(Args, Debug)]
struct Common {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Where the store of a command is.
#[derive(Args, Clone, Debug)]
struct StoreArgs {
    /// The folder of the embedded store [default: gatepost-data]
    #[arg(long, env = "GATEPOST_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    /// The store instead: sqlite:DIR, or postgres://USER:PASSWORD@HOST/DATABASE
    #[arg(long, env = "GATEPOST_DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: Option<DatabaseUrl>,
    /// Where large raw messages are kept: DIR or s3://BUCKET/PREFIX [default: DATA/blobs; with
    /// PostgreSQL the database]
    #[arg(long, env = "GATEPOST_BLOBS", value_name = "DIR|URL")]
    blobs: Option<String>,
    #[command(flatten)]
    s3: S3Options,
    /// The settings file [default: gatepost.toml where there is one]
    #[arg(long, env = "GATEPOST_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

impl StoreArgs {
    fn options(&self) -> Result<ServeOptions, Failure> {
        let given = ServeOptions {
            data: self.data.clone(),
            database_url: self.database_url.clone(),
            blobs: self.blobs.clone(),
            s3: self.s3.clone(),
            ..ServeOptions::default()
        };
        Ok(given.or(config::file(self.config.as_deref())?))
    }

    fn location(&self) -> Result<Location, Failure> {
        location(&self.options()?)
    }

    fn place(&self) -> Result<Place, Failure> {
        place(&self.options()?)
    }

    fn rules(&self) -> Result<Rules, Failure> {
        Ok(run::rules(self.options()?.policies.as_deref())?)
    }

    /// Opens the store, which must exist.
    async fn open(&self) -> Result<Store, Failure> {
        Ok(Store::open(self.place()?, &self.rules()?.store, run::system_mint()).await?)
    }

    /// The use cases over accounts in the store, which must exist.
    async fn tenancy(&self) -> Result<Tenancy, Failure> {
        let rules = Arc::new(self.rules()?.access);
        Ok(Tenancy::new(self.open().await?, run::system_mint(), rules))
    }
}

/// The store that settings name, with its blobs.
fn place(options: &ServeOptions) -> Result<Place, Failure> {
    let parse = |text: &String| BlobPlace::parse(text, access(&options.s3));
    Ok(Place::new(location(options)?, options.blobs.as_ref().map(parse).transpose()?))
}

fn access(options: &S3Options) -> S3Access {
    let secret = |key: &Option<S3Key>| key.as_ref().map(|key| Secret::new(key.expose()));
    S3Access {
        endpoint: options.endpoint.clone(),
        region: options.region.clone(),
        access_key: secret(&options.access_key),
        secret_key: secret(&options.secret_key),
    }
}

/// The database that settings name.
fn location(options: &ServeOptions) -> Result<Location, Failure> {
    let url = options.database_url.as_ref().map(DatabaseUrl::expose);
    Ok(Location::parse(options.data.as_deref(), url)?)
}

/// Prints a line of the result.
macro_rules! say {
    ($($part:tt)*) => { $crate::cli::print_line(format_args!($($part)*)) };
}
use say;

/// A reader that has seen enough (`| head`) is no failure; a result that cannot be written is.
fn print_line(line: std::fmt::Arguments<'_>) -> Result<(), Failure> {
    let mut output = std::io::stdout().lock();
    match writeln!(output, "{line}").and_then(|()| output.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}").into())
        }
        _ => Ok(()),
    }
}

/// Prints one JSON value on a line of its own.
fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    say!("{value}")
}
