//! The command line: one file per subcommand (contract §7).
//!
//! Commands act as the operator, directly on the store. Only `demo`, `dev`, `doctor`, `health`, `mcp`,
//! `send`, `serve` and `check` (for DNS) use the network, apart from a PostgreSQL or S3 store. Exit codes: 0
//! success, 1 failure, 2 usage. Results go to standard output, everything else to standard error.

#![expect(clippy::print_stderr, reason = "talking is what this room does")]

mod account;
mod account_name;
mod backup;
mod beside;
mod check;
mod check_store;
mod console;
mod demo;
mod dev;
mod doctor;
mod domain;
mod environment;
mod events;
mod global_args;
mod health;
mod init;
mod intake;
mod key;
mod local;
mod manual;
mod mcp;
mod member;
mod message;
mod migrate;
mod old_spellings;
mod paint;
mod plain;
mod policy;
mod reading;
mod restore;
mod send;
mod serve;
mod webhook;
mod when;

use std::io::Write as _;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use self::global_args::GlobalArgs;
use crate::domain::causes::with_causes;
use crate::run::Sockets;

/// An error that ends a command; printed with all its causes.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// An inbound mail server for AI agents.
#[derive(Parser, Debug)]
#[command(name = "gatepost", version, max_term_width = 100)]
struct Arguments {
    #[command(flatten)]
    global: GlobalArgs,
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
    /// Ask a server on this machine whether it can take mail in now (exit code 1 if not)
    Health(health::Health),
    /// Check settings, files, ports, database, DNS and certificates, and say what to do
    Doctor(Box<doctor::Doctor>),
    /// Create the store, the partner account and its first key
    Init(init::Init),
    /// Bring the store to this version, as `serve` does when it starts
    Migrate(migrate::Migrate),
    /// Copy the embedded store, while servers run on it
    Backup(backup::Backup),
    /// Make a store from a backup
    Restore(restore::Restore),
    /// Read the whole store, and report damage
    CheckStore(check_store::CheckStore),
    /// Accounts: partner > reseller > organization > account (an Agent)
    Account(account::AccountArgs),
    /// API keys
    Key(key::KeyArgs),
    /// People with access to an account, or to some of its Agents
    Member(member::MemberArgs),
    /// The web console: links that sign a browser in
    Console(console::ConsoleArgs),
    /// Connect a model to a server by MCP, over standard input and output
    Mcp(mcp::Mcp),
    /// Mail domains and their accounts
    Domain(domain::DomainArgs),
    /// An Agent's inbound policy
    Policy(policy::PolicyArgs),
    /// Show the verdict on each message, accepted or not
    Intake(intake::IntakeArgs),
    /// Messages that were accepted
    Message(message::MessageArgs),
    Events(events::EventsArgs),
    /// Webhooks: where events go
    Webhook(webhook::WebhookArgs),
    /// Send messages over SMTP, signed on the way if asked
    Send(send::Send),
    /// Show the verdict on a message, step by step, without delivering it
    Check(check::Check),
    /// Write the completions of a shell to standard output
    Completions(manual::Completions),
    /// Write a manual page for each command
    Man(manual::Man),
}

/// Every command with its arguments.
pub fn description() -> clap::Command {
    let root = Arguments::command();
    let all: Vec<Arg> =
        root.get_arguments().filter(|argument| argument.is_global_set()).cloned().collect();
    root.mut_subcommands(|command| hide(command, &all))
}

/// Hides the global arguments that are of little or no use to a command.
fn hide(command: clap::Command, all: &[Arg]) -> clap::Command {
    let name = command.get_name();
    let has_no_store =
        ["demo", "dev", "health", "mcp", "send", "completions", "man"].contains(&name);
    let has_no_result = ["demo", "dev", "mcp", "serve", "completions"].contains(&name);
    let is_hidden = |argument: &&Arg| match argument.get_long().unwrap_or_default() {
        "json" => has_no_result,
        long if long.starts_with("s3-") => !["doctor", "serve"].contains(&name),
        _ => has_no_store,
    };
    let is_new =
        |argument: &&Arg| command.get_arguments().all(|own| own.get_id() != argument.get_id());
    let hidden = all.iter().filter(is_hidden).filter(is_new);
    let hidden: Vec<Arg> = hidden.map(|argument| argument.clone().hide(true)).collect();
    command.args(hidden)
}

/// Parses the command line, and checks the environment variables.
fn parse() -> Result<Arguments, clap::Error> {
    let mut command = description();
    let words = old_spellings::renewed(std::env::args_os());
    let matches = command.try_get_matches_from_mut(words)?;
    let mut arguments =
        Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    if let Some(mistake) = environment::mistake(&command, std::env::vars_os()) {
        return Err(command.error(ErrorKind::InvalidValue, mistake));
    }
    arguments.global.names_folder = matches.value_source("data") == Some(ValueSource::CommandLine);
    Ok(arguments)
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let arguments = match parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // The parser reports --help and --version as errors.
            let code = if error.use_stderr() { 2 } else { 0 };
            let _unprintable = error.print();
            return ExitCode::from(code);
        }
    };
    let sockets = match serve::passed_sockets(&arguments.command) {
        Ok(sockets) => sockets,
        Err(failure) => {
            eprintln!("gatepost: {}", with_causes(failure.as_ref()));
            return ExitCode::FAILURE;
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("gatepost: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run_command(arguments, sockets)) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("gatepost: {}", with_causes(failure.as_ref()));
            ExitCode::FAILURE
        }
    }
}

async fn run_command(
    Arguments { global, command }: Arguments,
    sockets: Sockets,
) -> Result<ExitCode, Failure> {
    match command {
        Command::Demo(command) => command.run().await,
        Command::Dev(command) => command.run(&global).await,
        Command::Serve(command) => command.run(&global, sockets).await,
        Command::Health(command) => command.run(&global).await,
        Command::Doctor(command) => command.run(&global).await,
        Command::Init(command) => command.run(&global).await,
        Command::Migrate(command) => command.run(&global).await,
        Command::Backup(command) => command.run(&global).await,
        Command::Restore(command) => command.run(&global).await,
        Command::CheckStore(command) => command.run(&global).await,
        Command::Account(command) => command.run(&global).await,
        Command::Key(command) => command.run(&global).await,
        Command::Member(command) => command.run(&global).await,
        Command::Console(command) => command.run(&global).await,
        Command::Mcp(command) => command.run().await,
        Command::Domain(command) => command.run(&global).await,
        Command::Policy(command) => command.run(&global).await,
        Command::Intake(command) => command.run(&global).await,
        Command::Message(command) => command.run(&global).await,
        Command::Events(command) => command.run(&global).await,
        Command::Webhook(command) => command.run(&global).await,
        Command::Send(command) => command.run(&global).await,
        Command::Check(command) => command.run(&global).await,
        Command::Completions(command) => command.run(),
        Command::Man(command) => command.run(&global),
    }
}

/// Prints a line of the result.
macro_rules! say {
    ($($part:tt)*) => { $crate::cli::print_line(format_args!($($part)*)) };
}
use say;

/// Prints a line. A closed reader (`| head`) is no failure; any other write error is.
fn print_line(line: std::fmt::Arguments<'_>) -> Result<(), Failure> {
    print_octets(format!("{line}\n").as_bytes())
}

/// Prints bytes unchanged.
fn print_octets(octets: &[u8]) -> Result<(), Failure> {
    print_read(octets).map(drop)
}

/// Prints bytes. Returns false if the reader is gone.
fn print_read(octets: &[u8]) -> Result<bool, Failure> {
    let mut output = std::io::stdout().lock();
    match output.write_all(octets).and_then(|()| output.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("cannot write to standard output: {error}").into()),
    }
}

fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    say!("{value}")
}
