//! Real mail clients deliver a signed message, and report why an unsigned one is refused; the
//! published webhook libraries verify what the receiver got, unchanged.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use gatepost::domain::address::Address;
use gatepost::domain::domain_name::DomainName;
use gatepost::domain::id::AccountId;
use gatepost::domain::ports::{Client, Envelope, Intake, IntakeReply, Recipient};
use gatepost::domain::reason::Reason;
use gatepost::rules::Rules;
use gatepost::shutdown::Shutdown;
use gatepost::smtp::Listener;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor};
use serde_json::json;
use tokio::net::TcpListener;

use crate::support::program::offer;
use crate::support::{PATIENCE, TestGateway, letter, signed};

const FROM: &str = "alice@good.example";
const TO: &str = "support@agents.example";
/// The text that a client must show its user about a message without a signature.
const REFUSAL: &str = "5.7.20 the message has no DKIM signature";

/// Runs a program with `input`; fails with what it said when it is missing or fails.
pub async fn run(program: &str, arguments: &[&str], input: &[u8]) {
    let (success, said) = try_run(program, arguments, input).await;
    assert!(success, "{program}: {said}");
}

/// Runs a client whose message must be refused, and checks that it says why.
async fn be_refused(program: &str, arguments: &[&str], input: &[u8]) {
    let (success, said) = try_run(program, arguments, input).await;
    assert!(!success && said.contains(REFUSAL), "{program}: {said}");
}

/// Whether it succeeded, and all that it said.
async fn try_run(program: &str, arguments: &[&str], input: &[u8]) -> (bool, String) {
    let output = offer(program, arguments, input).await;
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

pub async fn assert_arrived(gateway: TestGateway, subject: &str) {
    let messages = gateway.messages().await;
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0]["metadata"]["emailSubject"], subject);
    assert_eq!(messages[0]["fromUser"], "Alice Example");
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn swaks_delivers() {
    let gateway = TestGateway::start().await;
    let file = gateway.folder.path().join("message.eml");
    let server = gateway.smtp.to_string();
    let data = format!("@{}", file.display());
    let envelope = ["--server", &server, "--from", FROM, "--to", TO, "--helo", "client.example"];
    let arguments = [&envelope[..], &["--data", &data]].concat();
    std::fs::write(&file, letter("by swaks")).unwrap();
    be_refused("swaks", &arguments, b"").await;
    std::fs::write(&file, signed("by swaks")).unwrap();
    run("swaks", &arguments, b"").await;
    assert_arrived(gateway, "by swaks").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn msmtp_delivers() {
    let gateway = TestGateway::start().await;
    let (host, port) = (gateway.smtp.ip().to_string(), gateway.smtp.port().to_string());
    let arguments = [
        "--file=/dev/null",
        &format!("--host={host}"),
        &format!("--port={port}"),
        &format!("--from={FROM}"),
        "--",
        TO,
    ];
    be_refused("msmtp", &arguments, letter("by msmtp").replace("\r\n", "\n").as_bytes()).await;
    // msmtp reads a file of this system: LF line ends.
    let message = String::from_utf8(signed("by msmtp")).unwrap().replace("\r\n", "\n");
    run("msmtp", &arguments, message.as_bytes()).await;
    assert_arrived(gateway, "by msmtp").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_smtplib_delivers() {
    let gateway = TestGateway::start().await;
    let program = "import smtplib, sys\n\
                   with smtplib.SMTP(sys.argv[1], int(sys.argv[2]), 'client.example') as client:\n\
                   \x20   refused = client.sendmail('alice@good.example', ['support@agents.example'],\n\
                   \x20                             sys.stdin.buffer.read())\n\
                   \x20   assert not refused, refused\n";
    let (host, port) = (gateway.smtp.ip().to_string(), gateway.smtp.port().to_string());
    let arguments = ["-c", program, &host, &port];
    be_refused("python3", &arguments, letter("by smtplib").as_bytes()).await;
    run("python3", &arguments, &signed("by smtplib")).await;
    assert_arrived(gateway, "by smtplib").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodemailer_delivers() {
    let gateway = TestGateway::start().await;
    let library = tools().join("node/node_modules/nodemailer");
    let program = "const [library, host, port, from, to] = process.argv.slice(1);\n\
                   const transport = require(library).createTransport(\n\
                   \x20   { host, port, ignoreTLS: true, name: 'client.example' });\n\
                   const raw = require('fs').readFileSync(0);\n\
                   transport.sendMail({ envelope: { from, to }, raw }).then(\n\
                   \x20   (info) => console.log(info.response),\n\
                   \x20   (error) => { console.error(error.response); process.exit(1); });\n";
    let (host, port) = (gateway.smtp.ip().to_string(), gateway.smtp.port().to_string());
    let arguments = ["-e", program, library.to_str().unwrap(), &host, &port, FROM, TO];
    be_refused("node", &arguments, letter("by nodemailer").as_bytes()).await;
    run("node", &arguments, &signed("by nodemailer")).await;
    assert_arrived(gateway, "by nodemailer").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lettre_delivers() {
    let gateway = TestGateway::start().await;
    let host = gateway.smtp.ip().to_string();
    let transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(host)
        .port(gateway.smtp.port())
        .timeout(Some(PATIENCE))
        .build();
    let (from, to) = (FROM.parse().unwrap(), TO.parse().unwrap());
    let envelope = lettre::address::Envelope::new(Some(from), vec![to]).unwrap();
    let refused = transport.send_raw(&envelope, letter("by lettre").as_bytes()).await.unwrap_err();
    assert!(refused.is_permanent() && refused.to_string().contains(REFUSAL), "{refused}");
    transport.send_raw(&envelope, &signed("by lettre")).await.unwrap();
    assert_arrived(gateway, "by lettre").await;
}

/// Takes every message and counts it.
#[derive(Default)]
struct Counting(AtomicUsize);

impl Intake for Counting {
    fn turned_down(&self, _: &'static str) {}

    async fn free_space(&self) -> Result<Option<u64>, IntakeReply> {
        Ok(None)
    }

    async fn over_rate(&self, _: &Client, _: &str, _: &str) -> IntakeReply {
        IntakeReply { reason: Some(Reason::RateLimited), detail: None, record: None, again: false }
    }

    async fn recipient(&self, _: &Client, _: &str, path: &str) -> Result<Recipient, IntakeReply> {
        Ok(Recipient {
            agent: AccountId::new(1),
            address: Address::parse(path).unwrap(),
            tag: None,
            as_sent: path.to_owned(),
            shares: AccountId::new(1),
        })
    }

    async fn message(&self, _: Envelope, _: Bytes) -> IntakeReply {
        self.0.fetch_add(1, Ordering::SeqCst);
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

/// It cannot sign, and gives up at its first refusal: the front end alone, before an Intake that
/// takes everything.
#[tokio::test(flavor = "multi_thread")]
async fn smtp_source_sends_a_thousand_messages_in_twenty_sessions() {
    let (intake, shutdown) = (Arc::new(Counting::default()), Shutdown::default());
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hostname = DomainName::parse("mx.agents.example").unwrap();
    let (asked, rules) = (Arc::clone(&intake), Rules::defaults().unwrap().smtp);
    let listener = Listener::on(socket, &hostname, asked, &rules, 1 << 20, shutdown.clone(), None);
    let server = listener.local_addr().unwrap().to_string();
    shutdown.spawn(listener.serve());
    let (program, libraries) = (tools().join("postfix/usr/sbin/smtp-source"), libraries());
    // A session each, then sessions that go on.
    for keep in ["-c", "-cd"] {
        let program = [&libraries, program.to_str().unwrap(), keep];
        let load = ["-s", "20", "-m", "1000", "-l", "4000", "-f", FROM, "-t", TO, &server];
        run("env", &[&program[..], &load[..]].concat(), b"").await;
    }
    assert_eq!(intake.0.load(Ordering::SeqCst), 2000);
    assert!(shutdown.finish(PATIENCE).await);
}

/// Where the libraries of Postfix's programs are, for `env`.
fn libraries() -> String {
    let folder = tools().join("postfix/usr/lib");
    let machine = folder.join(format!("{}-linux-gnu", std::env::consts::ARCH));
    format!("LD_LIBRARY_PATH={}:{}", folder.join("postfix").display(), machine.display())
}

/// Where `scripts/test` puts the libraries.
fn tools() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/tools")
}

/// A delivery as a receiver gets it: `{secret, headers, body}`.
async fn delivery(gateway: &TestGateway) -> Vec<u8> {
    let replies =
        gateway.send("alice@good.example", &["support@agents.example"], &signed("a hook")).await;
    assert!(replies.accepted(), "{}", replies.settling());
    let received = gateway.receiver.wait_for(1, PATIENCE).await.unwrap();
    let body = String::from_utf8(received[0].body.clone()).unwrap();
    let delivery = json!({
        "secret": gateway.secret,
        "headers": received[0].headers,
        "body": body,
    });
    delivery.to_string().into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_library_verifies_a_delivery() {
    let gateway = TestGateway::start().await;
    let program = "import json, sys\n\
                   from standardwebhooks import Webhook, WebhookVerificationError\n\
                   got = json.load(sys.stdin)\n\
                   hook = Webhook(got['secret'])\n\
                   event = hook.verify(got['body'], got['headers'])\n\
                   assert (event or json.loads(got['body']))['event'] == 'email.received'\n\
                   try:\n\
                   \x20   hook.verify(got['body'] + ' ', got['headers'])\n\
                   except WebhookVerificationError:\n\
                   \x20   sys.exit(0)\n\
                   sys.exit('a changed body was verified')\n";
    let python = tools().join("python/bin/python");
    let delivery = delivery(&gateway).await;
    run(python.to_str().unwrap(), &["-c", program], &delivery).await;
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_library_verifies_a_delivery() {
    let gateway = TestGateway::start().await;
    let library = tools().join("node/node_modules/standardwebhooks");
    let program = "const { Webhook } = require(process.argv[1]);\n\
                   const got = JSON.parse(require('fs').readFileSync(0, 'utf8'));\n\
                   const hook = new Webhook(got.secret);\n\
                   const event = hook.verify(got.body, got.headers);\n\
                   if (event.event !== 'email.received') throw new Error('no event');\n\
                   try { hook.verify(got.body + ' ', got.headers); } catch { process.exit(0); }\n\
                   throw new Error('a changed body was verified');\n";
    let delivery = delivery(&gateway).await;
    run("node", &["-e", program, library.to_str().unwrap()], &delivery).await;
    gateway.finish().await;
}
