//! A PostgreSQL server of one's own, in a temporary folder, that ends with this process.

use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Makes a cluster, runs it on a socket in its folder until standard input ends, and removes
/// everything. Standard input ends with the process at its other end, even if that is killed. A
/// line of input is a mode of `pg_ctl stop`: the server is stopped so and started again. Its order
/// of text is not that of bytes, so that a statement that relies on one of the two is found out.
const SCRIPT: &str = r#"
set -eu
dir=$(mktemp -d "${TMPDIR:-/tmp}/gatepost-postgres.XXXXXX")
trap 'control --mode=immediate stop || true; rm -rf "$dir"' EXIT
control() { pg_ctl --pgdata="$dir/data" --silent --wait --timeout=60 "$@" >&2; }
initdb --pgdata="$dir/data" --username=postgres --auth=trust --encoding=UTF8 --no-sync \
  --locale-provider=icu --icu-locale=en --locale=C.UTF-8 >"$dir/initdb.log" 2>&1 ||
  { cat "$dir/initdb.log" >&2; exit 1; }
options="-k '$dir' -c listen_addresses= -c log_min_messages=fatal"
for setting; do options="$options -c $setting"; done
start() {
  control --log="$dir/postgres.log" --options="$options" start ||
    { cat "$dir/postgres.log" >&2; exit 1; }
  echo "$dir"
}
start
while read -r mode; do
  control --mode="$mode" stop
  start
done
"#;

/// Runs while this value lives.
pub struct Cluster {
    pub url: String,
    script: Script,
}

/// How a server is stopped: `Fast` breaks off transactions and writes everything; `Immediate` is a
/// crash, after which it recovers from its log.
#[derive(Clone, Copy, Debug)]
pub enum Stop {
    Fast,
    Immediate,
}

impl Cluster {
    /// Starts with these settings (`name=value`), from the programs in `bin`.
    pub fn start(bin: &Path, settings: &[&str]) -> Self {
        let (script, folder) = Script::start(bin, SCRIPT, settings);
        let url = format!("postgres:///postgres?host={folder}&user=postgres");
        Self { url, script }
    }

    /// Stops the server and starts it again on the same folder; blocks until it is ready.
    pub fn restart(&mut self, how: Stop) {
        let mode = match how {
            Stop::Fast => "fast",
            Stop::Immediate => "immediate",
        };
        self.script.tell(mode);
    }
}

/// A script that runs servers in a folder of their own, until this value is dropped.
pub struct Script {
    child: Child,
    /// The script ends when this is closed.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Script {
    /// Starts it with the programs in `bin` and these arguments; blocks until it says where it
    /// runs.
    pub fn start(bin: &Path, script: &str, arguments: &[&str]) -> (Self, String) {
        let mut child = spawn(bin, script, arguments);
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut script = Self { child, input, output };
        let said = script.answer();
        (script, said)
    }

    /// Gives it something to do; returns the line that it prints when that is done.
    pub fn tell(&mut self, words: &str) -> String {
        writeln!(self.input.as_mut().unwrap(), "{words}").unwrap();
        self.answer()
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let line = line.trim();
        assert!(!line.is_empty(), "PostgreSQL did not start");
        line.to_owned()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        drop(self.input.take());
        // The folder is gone when the script has ended.
        let _ended = self.child.wait();
    }
}

fn spawn(bin: &Path, script: &str, arguments: &[&str]) -> Child {
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", bin.display());
    // The server refuses to run as root.
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let user: &[&str] = if is_root { &["runuser", "-u", "postgres", "--"] } else { &[] };
    let words = [user, &["bash", "-c", script, "bash"], arguments].concat();
    Command::new(words[0])
        .args(&words[1..])
        .env("PATH", path)
        .current_dir("/")
        // Ctrl-C is for the tests: the server ends after them.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Where PostgreSQL's programs are: the newest that Debian's packages have put where it can be
/// found, else those in the PATH.
pub fn binaries() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let folders = versions.map(|version| version.path().join("bin"));
    let is_program = |path: &PathBuf| {
        path.join("initdb").metadata().is_ok_and(|file| file.permissions().mode() & 0o111 != 0)
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<_> = folders.filter(&is_program).collect();
    folders.sort();
    let others = std::env::split_paths(&path).find(is_program);
    folders.pop().or(others)
}
