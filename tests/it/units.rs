//! The units of `ops/` for systemd: verified by systemd's own tools, and the server at work under
//! the filter of system calls that they set. What a running systemd does with them is not shown here.

use std::path::Path;
use std::process::Output;

use gatepost::store::Location;
use gatepost::testkit::smtp_client::{Transaction, deliver};
use tokio::process::Command;
use tokio::time::timeout;

use crate::support::process::{GATEPOST, Server};
use crate::support::site::Site;
use crate::support::sources::root;
use crate::support::{PATIENCE, all_messages, http, letter, rules, signed, signer};

const UNITS: [&str; 5] = [
    "gatepost.service",
    "gatepost-smtp.socket",
    "gatepost-smtps.socket",
    "gatepost-http.socket",
    "gatepost-acme.socket",
];

/// The exposure that systemd-analyze may find, in tenths: 10 is no protection at all. The server must
/// reach the network, and read the name of the machine.
const MOST_EXPOSURE: &str = "14";

/// The Python for which Debian has bindings of libseccomp.
const DEBIAN_PYTHON: &str = "/usr/bin/python3";

/// Sets the filters of a unit for itself, as systemd does it (systemd.exec(5)), and becomes the command:
/// every system call that is not allowed fails with EPERM, and no memory can be written and executed.
const CONFINE: &str = "import errno, os, subprocess, sys, seccomp as s\n\
    sets = {}\n\
    listed = subprocess.run(['systemd-analyze', 'syscall-filter', '--no-pager'], check=True,\n\
    \x20   capture_output=True, text=True).stdout\n\
    for line in listed.splitlines():\n\
    \x20   word = line.strip()\n\
    \x20   if word.startswith('@') and not line.startswith(' '): current = sets.setdefault(word, set())\n\
    \x20   elif word and not word.startswith('#') and line.startswith(' '): current.add(word)\n\
    def calls(name):\n\
    \x20   if not name.startswith('@'): return {name}\n\
    \x20   return set().union(*(calls(one) for one in sets[name]))\n\
    allowed = set()\n\
    for words in sys.argv[1].split('|'):\n\
    \x20   names = set().union(*(calls(name) for name in words.lstrip('~').split()))\n\
    \x20   allowed = allowed - names if words.startswith('~') else allowed | names\n\
    command = sys.argv[2:]\n\
    executable = s.SyscallFilter(s.ALLOW)\n\
    refused = s.ERRNO(errno.EPERM)\n\
    both = 2 | 4\n\
    executable.add_rule(refused, 'mmap', s.Arg(2, s.MASKED_EQ, both, both))\n\
    executable.add_rule(refused, 'mprotect', s.Arg(2, s.MASKED_EQ, 4, 4))\n\
    filter = s.SyscallFilter(refused)\n\
    known = 0\n\
    for name in allowed:\n\
    \x20   try: filter.add_rule(s.ALLOW, name)\n\
    \x20   except (RuntimeError, ValueError, OSError): continue\n\
    \x20   known += 1\n\
    assert known > 200, known\n\
    executable.load()\n\
    filter.load()\n\
    try: os.chroot('/')\n\
    except PermissionError: pass\n\
    else: sys.exit('the filter lets a privileged call pass')\n\
    os.execv(command[0], command)\n";

fn unit(name: &str) -> String {
    std::fs::read_to_string(root().join("ops").join(name)).unwrap()
}

async fn run(command: &mut Command) -> Output {
    let output = timeout(PATIENCE, command.kill_on_drop(true).output()).await.unwrap();
    output.expect("scripts/test installs systemd's tools")
}

/// Copies the units, with the program of this build in the place of the installed one.
fn copied(folder: &Path) {
    for name in UNITS {
        let text = unit(name).replace("/usr/bin/gatepost", GATEPOST);
        std::fs::write(folder.join(name), text).unwrap();
    }
}

#[tokio::test]
async fn systemd_verifies_every_unit_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    copied(folder.path());
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no"]).args(UNITS.map(|name| folder.path().join(name)));
    let output = run(&mut verify).await;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}");
    // A mistake would be found.
    let wrong = folder.path().join("gatepost-smtp.socket");
    std::fs::write(&wrong, unit("gatepost-smtp.socket") + "\n[Socket]\nListenStrem=25\n").unwrap();
    let output =
        run(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&wrong)).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("ListenStrem"), "{said}");
}

#[tokio::test]
async fn little_is_exposed_to_the_service() {
    let folder = tempfile::tempdir().unwrap();
    copied(folder.path());
    let mut security = Command::new("systemd-analyze");
    security.args(["security", "--offline=true", "--no-pager", "--threshold", MOST_EXPOSURE]);
    let output = run(security.arg(folder.path().join("gatepost.service"))).await;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "more than {MOST_EXPOSURE}: {said}");
}

/// The names by which sockets are passed are those that the server knows: tests/it/systemd.rs starts it
/// with each.
#[test]
fn each_socket_has_the_name_of_its_listener() {
    for name in &UNITS[1..] {
        let listener = name.strip_prefix("gatepost-").unwrap().strip_suffix(".socket").unwrap();
        let text = unit(name);
        assert!(text.contains(&format!("\nFileDescriptorName={listener}\n")), "{name}");
        assert!(text.contains("\nService=gatepost.service\n"), "{name}");
    }
}

/// The lines of a setting in the unit of the service.
fn settings(name: &str) -> Vec<String> {
    let text = unit("gatepost.service");
    let values = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    values.map(ToOwned::to_owned).collect()
}

/// Mail of both sizes, its events, the API, a reading of certificates again, and the end.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_does_its_work_under_the_filter_of_its_unit() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Folder(folder.path().join("store"));
    let site = Site::build(&location, &rules(folder.path(), &[])).await;
    site.leave_store().await;
    let filter = settings("SystemCallFilter").join("|");
    let (data, log) = (folder.path().join("store"), folder.path().join("log"));
    let into_log = format!("exec \"$0\" \"$@\" 2>{}", log.display());
    let confined = [
        "bash",
        "-c",
        &into_log,
        DEBIAN_PYTHON,
        "-c",
        CONFINE,
        &filter,
        "/usr/bin/env",
        "GATEPOST_LOG=info",
        GATEPOST,
    ];
    let server = Server::start_by(&confined, &data, site.dns.addr()).await;
    let large = signer()
        .sign((letter("large") + &format!("{}\r\n", "x".repeat(70)).repeat(40_000)).as_bytes());
    for raw in [signed("small"), large.unwrap()] {
        let to = ["support@agents.example".to_owned()];
        let transaction =
            Transaction { helo: "client.example", from: "alice@good.example", to: &to, raw: &raw };
        let replies = deliver(server.smtp, &transaction).await.unwrap();
        assert!(replies.settling().starts_with("250"), "{}", replies.settling());
    }
    site.receiver.wait_for(2, PATIENCE).await.unwrap();
    assert_eq!(all_messages(server.http, &site.key).await.len(), 2);
    assert_eq!(http::get(&format!("http://{}/readyz", server.http)).await.status, 200);
    server.ask_to_stop("-HUP").await;
    assert_eq!(server.terminate().await, 0);
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("gatepost serves") && log.contains("gatepost has stopped"), "{log}");
    let complaints: Vec<&str> =
        log.lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    site.finish().await;
}
