//! Real mail clients deliver a signed message; the published webhook libraries verify what the
//! receiver got, unchanged.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

use crate::support::{PATIENCE, TestGateway, signed};

/// Runs a program with `input`; fails with what it said when it is missing or fails.
pub async fn run(program: &str, arguments: &[&str], input: &[u8]) {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}: run the tests by scripts/test"));
    // A program that needs no input may be gone before it is offered.
    let mut stdin = child.stdin.take().unwrap();
    if !input.is_empty() {
        stdin.write_all(input).await.unwrap();
    }
    drop(stdin);
    let output = timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap();
    assert!(
        output.status.success(),
        "{program}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
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
    std::fs::write(&file, signed("by swaks")).unwrap();
    let server = gateway.smtp.to_string();
    let data = format!("@{}", file.display());
    let arguments = [
        "--server",
        &server,
        "--from",
        "alice@good.example",
        "--to",
        "support@agents.example",
        "--data",
        &data,
        "--helo",
        "client.example",
    ];
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
        "--from=alice@good.example",
        "--",
        "support@agents.example",
    ];
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
    run("python3", &["-c", program, &host, &port], &signed("by smtplib")).await;
    assert_arrived(gateway, "by smtplib").await;
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
