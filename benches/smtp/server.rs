//! The servers that are compared, each in a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::ValueEnum;
use gatepost::domain::address::Address;
use gatepost::domain::domain_name::DomainName;
use gatepost::domain::id::AccountId;
use gatepost::domain::ports::{Client, Envelope, Intake, IntakeReply, Recipient};
use gatepost::domain::reason::Reason;
use gatepost::rules::{Rules, SmtpRules};
use gatepost::shutdown::Shutdown;
use gatepost::smtp::Listener;
#[cfg(feature = "mailin")]
use gatepost::smtp::Mailin;
use tokio::net::TcpListener;

use crate::plain;

const MAX_MESSAGE: usize = 50 << 20;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Plain,
    Ours,
    #[cfg(feature = "mailin")]
    Mailin,
}

impl Kind {
    pub const ALL: &[Self] = &[
        Self::Plain,
        Self::Ours,
        #[cfg(feature = "mailin")]
        Self::Mailin,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain loop",
            Self::Ours => "Gatepost",
            #[cfg(feature = "mailin")]
            Self::Mailin => "mailin-embedded",
        }
    }
}

/// A running server; dropping this value ends it.
pub struct Process {
    pub kind: Kind,
    pub address: SocketAddr,
    child: Child,
}

impl Process {
    /// Starts it and waits until it listens.
    pub fn start(kind: Kind) -> Self {
        let value = kind.to_possible_value().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--serve", value.get_name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { kind, address: line.trim().parse().unwrap(), child }
    }

    /// CPU time of all its threads, to the nanosecond; no thread ends before the process does.
    pub fn cpu_time(&self) -> Duration {
        let tasks = format!("/proc/{}/task", self.child.id());
        let threads = std::fs::read_dir(tasks).expect("this needs Linux");
        let nanos = threads.map(|thread| {
            let file = thread.unwrap().path().join("schedstat");
            let text = std::fs::read_to_string(file).unwrap();
            text.split(' ').next().unwrap().parse::<u64>().unwrap()
        });
        Duration::from_nanos(nanos.sum())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The server ends with its standard input; its failures have been reported by then.
        drop(self.child.stdin.take());
        let _status = self.child.wait();
    }
}

/// Runs the server until standard input ends.
pub fn run(kind: Kind) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let address = runtime.block_on(start(kind));
    println!("{address}");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    // mailin's threads do not end by themselves; without them nothing waits for the runtime.
    runtime.shutdown_background();
}

async fn start(kind: Kind) -> SocketAddr {
    let any_port: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let hostname = DomainName::parse("mx.gatepost.example").unwrap();
    let rules = rules();
    let (intake, shutdown) = (Arc::new(Discard::new()), Shutdown::default());
    match kind {
        Kind::Plain => {
            let listener = TcpListener::bind(any_port).await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(plain::serve(listener));
            address
        }
        Kind::Ours => {
            let stop = shutdown.clone();
            let socket = TcpListener::bind(any_port).await.unwrap();
            let listener = Listener::on(socket, &hostname, intake, &rules, MAX_MESSAGE, stop, None);
            let address = listener.local_addr().unwrap();
            shutdown.spawn(listener.serve());
            address
        }
        #[cfg(feature = "mailin")]
        Kind::Mailin => {
            let stop = shutdown.clone();
            let socket = std::net::TcpListener::bind(any_port).unwrap();
            let mailin = Mailin::on(socket, &hostname, intake, &rules, MAX_MESSAGE, stop);
            let address = mailin.local_addr().unwrap();
            shutdown.spawn(mailin.serve());
            address
        }
    }
}

/// The usual limits, but for rates, which one client here exceeds.
fn rules() -> SmtpRules {
    let folder = tempfile::tempdir().unwrap();
    let text = "[rates]\nconnections_per_minute = 1000000\nmessages_per_minute = 1000000\n\
                recipients_per_minute = 1000000\n[exempt]\nnetworks = []\n";
    std::fs::write(folder.path().join("smtp.toml"), text).unwrap();
    Rules::load(folder.path()).unwrap().smtp
}

/// Takes everything and keeps nothing.
struct Discard {
    recipient: Recipient,
}

impl Discard {
    fn new() -> Self {
        let recipient = Recipient {
            agent: AccountId::new(1),
            address: Address::parse("agent@gatepost.example").unwrap(),
            tag: None,
            as_sent: "agent@gatepost.example".into(),
            shares: AccountId::new(1),
        };
        Self { recipient }
    }
}

impl Intake for Discard {
    fn turned_down(&self, _: &'static str) {}

    async fn free_space(&self) -> Result<Option<u64>, IntakeReply> {
        Ok(None)
    }

    async fn over_rate(&self, _: &Client, _: &str, _: &str) -> IntakeReply {
        IntakeReply { reason: Some(Reason::RateLimited), detail: None, record: None, again: false }
    }

    async fn recipient(&self, _: &Client, _: &str, _: &str) -> Result<Recipient, IntakeReply> {
        Ok(self.recipient.clone())
    }

    async fn message(&self, _: Envelope, _: Bytes) -> IntakeReply {
        IntakeReply { reason: None, detail: None, record: None, again: false }
    }

    async fn refused(
        &self,
        _: Envelope,
        reason: Reason,
        _: String,
        _: Bytes,
        _: u64,
    ) -> IntakeReply {
        IntakeReply { reason: Some(reason), detail: None, record: None, again: false }
    }
}
