//! The server as a process of its own, to be killed.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Output, Stdio};

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::PATIENCE;

/// The program under test.
pub const GATEPOST: &str = env!("CARGO_BIN_EXE_gatepost");

/// Runs a command in `folder` to its end.
pub async fn gatepost(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(GATEPOST);
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).kill_on_drop(true);
    timeout(PATIENCE, command.output()).await.unwrap().unwrap()
}

/// The same of one that must fail with exit code 1; answers what it said on standard error.
pub async fn failing(folder: &Path, arguments: &[&str]) -> String {
    let output = gatepost(folder, arguments).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
    said
}

/// `gatepost serve` on free ports of the loopback.
pub struct Server {
    child: Child,
    pub smtp: SocketAddr,
    pub http: SocketAddr,
}

impl Server {
    /// Starts on the store in `data` and waits for the line that says that it is ready.
    pub async fn start(data: &Path, dns: SocketAddr) -> Self {
        Self::start_by(&[GATEPOST], data, dns).await
    }

    /// The same by another command, which is given the arguments after its own.
    pub async fn start_by(command: &[&str], data: &Path, dns: SocketAddr) -> Self {
        let mut child = Command::new(command[0])
            .args(&command[1..])
            .args(["serve", "--smtp", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .args(["--hostname", "mx.agents.example", "--egress-allow", "127.0.0.0/8"])
            .args(["--dns", &dns.to_string()])
            .arg("--data")
            .arg(data)
            .current_dir(data)
            .env("GATEPOST_LOG", "error")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap();
        let ready = ready.expect("the server ended before it was ready");
        let after = |word: &str| -> SocketAddr {
            let mut words = ready.split_whitespace().skip_while(|one| *one != word);
            words.nth(1).unwrap().parse().unwrap()
        };
        Self { smtp: after("smtp"), http: after("http"), child }
    }

    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// `kill -9`.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// SIGTERM, and the exit code that follows.
    pub async fn terminate(self) -> i32 {
        self.signal("-TERM").await
    }

    /// Ctrl-C, and the exit code that follows.
    pub async fn interrupt(self) -> i32 {
        self.signal("-INT").await
    }

    async fn signal(mut self, signal: &str) -> i32 {
        let id = self.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().await.unwrap().success());
        let ended = timeout(PATIENCE, self.child.wait()).await.unwrap().unwrap();
        ended.code().unwrap()
    }
}
