//! A verdict is reached again from its record alone, after keys have been rotated.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use gatepost::testkit::signer::Key;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use crate::support::process::{GATEPOST, failing, gatepost};
use crate::support::{PATIENCE, TestGateway, fixture, letter, signed};

const KEY: &str = "s1._domainkey.good.example";
const FROM: &str = "bounce@good.example";
const TRUSTED: &str = "[dns]\nquery_timeout_seconds = 1\nretries = 0\n\
    [authentication]\ntrusted_arc_sealers = [\"list.example\"]\n";

/// A gateway, and files beside it for the command line.
struct Scene {
    gateway: TestGateway,
    dns: String,
}

impl Scene {
    async fn new() -> Self {
        let gateway = TestGateway::with_rules(&[("intake.toml", TRUSTED)]).await;
        // The rules that the gateway has.
        std::fs::write(gateway.folder.path().join("gatepost.toml"), "policies = \"policies\"\n")
            .unwrap();
        let dns = gateway.dns.addr().to_string();
        Self { gateway, dns }
    }

    fn here(&self) -> &Path {
        self.gateway.folder.path()
    }

    fn file(&self, name: &str, octets: impl AsRef<[u8]>) -> PathBuf {
        let path = self.here().join(name);
        std::fs::write(&path, octets).unwrap();
        path
    }

    /// The record of the last message, whole.
    async fn record(&self) -> Value {
        let page = self.gateway.get("/email/intake?limit=1").await;
        let id = page["intake"][0]["id"].as_str().unwrap().to_owned();
        self.gateway.get(&format!("/email/intake/{id}")).await
    }

    /// Another key than before is published.
    fn rotate(&self) {
        let other = Key::generate_rsa().unwrap().txt_record().unwrap();
        self.gateway.dns.change(|zone| {
            zone.remove(KEY, "TXT").unwrap();
            zone.insert(KEY, "TXT", "NOERROR", &other).unwrap();
        });
    }

    async fn check(&self, message: &Path, arguments: &[&str]) -> (Option<i32>, String) {
        let file = message.to_str().unwrap();
        let command = [&["check", file, "--dns", &self.dns], arguments].concat();
        let output = gatepost(self.here(), &command).await;
        (output.status.code(), said(&output))
    }
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|octets| String::from_utf8_lossy(octets)).concat()
}

/// By its delivery markers, which only its installation knows: as the record has it.
#[tokio::test(flavor = "multi_thread")]
async fn what_came_back_is_a_loop_again() {
    let scene = Scene::new().await;
    let to = ["support@agents.example"];
    assert!(scene.gateway.send(FROM, &to, &signed("first")).await.accepted());
    let marker = &scene.gateway.messages().await[0]["metadata"]["emailDeliveryMarker"]["value"];
    let own = marker.as_str().unwrap().to_owned();
    for (marker, verdict) in [(own, "refused"), ("a".repeat(32), "accepted")] {
        let field = format!("X-Gatepost-Delivered: {marker}\r\n");
        let raw = [field.as_bytes(), &signed("again")].concat();
        scene.gateway.send(FROM, &to, &raw).await;
        let answer = scene.record().await;
        assert_eq!(answer["intake"]["verdict"], verdict, "{answer}");
        let record = scene.file("record.json", answer.to_string());
        let message = scene.file("message.eml", &raw);
        let (code, then) = scene.check(&message, &["--record", record.to_str().unwrap()]).await;
        assert_eq!(code, Some(0), "{then}");
    }
    scene.gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_accepted_message_is_accepted_again_by_the_key_of_then() {
    let scene = Scene::new().await;
    let raw = signed("rotated");
    assert!(scene.gateway.send(FROM, &["support@agents.example"], &raw).await.accepted());
    let answer = scene.record().await;
    let record = &answer["intake"];
    assert_eq!(record["verdict"], "accepted");
    assert_eq!((&record["size"], &record["helo"]), (&json!(raw.len()), &json!("client.example")));
    assert!(record["headers"].as_str().unwrap().contains("Subject: rotated"));

    scene.rotate();
    let message = scene.file("message.eml", &raw);
    let (code, now) = scene.check(&message, &[]).await;
    assert_eq!(code, Some(1), "{now}");
    assert!(now.contains("refused (dkim_failed)"), "{now}");
    // The whole answer, and the record alone; with LF line ends, as an editor saves the message.
    let whole = scene.file("whole.json", answer.to_string());
    let alone = scene.file("alone.json", record.to_string());
    let text = String::from_utf8(raw).unwrap();
    let unix = scene.file("unix.eml", text.replace("\r\n", "\n"));
    for (message, record) in [(&message, &whole), (&message, &alone), (&unix, &whole)] {
        let (code, then) = scene.check(message, &["--record", record.to_str().unwrap()]).await;
        assert_eq!(code, Some(0), "{then}");
        assert!(then.contains("\nthe same verdict\n"), "{then}");
    }
    // As JSON, in the shape of the record, with the very same answers.
    let arguments = ["--record", alone.to_str().unwrap(), "--json"];
    let (code, then) = scene.check(&message, &arguments).await;
    let then: Value = serde_json::from_str(&then).unwrap();
    assert_eq!((code, &then["same"]), (Some(0), &json!(true)), "{then:#}");
    for name in record.as_object().unwrap().keys() {
        match name.as_str() {
            "steps" => assert_eq!(timeless(&then[name]), timeless(&record[name])),
            _ => assert_eq!(then[name], record[name], "{name}"),
        }
    }
    from_standard_input(&scene, &message, &answer).await;

    let other = scene.file("other.eml", text.replace("Hello", "Hallo"));
    let file = other.to_str().unwrap();
    let why = failing(scene.here(), &["check", file, "--record", alone.to_str().unwrap()]).await;
    assert!(why.contains("is not the message of this record"), "{why}");
    scene.gateway.finish().await;
}

/// Steps without what differs from one time to the next.
fn timeless(steps: &Value) -> Value {
    let mut steps = steps.clone();
    for step in steps.as_array_mut().unwrap() {
        step["micros"] = Value::Null;
        for answer in step["dns"].as_array_mut().unwrap() {
            answer["ttl"] = Value::Null;
        }
    }
    steps
}

async fn from_standard_input(scene: &Scene, message: &Path, answer: &Value) {
    let mut command = Command::new(GATEPOST);
    command.args(["check", message.to_str().unwrap(), "--record", "-"]);
    command.current_dir(scene.here()).kill_on_drop(true);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(answer.to_string().as_bytes()).await.unwrap();
    drop(input);
    let output = timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_refused_or_deferred_is_again_whatever_is_published_now() {
    let scene = Scene::new().await;
    let changed = String::from_utf8(signed("changed")).unwrap().replace("Hello", "Hallo");
    let chain = std::fs::read(fixture("mail/refused/dkim_failed/arc_of_untrusted_list.eml"));
    let spaced = letter("spaced").replace("Subject:", "Subject :");
    for (name, raw, verdict, reason) in [
        // First, as the others have the gateway remember the key.
        ("deferred", signed("deferred"), "deferred", json!("dns_unavailable")),
        ("changed", changed.into_bytes(), "refused", json!("dkim_failed")),
        ("chain", chain.unwrap(), "accepted", Value::Null),
        ("unsigned", letter("unsigned").into_bytes(), "refused", json!("dkim_missing")),
        ("spaced", spaced.into_bytes(), "refused", json!("malformed")),
    ] {
        let working = scene.gateway.dns.change(|zone| zone.clone());
        if name == "deferred" {
            scene.gateway.dns.change(|zone| zone.insert(KEY, "TXT", "SERVFAIL", "")).unwrap();
        }
        // SPF fails for the time being, too, and changes nothing.
        let from = format!("{name}@servfail.example");
        scene.gateway.send(&from, &["open@agents.example"], &raw).await;
        scene.gateway.dns.change(|zone| *zone = working);
        let answer = scene.record().await;
        let record = &answer["intake"];
        assert_eq!((&record["verdict"], &record["reason"]), (&json!(verdict), &reason), "{name}");
        let message = scene.file(&format!("{name}.eml"), &raw);
        let kept = scene.file(&format!("{name}.json"), answer.to_string());
        if name == "chain" {
            let sealer = "s1._domainkey.list.example";
            scene.gateway.dns.change(|zone| zone.remove(sealer, "TXT")).unwrap();
        }
        let (code, then) = scene.check(&message, &["--record", kept.to_str().unwrap()]).await;
        assert_eq!(code, Some(0), "{name}: {then}");
        if name != "unsigned" && name != "spaced" {
            let (_, now) = scene.check(&message, &[]).await;
            let plain = if name == "deferred" { "\naccepted\n" } else { "dkim_failed" };
            assert!(now.contains(plain), "{name}: {now}");
        }
    }
    scene.gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_differs_is_named_and_what_is_no_verdict_is_refused() {
    let scene = Scene::new().await;
    let raw = signed("otherwise");
    assert!(scene.gateway.send(FROM, &["support@agents.example"], &raw).await.accepted());
    let answer = scene.record().await;
    let message = scene.file("message.eml", &raw);
    // Somebody says that the sender was not listed.
    let mut record = answer["intake"].clone();
    let last = record["steps"].as_array().unwrap().len() - 1;
    record["steps"][last]["inputs"]["listed"] = json!(false);
    let kept = scene.file("kept.json", record.to_string());
    let (code, then) = scene.check(&message, &["--record", kept.to_str().unwrap()]).await;
    assert_eq!(code, Some(1), "{then}");
    for difference in [
        "verdict was \"accepted\", is \"refused\"",
        "reason was null, is \"sender_not_allowed\"",
        "step policy was \"accepted\"",
    ] {
        assert!(then.contains(difference), "{then}");
    }
    // At RCPT nobody has seen a message.
    scene.gateway.send(FROM, &["nobody@agents.example"], &raw).await;
    let counted = scene.gateway.get("/email/intake?reason=unknown_recipient").await;
    let id = counted["intake"][0]["id"].as_str().unwrap();
    let counted = scene.gateway.get(&format!("/email/intake/{id}")).await;
    let cases = [
        (counted.to_string(), "of no message that was read whole"),
        (json!({ "intake": counted["intake"]["id"] }).to_string(), "a record is a JSON object"),
        ("{}".into(), "has no steps"),
        ("x".into(), "is not JSON"),
    ];
    for (text, why) in cases {
        let kept = scene.file("broken.json", &text);
        let arguments = ["check", message.to_str().unwrap(), "--record", kept.to_str().unwrap()];
        let said = failing(scene.here(), &arguments).await;
        assert!(said.contains(why), "{text}: {said}");
    }
    scene.gateway.finish().await;
}
