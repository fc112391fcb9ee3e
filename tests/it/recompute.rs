//! A verdict is reached again from its record alone, after keys have been rotated.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use gatepost::run;
use gatepost::testkit::receiver::{Receiver, Reply};
use gatepost::testkit::signer::{Key, Signer};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use crate::support::process::{self, GATEPOST, failing, gatepost};
use crate::support::{PATIENCE, TestGateway, fixture, letter, letter_between, signed};

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
        Self::with("").await
    }

    /// With these rules for mail beside [`TRUSTED`].
    async fn with(rules: &str) -> Self {
        let rules = format!("{TRUSTED}{rules}");
        let gateway = TestGateway::with_rules(&[("intake.toml", &rules)]).await;
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

    /// The file against this record, as JSON: exit code, and what was said.
    async fn again(&self, message: &Path, record: &Value) -> (Option<i32>, Value) {
        let record = self.file("again.json", record.to_string());
        let arguments = ["--record", record.to_str().unwrap(), "--json"];
        let (code, said) = self.check(message, &arguments).await;
        (code, serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}")))
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

    let message = scene.file("message.eml", &raw);
    as_it_came(&scene, &message, record).await;
    scene.rotate();
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

/// Without the record, the file comes to the same, but for what only the session knew.
async fn as_it_came(scene: &Scene, message: &Path, record: &Value) {
    let arguments = ["--agent", "support@agents.example", "--data", "store", "--json"];
    let (code, plain) = scene.check(message, &arguments).await;
    let plain: Value = serde_json::from_str(&plain).unwrap();
    assert_eq!(code, Some(0), "{plain:#}");
    for (name, value) in record.as_object().unwrap() {
        match name.as_str() {
            "date" | "envelopeFrom" | "helo" | "id" | "messageUuid" => {}
            "steps" => assert_eq!(of_the_message(&plain[name]), of_the_message(value)),
            _ => assert_eq!(&plain[name], value, "{name}"),
        }
    }
    let names = |record: &Value| record.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&plain), names(record));
}

/// Steps without what comes of the session: who the client was, and what it said of the sender.
fn of_the_message(steps: &Value) -> Value {
    let mut steps = timeless(steps);
    for step in steps.as_array_mut().unwrap() {
        match step["name"].as_str().unwrap() {
            "session" | "automation" | "spf" => *step = json!({ "name": step["name"] }),
            "dmarc" => {
                step["inputs"]["spf"] = Value::Null;
                step["inputs"]["spfDomain"] = Value::Null;
            }
            _ => {}
        }
    }
    steps
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
    process::keep(&["check"], &output);
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
        let mut answer = scene.record().await;
        let record = &answer["intake"];
        assert_eq!((&record["verdict"], &record["reason"]), (&json!(verdict), &reason), "{name}");
        let message = scene.file(&format!("{name}.eml"), &raw);
        let kept = scene.file(&format!("{name}.json"), answer.to_string());
        if name == "chain" {
            // Where the signature failed, the trusted sealer's report takes its place.
            let arc = step(&mut answer["intake"], "arc");
            assert_eq!(arc["inputs"]["standsIn"], true, "{arc:#}");
            assert_eq!(arc["result"], "pass");
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

/// Proves that a DMARC record that decided is kept in the intake record, whatever is published
/// later.
#[tokio::test(flavor = "multi_thread")]
async fn what_dmarc_decided_is_decided_again_whatever_is_published_now() {
    let scene = Scene::new().await;
    for (name, rcode, policy, verdict, reason) in [
        ("strict", "NOERROR", "v=DMARC1; p=none; adkim=s", "refused", json!("dkim_unaligned")),
        ("down", "SERVFAIL", "", "deferred", json!("dns_unavailable")),
        ("relaxed", "NOERROR", "v=DMARC1; p=none", "accepted", Value::Null),
    ] {
        let from = format!("boss@{name}.test.example");
        let signer = format!("mail.{name}.test.example");
        let signer = Signer::new(Key::generate_ed25519().unwrap(), &signer, "s1");
        let (at, record) = (signer.key_name(), format!("_dmarc.{name}.test.example"));
        scene.gateway.dns.change(|zone| {
            zone.insert(&at, "TXT", "NOERROR", &signer.key().txt_record().unwrap()).unwrap();
            zone.insert(&record, "TXT", rcode, policy).unwrap();
        });
        let letter = letter_between(&from, "open@agents.example", name);
        let raw = signer.sign(letter.as_bytes()).unwrap();
        scene.gateway.send(&from, &["open@agents.example"], &raw).await;
        let kept = scene.record().await["intake"].clone();
        assert_eq!((&kept["verdict"], &kept["reason"]), (&json!(verdict), &reason), "{kept:#}");
        scene.gateway.dns.change(|zone| {
            zone.remove(&at, "TXT").unwrap();
            zone.remove(&record, "TXT").unwrap();
        });
        let message = scene.file("dmarc.eml", &raw);
        let (code, then) = scene.again(&message, &kept).await;
        assert_eq!((code, &then["reason"]), (Some(0), &reason), "{name}: {then:#}");
        // Without what it says nobody would be forbidden anything.
        let mut other = kept.clone();
        step(&mut other, "dmarc")["dns"] = json!([]);
        let (code, then) = scene.again(&message, &other).await;
        assert_eq!((code, &then["verdict"]), (Some(1), &json!("accepted")), "{name}: {then:#}");
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
        (counted.to_string(), "was not read in full"),
        (json!({ "intake": counted["intake"]["id"] }).to_string(), "record as a JSON object"),
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

/// The step of this name.
fn step<'r>(record: &'r mut Value, name: &str) -> &'r mut Value {
    let mut steps = record["steps"].as_array_mut().unwrap().iter_mut();
    steps.find(|step| step["name"] == name).unwrap()
}

/// Joins the texts of `list` in an answer.
fn words(answer: &Value, list: &str) -> String {
    let lines = answer[list].as_array().unwrap().iter();
    lines.map(|line| line.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn facts_are_compared_and_rules_are_named() {
    let scene = Scene::new().await;
    let raw = signed("facts");
    assert!(scene.gateway.send(FROM, &["support@agents.example"], &raw).await.accepted());
    let record = scene.record().await["intake"].clone();
    let message = scene.file("message.eml", &raw);
    let (code, same) = scene.again(&message, &record).await;
    assert_eq!((code, &same["truncated"]), (Some(0), &json!(false)), "{same:#}");
    for list in ["differences", "excused", "rules", "given"] {
        assert_eq!(same[list], json!([]), "{list}");
    }
    // Another signature than the one that wins now; another cause, another sealer.
    for (name, input, value, expected) in [
        ("dkim", "signatures", json!([]), "the signature that authenticates was null"),
        ("alignment", "causes", json!(["x"]), "causes of step alignment was [\"x\"], is []"),
        ("alignment", "signer", json!("x"), "signer of step alignment was"),
        ("alignment", "selector", json!("x"), "selector of step alignment was"),
        ("arc", "sealer", json!("x"), "sealer of step arc was"),
    ] {
        let mut other = record.clone();
        step(&mut other, name)["inputs"][input] = value;
        let (code, said) = scene.again(&message, &other).await;
        assert_eq!(code, Some(1), "{input}: {said:#}");
        assert!(words(&said, "differences").contains(expected), "{input}: {said:#}");
    }
    // A rule that is another one now is no other verdict; nor is what was cut.
    let mut other = record.clone();
    step(&mut other, "dkim")["inputs"]["minRsaBits"] = json!(512);
    step(&mut other, "alignment")["inputs"]["rule"] = json!("strict");
    step(&mut other, "dkim")["dns"][0]["truncated"] = json!(true);
    let (code, said) = scene.again(&message, &other).await;
    assert_eq!((code, &said["truncated"]), (Some(0), &json!(true)), "{said:#}");
    let rules = words(&said, "rules");
    assert!(rules.contains("minRsaBits of step dkim was 512, is 1024"), "{rules}");
    assert!(rules.contains("rule of step alignment was \"strict\""), "{rules}");
    scene.gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_contradicts_a_key_excuses_what_decides_nothing() {
    let scene = Scene::new().await;
    let raw = std::fs::read(fixture("mail/refused/dkim_failed/arc_of_untrusted_list.eml")).unwrap();
    assert!(scene.gateway.send(FROM, &["open@agents.example"], &raw).await.accepted());
    let mut record = scene.record().await["intake"].clone();
    let message = scene.file("message.eml", &raw);
    let failure = "temporary failure: timeout";
    for (name, key) in [("spf", "s1._domainkey.list.example"), ("iprev", KEY)] {
        let before = record.clone();
        step(&mut record, name)["result"] = json!("temperror");
        let (code, said) = scene.again(&message, &record).await;
        assert_eq!(code, Some(1), "{said:#}");
        assert!(words(&said, "differences").contains(&format!("step {name} was")), "{said:#}");
        // In front of all the others.
        let answer = json!({ "name": key, "type": "TXT", "ttl": null, "answer": failure });
        step(&mut record, name)["dns"].as_array_mut().unwrap().insert(0, answer);
        let (code, said) = scene.again(&message, &record).await;
        assert_eq!((code, &said["same"]), (Some(0), &json!(true)), "{said:#}");
        let excused = words(&said, "excused");
        let expected = format!("{name} had another answer to TXT {key} than ");
        assert!(excused.contains(&expected), "{excused}");
        record = before;
    }
    scene.gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_is_taken_from_the_record() {
    let scene = Scene::new().await;
    let to = ["support@agents.example"];
    let raw = signed("round");
    assert!(scene.gateway.send(FROM, &to, &raw).await.accepted());
    let marker = &scene.gateway.messages().await[0]["metadata"]["emailDeliveryMarker"];
    let field = ["name", "value"].map(|part| marker[part].as_str().unwrap()).join(": ");
    let back = [format!("{field}\r\n").as_bytes(), &raw].concat();
    let replies = scene.gateway.send(FROM, &to, &back).await;
    assert!(replies.settling().starts_with("554 5.4.6"), "{}", replies.settling());
    let mut record = scene.record().await["intake"].clone();
    let message = scene.file("back.eml", &back);
    let (code, said) = scene.again(&message, &record).await;
    assert_eq!((code, &said["reason"]), (Some(0), &json!("loop_detected")), "{said:#}");
    assert_eq!(said["given"], json!(["loop"]));
    // Nothing of the step but its result is read.
    step(&mut record, "loop")["inputs"] = json!({ "field": "", "address": "" });
    assert_eq!(scene.again(&message, &record).await.0, Some(0));
    step(&mut record, "loop")["result"] = json!("pass");
    let (code, said) = scene.again(&message, &record).await;
    assert_eq!((code, &said["verdict"]), (Some(1), &json!("accepted")), "{said:#}");
    scene.gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_is_not_recomputed_and_all_the_rest_is() {
    let scene = Scene::with("[rates]\nroom_messages_per_minute = 1\n").await;
    let to = ["support@agents.example"];
    assert!(scene.gateway.send(FROM, &to, &signed("first")).await.accepted());
    let raw = signed("second");
    let replies = scene.gateway.send(FROM, &to, &raw).await;
    assert!(replies.settling().starts_with("450 4.2.1"), "{}", replies.settling());
    let mut record = scene.record().await["intake"].clone();
    let message = scene.file("second.eml", &raw);
    let (code, said) = scene.again(&message, &record).await;
    assert_eq!((code, &said["reason"]), (Some(0), &json!("rate_limited")), "{said:#}");
    assert_eq!(said["given"], json!(["rates"]));
    let kept = scene.file("kept.json", record.to_string());
    let (_, said) = scene.check(&message, &["--record", kept.to_str().unwrap()]).await;
    assert!(said.contains("\nThe rate is not recomputed"), "{said}");
    step(&mut record, "policy")["inputs"]["listed"] = json!(false);
    let (code, said) = scene.again(&message, &record).await;
    assert_eq!((code, &said["reason"]), (Some(1), &json!("sender_not_allowed")), "{said:#}");
    assert!(words(&said, "differences").contains("step rates was"), "{said:#}");
    scene.gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_application_said_is_taken_from_the_record() {
    let scene = Scene::with("").await;
    let receiver = Receiver::start(run::system_mint().clock().clone()).await.unwrap();
    let relay = json!({ "url": receiver.url("/a") });
    let (status, _) = scene.gateway.request("POST", "/webhookRelay/smtp", Some(relay)).await;
    assert_eq!(status, 200);
    let refused: Value = "relay_refused".into();
    for (answer, reason) in [(200, Value::Null), (406, refused), (500, "relay_unavailable".into())]
    {
        receiver.script([Reply::status(answer)]);
        let raw = signed(&format!("answered {answer}"));
        drop(scene.gateway.send(FROM, &["support@agents.example"], &raw).await);
        let record = scene.record().await["intake"].clone();
        assert_eq!(record["reason"], reason);
        let message = scene.file("asked.eml", &raw);
        let (code, said) = scene.again(&message, &record).await;
        assert_eq!((code, &said["reason"]), (Some(0), &reason), "{said:#}");
        assert_eq!(said["given"], json!(["relay"]));
    }
    scene.gateway.finish().await;
}
