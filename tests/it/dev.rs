//! `gatepost dev`, `gatepost send --dev`: a world for building an agent, told line by line.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use gatepost::run;
use gatepost::testkit::receiver::Receiver;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::support::process::{GATEPOST, failing, gatepost};
use crate::support::{PATIENCE, all_messages, canary, http};

/// A `gatepost dev` of its own.
struct Dev {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// Its output up to the first verdict.
    greeting: String,
    /// Its lines since then.
    told: Vec<String>,
}

impl Dev {
    async fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(GATEPOST);
        command.arg("dev").args(arguments).stdin(Stdio::null());
        Self::of(folder, &mut command).await
    }

    /// With colours, wherever it is run, unless they are unwanted.
    async fn in_colour(folder: &Path, no_color: &str) -> Self {
        let mut command = Command::new(GATEPOST);
        command.arg("dev").stdin(Stdio::null());
        command.env("CLICOLOR_FORCE", "1").env("NO_COLOR", no_color);
        Self::of(folder, &mut command).await
    }

    async fn of(folder: &Path, command: &mut Command) -> Self {
        let mut child =
            command.current_dir(folder).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut dev = Self { child, lines, greeting: String::new(), told: Vec::new() };
        while !dev.greeting.contains("Verdicts and events") {
            let line = dev.next().await;
            dev.greeting.push_str(&format!("{line}\n"));
        }
        dev
    }

    async fn next(&mut self) -> String {
        let line = timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("nothing more than {:#?}", self.told)).unwrap();
        let line = line.unwrap_or_else(|| panic!("it ended: {}", self.greeting));
        canary::note(line.as_bytes());
        line
    }

    /// The first line with all of these words, now or soon.
    async fn tells(&mut self, words: &[&str]) -> String {
        let has = |line: &&String| words.iter().all(|word| line.contains(word));
        if let Some(line) = self.told.iter().find(has) {
            return line.clone();
        }
        loop {
            let line = self.next().await;
            self.told.push(line.clone());
            if has(&&line) {
                return line;
            }
        }
    }

    /// The word behind this label of the greeting.
    fn said(&self, label: &str) -> String {
        let mut lines = self.greeting.lines().filter_map(|line| line.trim().strip_prefix(label));
        let words = lines.next().unwrap_or_else(|| panic!("no {label} in {}", self.greeting));
        words.split_whitespace().next().unwrap().to_owned()
    }

    fn key(&self) -> String {
        self.said("key ")
    }

    fn http(&self) -> SocketAddr {
        let base = self.said("API ");
        base.strip_prefix("http://").unwrap().strip_suffix("/api/v2").unwrap().parse().unwrap()
    }

    async fn messages(&self) -> Vec<Value> {
        all_messages(self.http(), &self.key()).await
    }

    /// Ctrl-C.
    async fn stop(mut self) {
        let id = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().await.unwrap().success());
        let ended = timeout(PATIENCE, self.child.wait()).await.unwrap().unwrap();
        assert_eq!(ended.code(), Some(0), "{:#?}", self.told);
    }
}

/// `gatepost send --dev` with these arguments, which must succeed.
async fn send(folder: &Path, arguments: &[&str]) -> String {
    let output = gatepost(folder, &[&["send", "--dev"], arguments].concat()).await;
    let said = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}{errors}");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_to_the_agent_is_told_and_the_next_start_is_the_same_world() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let mut dev = Dev::start(here, &[]).await;
    assert_eq!(dev.said("Agent "), "agent@agents.example");
    assert_eq!(dev.said("listed "), "alice@good.example,");
    let (key, http, smtp) = (dev.key(), dev.http(), dev.said("SMTP "));
    let kept = here.join("gatepost-dev/key");
    assert_eq!(std::fs::read_to_string(&kept).unwrap().trim_end(), key);
    for file in ["key", "world.json", "keys/dev._domainkey.good.example.pem"] {
        let mode = std::fs::metadata(here.join("gatepost-dev").join(file)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "{file}");
    }
    assert!(dev.greeting.contains("a development store"), "{}", dev.greeting);

    let said = send(here, &[]).await;
    assert!(said.contains("250 2.0.0 accepted [record "), "{said}");
    let words =
        ["accepted", "alice@good.example -> agent@agents.example", "signed by good.example"];
    let line = dev.tells(&words).await;
    let record = line.split_whitespace().last().unwrap();
    assert!(record.starts_with(&format!("http://{http}/api/v2/email/intake/")), "{line}");
    let answer = http::get(&format!("{record}?token={key}")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    dev.tells(&["event", "email.received", "from alice@good.example"]).await;
    send(here, &["--subject", "Grüße", "--text", "Wo ist 4711?\nAlice"]).await;
    dev.tells(&["event", "email.received", "subject Grüße"]).await;
    let messages = dev.messages().await;
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[0]["metadata"]["emailSubject"], "Grüße");
    assert_eq!(messages[0]["message"], "Wo ist 4711?\nAlice");
    assert!(dev.told.iter().all(|line| !line.contains('\x1b')), "{:#?}", dev.told);
    dev.stop().await;

    let said = failing(here, &["send", "--dev"]).await;
    assert!(said.contains("start `gatepost dev` in another terminal"), "{said}");
    let mut dev = Dev::start(here, &[]).await;
    assert_eq!((dev.key(), dev.http(), dev.said("SMTP ")), (key, http, smtp));
    assert_eq!(dev.messages().await.len(), 2);
    send(here, &[]).await;
    dev.tells(&["accepted", "alice@good.example"]).await;
    let accepted = dev.told.iter().filter(|line| line.contains("accepted")).count();
    assert_eq!(accepted, 1, "what was told before is told again: {:#?}", dev.told);
    dev.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_forgery_has_the_verdict_that_its_help_promises() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let mut dev = Dev::start(here, &["--data", "some/where"]).await;
    let data = ["--data", "some/where"];
    let help = gatepost(here, &["send", "--help"]).await;
    let help = String::from_utf8(help.stdout).unwrap().replace('\n', " ");
    for (how, reply, reason, told) in [
        ("unsigned", "550 5.7.20", "dkim_missing", "no DKIM signature"),
        ("altered", "550 5.7.20", "dkim_failed", "changed the body"),
        ("lookalike", "550 5.7.1", "sender_not_allowed", "alice@xn--gd-fmca.example"),
        ("two-from", "550 5.6.0", "sender_invalid", "more than one From field"),
        ("other-domain", "550 5.7.22", "dkim_unaligned", "signed by evil.example"),
        ("expired", "550 5.7.21", "dkim_unacceptable", "expired"),
    ] {
        assert!(help.contains(&format!("- {how}:")) && help.contains(reason), "{how}: {help}");
        let said = send(here, &[&data[..], &["--forge", how]].concat()).await;
        assert!(said.starts_with(&format!("expected: {reply} ({reason}): ")), "{said}");
        assert!(said.contains(&format!("agent@agents.example  {reply} ")), "{said}");
        assert!(said.ends_with("\nas expected\n"), "{said}");
        dev.tells(&["refused", told]).await;
    }
    assert!(dev.messages().await.is_empty());

    let said = send(here, &[&data[..], &["--forge", "hidden-prompt"]].concat()).await;
    assert!(said.starts_with("expected: 250 2.0.0; see the finding hidden_text"), "{said}");
    dev.tells(&["accepted", "alice@good.example"]).await;
    let messages = dev.messages().await;
    let findings = messages[0]["metadata"]["findings"].as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["kind"] == "hidden_text"), "{findings:?}");
    assert!(!messages[0]["message"].as_str().unwrap().contains("Ignore"), "{}", messages[0]);
    dev.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_forwarded_by_a_webhook_that_verifies() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let receiver = Receiver::start(run::system_mint().clock().clone()).await.unwrap();
    let url = format!("http://localhost:{}/hook", receiver.address().port());
    let mut dev = Dev::start(here, &["--forward-to", &url]).await;
    assert_eq!(dev.said("webhook "), url);
    let secret = dev.said("secret ");
    receiver.trust(&secret);
    send(here, &[]).await;
    let received = receiver.wait_for(1, PATIENCE).await.unwrap();
    assert!(received[0].verified && received[0].path == "/hook");
    let body: Value = serde_json::from_slice(&received[0].body).unwrap();
    assert_eq!(body["event"], "email.received");
    dev.tells(&["webhook", "email.received", "answered 200"]).await;
    dev.stop().await;

    // Without the flag nothing is forwarded; with it again the receiver's secret is good again.
    let mut dev = Dev::start(here, &[]).await;
    send(here, &[]).await;
    dev.tells(&["event", "email.received"]).await;
    dev.stop().await;
    let mut dev = Dev::start(here, &["--forward-to", &url]).await;
    assert_eq!(dev.said("secret "), secret);
    send(here, &[]).await;
    dev.tells(&["webhook", "email.received", "answered 200"]).await;
    let received = receiver.received();
    assert!(received.len() == 2 && received[1].verified, "{}", received.len());
    dev.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_signed_by_the_sender_and_judged_by_its_from() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let mut dev = Dev::start(here, &[]).await;
    for (from, expected) in [("alice@good.example", 0), ("bob@good.example", 1)] {
        let file = here.join("letter.eml");
        std::fs::write(&file, format!("From: {from}\nSubject: of {from}\n\nHello.\n")).unwrap();
        let output = gatepost(here, &["send", "--dev", "letter.eml"]).await;
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(expected), "{said}");
    }
    dev.tells(&["accepted", "alice@good.example"]).await;
    dev.tells(&["refused", "bob@good.example", "not on this Agent's allowlist"]).await;
    let unknown = gatepost(here, &["send", "--dev", "--to", "nobody@agents.example"]).await;
    assert_eq!(unknown.status.code(), Some(1));
    dev.tells(&["refused", "nobody@agents.example", "No Agent has this address."]).await;
    dev.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn verdicts_have_colours_where_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for (no_color, expected) in [("", "\x1b[32maccepted\x1b[0m"), ("1", "  accepted  ")] {
        let mut dev = Dev::in_colour(here, no_color).await;
        send(here, &[]).await;
        let line = dev.tells(&["accepted", "alice@good.example"]).await;
        assert!(line.contains(expected), "{line:?}");
        assert_eq!(line.contains('\x1b'), no_color.is_empty(), "{line:?}");
        dev.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_told_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let said = failing(here, &["send", "--dev"]).await;
    assert!(said.contains("start `gatepost dev` in another terminal"), "{said}");
    std::fs::create_dir(here.join("mine")).unwrap();
    std::fs::write(here.join("mine/file"), "").unwrap();
    let said = failing(here, &["dev", "--data", "mine"]).await;
    assert!(said.contains("is not empty") && said.contains("--data"), "{said}");
    for url in ["https://hooks.example.com/", "http://10.0.0.1/hook", "localhost:3000"] {
        let said = failing(here, &["dev", "--forward-to", url]).await;
        assert!(said.contains(&format!("--forward-to {url}: ")), "{said}");
    }
    assert!(!here.join("gatepost-dev").exists());
    for usage in [
        &["send"][..],
        &["send", "--forge", "unsigned", "--server", "127.0.0.1:1", "--to", "a@b.example", "x"],
        &["send", "--dev", "--server", "127.0.0.1:1"],
        &["send", "--dev", "--forge", "cleverly"],
        &["send", "--dev", "x.eml", "--subject", "x"],
    ] {
        assert_eq!(gatepost(here, usage).await.status.code(), Some(2), "{usage:?}");
    }
    let dev = Dev::start(here, &[]).await;
    let said = failing(here, &["dev"]).await;
    assert!(said.contains("is served by process"), "{said}");
    let said = failing(here, &["send", "--dev", "--subject", "a\nBcc: b@c.example"]).await;
    assert!(said.contains("--subject: expected one line"), "{said}");
    send(here, &[]).await;
    // A killed one says nothing of its end.
    let id = dev.child.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-KILL", &id]).status().await.unwrap().success());
    let mut child = dev.child;
    child.wait().await.unwrap();
    let said = failing(here, &["send", "--dev"]).await;
    assert!(said.contains("start `gatepost dev` in another terminal"), "{said}");
    Dev::start(here, &[]).await.stop().await;
}
