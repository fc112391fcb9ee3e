//! The published libraries of Standard Webhooks (PyPI, npm, crates.io) on what a receiver got:
//! through a rotation, tampered with, and too late; and PyNaCl on the asymmetric signature (threats
//! H7).

use gatepost::domain::clock::Timestamp;
use gatepost::domain::secret::Secret;
use gatepost::egress::signature;
use gatepost::testkit::receiver::Received;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use crate::support::program::offer;
use crate::support::{PATIENCE, TestGateway, attempts, python, signed, sources};

const FROM: &str = "alice@good.example";
const TO: [&str; 1] = ["support@agents.example"];

/// Each reads a list of `{secret, headers, body}` and answers a list of what is genuine.
const PYTHON: &str = "
import json, sys
from standardwebhooks import Webhook, WebhookVerificationError
def genuine(one):
    try:
        Webhook(one['secret']).verify(one['body'], one['headers'])
        return True
    except WebhookVerificationError:
        return False
print(json.dumps([genuine(one) for one in json.load(sys.stdin)]))
";
const NODE: &str = "
const { Webhook, WebhookVerificationError } = require(process.argv[1]);
const genuine = (one) => {
    try { new Webhook(one.secret).verify(one.body, one.headers); return true; }
    catch (error) {
        if (error instanceof WebhookVerificationError) return false;
        throw error;
    }
};
const all = JSON.parse(require('fs').readFileSync(0, 'utf8'));
console.log(JSON.stringify(all.map(genuine)));
";
/// Verifies by `publicKey` instead of `secret`.
const NACL: &str = "
import base64, json, sys
from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey
def genuine(one):
    key = VerifyKey(base64.b64decode(one['publicKey'].removeprefix('whpk_'), validate=True))
    headers = one['headers']
    said = '.'.join([headers['webhook-id'], headers['webhook-timestamp'], one['body']]).encode()
    for entry in headers['webhook-signature'].split(' '):
        version, signature = entry.split(',')
        if version == 'v1a':
            try:
                key.verify(said, base64.b64decode(signature, validate=True))
                return True
            except BadSignatureError:
                pass
    return False
print(json.dumps([genuine(one) for one in json.load(sys.stdin)]))
";

async fn answers(program: &str, arguments: &[&str], cases: &[Value]) -> Vec<bool> {
    let output = offer(program, arguments, json!(cases).to_string().as_bytes()).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Verdicts of each library, by name.
async fn verdicts(cases: &[Value]) -> [(&'static str, Vec<bool>); 3] {
    let python = python::interpreter();
    let node = sources::root().join("target/tools/node/node_modules/standardwebhooks");
    let node = ["-e", NODE, node.to_str().unwrap()];
    [
        ("PyPI", answers(python.to_str().unwrap(), &["-c", PYTHON], cases).await),
        ("npm", answers("node", &node, cases).await),
        ("crates.io", cases.iter().map(by_the_crate).collect()),
    ]
}

fn by_the_crate(case: &Value) -> bool {
    let mut headers = HeaderMap::new();
    for (name, value) in case["headers"].as_object().unwrap() {
        let value = HeaderValue::from_str(value.as_str().unwrap()).unwrap();
        headers.insert(name.parse::<HeaderName>().unwrap(), value);
    }
    let library = standardwebhooks::Webhook::new(case["secret"].as_str().unwrap()).unwrap();
    library.verify(case["body"].as_str().unwrap().as_bytes(), &headers).is_ok()
}

fn case(secret: &str, request: &Received) -> Value {
    let body = String::from_utf8(request.body.clone()).unwrap();
    json!({ "secret": secret, "headers": request.headers, "body": body })
}

/// Sends one more message and returns its delivery.
async fn delivery(gateway: &TestGateway, number: usize) -> Received {
    let subject = format!("number {number}");
    assert!(gateway.send(FROM, &TO, &signed(&subject)).await.accepted());
    let received = gateway.receiver.wait_for(number, PATIENCE).await.unwrap();
    received[number - 1].clone()
}

async fn webhook(gateway: &TestGateway) -> Value {
    gateway.get("/webhooks").await["webhooks"][0].clone()
}

async fn rotate(gateway: &TestGateway, body: Value) -> Value {
    let id = webhook(gateway).await["id"].as_str().unwrap().to_owned();
    let path = format!("/webhooks/{id}/rotate");
    let (status, answer) = gateway.request("POST", &path, Some(body)).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn through_a_rotation_either_secret_verifies_and_after_it_the_new_one_alone() {
    let gateway = TestGateway::start().await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let first = gateway.secret.clone();
    let before = delivery(&gateway, 1).await;
    let second = text(&rotate(&gateway, json!({})).await["secret"]);
    let during = delivery(&gateway, 2).await;
    let store = gateway.folder.path().join("store");
    attempts::end_overlaps(&store).await;
    let after = delivery(&gateway, 3).await;
    // A secret that leaked ends at once.
    let third = text(&rotate(&gateway, json!({ "endFormer": true })).await["secret"]);
    let at_once = delivery(&gateway, 4).await;
    let of = |request: &Received, expected: [bool; 3]| {
        let secrets = [&first, &second, &third];
        secrets.map(|secret| case(secret, request)).into_iter().zip(expected).collect::<Vec<_>>()
    };
    let cases = [
        of(&before, [true, false, false]),
        of(&during, [true, true, false]),
        of(&after, [false, true, false]),
        of(&at_once, [false, false, true]),
    ];
    let (cases, expected): (Vec<_>, Vec<_>) = cases.concat().into_iter().unzip();
    for (library, verdicts) in verdicts(&cases).await {
        assert_eq!(verdicts, expected, "{library}");
    }
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_changed_or_comes_late_is_refused_by_every_library() {
    let gateway = TestGateway::start().await;
    let request = delivery(&gateway, 1).await;
    let genuine = case(&gateway.secret, &request);
    let changed = |name: &str, value: Value| {
        let mut other = genuine.clone();
        match name {
            "body" => other["body"] = value,
            _ => other["headers"][name] = value,
        }
        other
    };
    let at: i64 = request.headers["webhook-timestamp"].parse().unwrap();
    let entries = &request.headers["webhook-signature"];
    let only_v1a = entries.split(' ').find(|entry| entry.starts_with("v1a,")).unwrap();
    let as_v1 = only_v1a.replacen("v1a,", "v1,", 1);
    let body = genuine["body"].as_str().unwrap();
    let mut cases = vec![
        genuine.clone(),
        changed("body", json!(format!("{body} "))),
        changed("body", json!(body.replacen("number 1", "number 2", 1))),
        changed("body", json!("")),
        changed("webhook-id", json!("0199f5a2-0000-7000-8000-000000000000")),
        changed("webhook-timestamp", json!((at + 1).to_string())),
        changed("webhook-timestamp", json!((at - 600).to_string())),
        changed("webhook-signature", json!(only_v1a)),
        changed("webhook-signature", json!(as_v1)),
        changed("webhook-signature", json!("")),
    ];
    // Genuine, and of ten minutes ago or ahead: replayed, or kept back.
    use base64::Engine as _;
    let secret = gateway.secret.strip_prefix("whsec_").unwrap();
    let secret = base64::engine::general_purpose::STANDARD.decode(secret).unwrap();
    for moment in [at - 600, at + 600] {
        let id = &request.headers["webhook-id"];
        let then = Timestamp::from_millis(moment * 1000);
        let signed = signature::header([&Secret::new(secret.clone())], id, then, body.as_bytes());
        let mut late = changed("webhook-timestamp", json!(moment.to_string()));
        late["headers"]["webhook-signature"] = json!(signed);
        cases.push(late);
    }
    let mut expected = vec![false; cases.len()];
    expected[0] = true;
    for (library, verdicts) in verdicts(&cases).await {
        assert_eq!(verdicts, expected, "{library}");
    }
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_public_key_verifies_and_is_rotated_with_the_secret() {
    let gateway = TestGateway::start().await;
    let first = webhook(&gateway).await["publicKey"].clone();
    let before = delivery(&gateway, 1).await;
    let second = rotate(&gateway, json!({})).await["webhook"]["publicKey"].clone();
    assert_ne!(first, second);
    let during = delivery(&gateway, 2).await;
    attempts::end_overlaps(&gateway.folder.path().join("store")).await;
    let after = delivery(&gateway, 3).await;
    let of = |key: &Value, request: &Received| {
        let mut case = case("", request);
        case["publicKey"] = key.clone();
        case
    };
    let mut changed = of(&first, &before);
    changed["body"] = json!("{}");
    let cases = [
        (of(&first, &before), true),
        (of(&second, &before), false),
        (of(&first, &during), true),
        (of(&second, &during), true),
        (of(&first, &after), false),
        (of(&second, &after), true),
        (changed, false),
    ];
    let (cases, expected): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
    let python = python::interpreter();
    assert_eq!(answers(python.to_str().unwrap(), &["-c", NACL], &cases).await, expected);
    gateway.finish().await;
}
