//! The server as a process of its own, to be killed.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use gatepost::store::Location;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::{PATIENCE, canary};

/// The program under test.
pub const GATEPOST: &str = env!("CARGO_BIN_EXE_gatepost");

/// Ends a server whose test was ended without a word, as `kill_on_drop` cannot.
const GUARD: &str = "cat; kill -9 \"$0\"";

/// Runs a command in `folder` to its end.
pub async fn gatepost(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(GATEPOST);
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(PATIENCE, command.output()).await.unwrap().unwrap();
    keep(arguments, &output);
    output
}

/// Keeps what a command with these arguments said.
pub fn keep(arguments: &[&str], output: &Output) {
    let makes = ["create", "invite", "link", "rotate"].iter().any(|word| arguments.contains(word));
    let shows = matches!(arguments, ["init", ..]) || makes && arguments.first() != Some(&"account");
    let what = format!("{arguments:?}");
    let made_by = (shows && output.status.success()).then_some(what.as_bytes());
    canary::keep(&what, &output.stdout, made_by);
    canary::keep(&what, &output.stderr, None);
}

/// A new file among what is kept, if anything is.
fn kept() -> Option<PathBuf> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let folder = canary::FOLDER.as_ref()?.join("seen");
    std::fs::create_dir_all(&folder).unwrap();
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let file = folder.join(format!("server-{}-{number}", std::process::id()));
    File::create(&file).unwrap();
    Some(file)
}

/// The log of a server that no test looks at: of this level, or more of it where it is kept.
fn log(command: &mut Command, level: &str) {
    if let Some(file) = kept() {
        command.env("GATEPOST_LOG", "info,gatepost=debug").stderr(File::create(file).unwrap());
    } else if std::env::var_os("GATEPOST_LOG").is_none() {
        command.env("GATEPOST_LOG", level);
    }
}

/// `serve` on this store, by the rules in `folder`.
fn serving(program: &str, location: &Location, folder: &Path) -> Command {
    let mut server = Command::new(program);
    server.arg("serve").arg("--policies").arg(folder.join("policies")).current_dir(folder);
    match location {
        Location::Folder(data) => server.arg("--data").arg(data),
        Location::Postgres(url) => server.arg("--database-url").arg(url.expose()),
    };
    server
}

/// Runs a command that must fail with exit code 1; returns its standard error.
pub async fn failing(folder: &Path, arguments: &[&str]) -> String {
    let output = gatepost(folder, arguments).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
    said
}

/// `gatepost serve` on free ports of the loopback.
pub struct Server {
    child: Child,
    /// Dropped after the child, so that it finds nothing to do.
    _guard: Child,
    pub smtp: SocketAddr,
    pub http: SocketAddr,
    /// The line that says that it is ready.
    pub said: String,
}

impl Server {
    /// Starts on the store in `data` and waits for the line that says that it is ready.
    pub async fn start(data: &Path, dns: SocketAddr) -> Self {
        Self::start_by(&[GATEPOST], data, dns).await
    }

    /// Starts by another command, which gets the arguments after its own.
    pub async fn start_by(command: &[&str], data: &Path, dns: SocketAddr) -> Self {
        Self::start_by_at(command, data, dns, SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// Starts by another command, with this address for mail.
    pub async fn start_by_at(
        command: &[&str],
        data: &Path,
        dns: SocketAddr,
        smtp: SocketAddr,
    ) -> Self {
        let mut server = Command::new(command[0]);
        server.args(&command[1..]).arg("serve").arg("--data").arg(data).current_dir(data);
        server.args(["--http", "127.0.0.1:0"]);
        log(&mut server, "error");
        Self::ready_at(server, dns, smtp).await
    }

    /// Starts on this store, with its rules in `folder`, and without a log: a test that breaks
    /// things expects complaints. `GATEPOST_LOG` shows them.
    pub async fn start_on(location: &Location, folder: &Path, dns: SocketAddr) -> Self {
        Self::start_build(GATEPOST, location, folder, dns).await
    }

    /// Starts another build of the program.
    pub async fn start_build(
        program: &str,
        location: &Location,
        folder: &Path,
        dns: SocketAddr,
    ) -> Self {
        let mut server = serving(program, location, folder);
        log(&mut server, "off");
        Self::ready(server, dns).await
    }

    /// Starts with these further arguments.
    pub async fn start_with(
        location: &Location,
        folder: &Path,
        dns: SocketAddr,
        arguments: &[&str],
    ) -> Self {
        Self::start_amid(location, folder, dns, arguments, &[]).await
    }

    /// Starts with these further arguments and environment variables.
    pub async fn start_amid(
        location: &Location,
        folder: &Path,
        dns: SocketAddr,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let mut server = serving(GATEPOST, location, folder);
        server.args(arguments).envs(environment.iter().copied());
        log(&mut server, "off");
        Self::ready(server, dns).await
    }

    /// Starts and appends its log to `log`.
    pub async fn start_telling(
        location: &Location,
        folder: &Path,
        dns: SocketAddr,
        environment: &[(&str, &str)],
        log: &Path,
    ) -> Self {
        let mut server = serving(GATEPOST, location, folder);
        let log = File::options().create(true).append(true).open(log).unwrap();
        server.envs(environment.iter().copied()).env("GATEPOST_LOG", "info").stderr(log);
        Self::ready(server, dns).await
    }

    /// Starts on the store in `data` and appends its log to `log`.
    pub async fn start_logging(
        data: &Path,
        dns: SocketAddr,
        arguments: &[&str],
        log: &Path,
    ) -> Self {
        if !log.exists()
            && let Some(kept) = kept()
        {
            std::os::unix::fs::symlink(kept, log).unwrap();
        }
        let arguments = [arguments, &["--http", "127.0.0.1:0"]].concat();
        Self::start_logging_at(data, dns, &arguments, log).await
    }

    /// Starts with these arguments, of which one is the address of the API; appends its log to
    /// `log`.
    pub async fn start_logging_at(
        data: &Path,
        dns: SocketAddr,
        arguments: &[&str],
        log: &Path,
    ) -> Self {
        let log = File::options().create(true).append(true).open(log).unwrap();
        let mut server = Command::new(GATEPOST);
        server.arg("serve").arg("--data").arg(data).args(arguments).current_dir(data).stderr(log);
        Self::ready_where_it_says(server, dns).await
    }

    /// Starts at these ports of the loopback, behind a proxy there.
    pub async fn start_at(
        program: &str,
        location: &Location,
        folder: &Path,
        dns: SocketAddr,
        (smtp, http): (u16, u16),
    ) -> Self {
        let mut server = serving(program, location, folder);
        server.args(["--trusted-proxy", "127.0.0.1/32", "--http", &format!("127.0.0.1:{http}")]);
        log(&mut server, "off");
        Self::ready_at(server, dns, SocketAddr::from(([127, 0, 0, 1], smtp))).await
    }

    async fn ready(mut command: Command, dns: SocketAddr) -> Self {
        command.args(["--http", "127.0.0.1:0"]);
        Self::ready_where_it_says(command, dns).await
    }

    /// Starts a server that has the address of its API already.
    async fn ready_where_it_says(command: Command, dns: SocketAddr) -> Self {
        Self::ready_at(command, dns, SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    async fn ready_at(mut command: Command, dns: SocketAddr, smtp: SocketAddr) -> Self {
        let mut child = command
            .args(["--smtp", &smtp.to_string()])
            .args(["--hostname", "mx.agents.example", "--egress-allow", "127.0.0.0/8"])
            .args(["--dns", &dns.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let guard = Command::new("sh")
            .args(["-c", GUARD, &child.id().unwrap().to_string()])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap();
        let ready = ready.expect("the server ended before it was ready");
        // JSON has the same words between its marks.
        let words: Vec<&str> =
            ready.split([' ', '{', '}', ',', '"']).filter(|word| word.len() > 1).collect();
        let after = |named: &[&str]| -> SocketAddr {
            let mut words = words.iter().skip_while(|word| !named.contains(word));
            words.nth(1).unwrap().parse().unwrap()
        };
        let (smtp, http) = (after(&["smtp"]), after(&["http", "https"]));
        Self { smtp, http, said: ready, child, _guard: guard }
    }

    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Resident memory now, in bytes.
    pub fn memory(&self) -> u64 {
        self.status("VmRSS")
    }

    /// The most resident memory so far, in bytes.
    pub fn peak(&self) -> u64 {
        self.status("VmHWM")
    }

    /// A line of its status that is in kB: proc(5), /proc/pid/status.
    fn status(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let mut words =
            status.split_whitespace().skip_while(|word| word.strip_suffix(':') != Some(name));
        words.nth(1).unwrap().parse::<u64>().unwrap() * 1024
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

    async fn signal(self, signal: &str) -> i32 {
        self.ask_to_stop(signal).await;
        self.ended().await
    }

    /// Sends the signal, and waits for nothing.
    pub async fn ask_to_stop(&self, signal: &str) {
        let id = self.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().await.unwrap().success());
    }

    /// The exit code, once it has ended.
    pub async fn ended(mut self) -> i32 {
        timeout(PATIENCE, self.end()).await.unwrap()
    }

    /// The exit code, if it ends.
    pub async fn end(&mut self) -> i32 {
        self.child.wait().await.unwrap().code().unwrap()
    }
}
