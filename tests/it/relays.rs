//! Relays of type `smtp` (contract §6): what an application is asked, what its answer means for mail
//! that arrived over SMTP, and what nothing waits for meanwhile.

use gatepost::run;
use gatepost::testkit::receiver::{Receiver, Reply};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::support::{PATIENCE, TestGateway, canary, signed};

const RELAY: &str = "/webhookRelay/smtp";
const FROM: &str = "alice@good.example";
const OPEN: &str = "open@agents.example";
/// As long as an account may name: what is held answers before. Milliseconds.
const LONG: u64 = 30_000;

async fn receiver() -> Receiver {
    Receiver::start(run::system_mint().clock().clone()).await.unwrap()
}

/// Sets the relay of the organization, or of the account that `path` names.
async fn set(gateway: &TestGateway, path: &str, body: Value) -> Value {
    let (status, answer) = gateway.request("POST", path, Some(body)).await;
    assert_eq!(status, 200, "{answer}");
    if let Some(secret) = answer["secret"].as_str() {
        canary::note(secret.as_bytes());
    }
    answer
}

async fn of_agent(gateway: &TestGateway, name: &str) -> String {
    format!("{RELAY}?targetAccountId={}", gateway.house.agents[name].id)
}

/// The reply to a message of its own.
async fn reply(gateway: &TestGateway, subject: &str) -> String {
    gateway.send(FROM, &[OPEN], &signed(subject)).await.settling().to_owned()
}

/// The newest record, whole.
async fn newest(gateway: &TestGateway) -> Value {
    let list = gateway.get("/email/intake?limit=1").await;
    let id = list["intake"][0]["id"].as_str().unwrap().to_owned();
    gateway.get(&format!("/email/intake/{id}")).await["intake"].clone()
}

/// The attempts that are shown, the newest first, once there are so many: they are written beside
/// the answers.
async fn attempts(gateway: &TestGateway, count: usize) -> Vec<Value> {
    let shown = async {
        loop {
            let config = gateway.get(RELAY).await["config"].clone();
            let shown = config["attempts"].as_array().unwrap().clone();
            if shown.len() >= count {
                return shown;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, shown).await.unwrap()
}

fn relay_step(record: &Value) -> Option<Value> {
    let steps = record["steps"].as_array().unwrap();
    steps.iter().find(|step| step["name"] == "relay").cloned()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_answer_is_a_verdict() {
    each_answer_of(TestGateway::start().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_answer_is_a_verdict_on_postgres() {
    each_answer_of(TestGateway::on_postgres().await).await;
}

async fn each_answer_of(gateway: TestGateway) {
    let receiver = receiver().await;
    let own = json!({ "url": receiver.url("/a"), "successStatusCodes": [299, 404] });
    let default = json!({ "url": receiver.url("/a"), "successStatusCodes": [] });
    let mut stored = 0;
    for (number, (config, status, expected)) in [
        (&default, 200, "250"),
        (&default, 204, "250"),
        (&default, 406, "550 5.7.1"),
        (&default, 500, "451 4.4.1"),
        (&default, 404, "451 4.4.1"),
        (&default, 302, "451 4.4.1"),
        (&own, 404, "250"),
        (&own, 200, "451 4.4.1"),
        (&own, 406, "550 5.7.1"),
    ]
    .into_iter()
    .enumerate()
    {
        set(&gateway, RELAY, config.clone()).await;
        receiver.script([Reply::status(status).header("location", "http://127.0.0.1:1/")]);
        let case = format!("{status} {config}");
        let reply = reply(&gateway, &case).await;
        assert!(reply.starts_with(expected), "{case}: {reply}");
        let (verdict, reason, outcome) = match &expected[..3] {
            "250" => ("accepted", Value::Null, "passed"),
            "550" => ("refused", "relay_refused".into(), "refused"),
            _ => ("deferred", "relay_unavailable".into(), "deferred"),
        };
        stored += usize::from(verdict == "accepted");
        assert_eq!(gateway.messages().await.len(), stored, "{case}");
        let record = newest(&gateway).await;
        assert_eq!((&record["verdict"], &record["reason"]), (&verdict.into(), &reason), "{case}");
        let step = relay_step(&record).unwrap();
        assert_eq!(step["result"], outcome, "{case}");
        assert!(step["micros"].as_u64().unwrap() > 0 && step["inputs"]["relay"].is_string());
        let attempts = attempts(&gateway, number + 1).await;
        assert!(!gateway.get(RELAY).await.to_string().contains("whsec_"));
        let newest = &attempts[0];
        assert_eq!((&newest["status"], &newest["outcome"]), (&status.into(), &outcome.into()));
    }
    // Events are of what was stored.
    gateway.receiver.wait_for(stored, PATIENCE).await.unwrap();
    assert_eq!(receiver.received().len(), 9);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_answer_in_time_or_not_at_all_defers() {
    let gateway = TestGateway::start().await;
    let receiver = receiver().await;
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for (number, (url, answer, told)) in [
        (
            receiver.url("/a"),
            Some(Reply::status(200).drip_head(PATIENCE)),
            "no answer came in time",
        ),
        (receiver.url("/a"), Some(Reply::hangup()), "before the answer was complete"),
        (format!("http://{gone}/"), None, "no connection could be made"),
    ]
    .into_iter()
    .enumerate()
    {
        receiver.script(answer);
        set(&gateway, RELAY, json!({ "url": url, "timeout": 300 })).await;
        let reply = reply(&gateway, told).await;
        assert!(reply.starts_with("451 4.4.1"), "{told}: {reply}");
        let attempt = attempts(&gateway, number + 1).await.remove(0);
        assert_eq!((&attempt["status"], &attempt["outcome"]), (&Value::Null, &"deferred".into()));
        assert!(attempt["error"].as_str().unwrap().contains(told), "{attempt}");
        assert!(newest(&gateway).await["explanation"].as_str().unwrap().contains(told));
    }
    assert!(gateway.messages().await.is_empty());
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_gets_the_message_as_it_came_with_our_signature() {
    let gateway = TestGateway::start().await;
    let receiver = receiver().await;
    let headers = json!([{ "Authorization": "Bearer xyz" }, { "X-Customer-ID": "abc123" }]);
    let made =
        set(&gateway, RELAY, json!({ "url": receiver.url("/in?a=b"), "headers": headers })).await;
    let raw = signed("as it came");
    let replies = gateway.send("bounce@good.example", &["Open+tag@agents.example"], &raw).await;
    assert!(replies.accepted(), "{replies:?}");
    let received = receiver.received().remove(0);
    assert_eq!((received.path.as_str(), received.body.as_slice()), ("/in?a=b", raw.as_slice()));
    let agent = gateway.house.agents["open"].id.to_string();
    for (name, value) in [
        ("content-type", "message/rfc822"),
        ("authorization", "Bearer xyz"),
        ("x-customer-id", "abc123"),
        ("x-gatepost-mail-from", "<bounce@good.example>"),
        ("x-gatepost-rcpt-to", "<Open+tag@agents.example>"),
        ("x-gatepost-recipient", OPEN),
        ("x-gatepost-sender", FROM),
        ("x-gatepost-client-address", "127.0.0.1"),
        ("x-gatepost-helo", "client.example"),
        ("x-gatepost-relay", "smtp"),
        ("x-gatepost-account", &agent),
        ("x-gatepost-loop", "1"),
    ] {
        assert_eq!(received.headers.get(name).map(String::as_str), Some(value), "{name}");
    }
    let secret = standardwebhooks::Webhook::new(made["secret"].as_str().unwrap()).unwrap();
    let mut signed = HeaderMap::new();
    for (name, value) in &received.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        signed.insert(name, HeaderValue::from_str(value).unwrap());
    }
    secret.verify(&received.body, &signed).unwrap();
    secret.verify(b"another message", &signed).unwrap_err();
    let attempt = attempts(&gateway, 1).await.remove(0);
    assert_eq!(attempt["id"], received.headers["webhook-id"].as_str());
    // A change keeps the secret, and shows it no more.
    let changed = set(&gateway, RELAY, json!({ "url": receiver.url("/b") })).await;
    assert_eq!(changed.get("secret"), None);
    reply(&gateway, "after the change").await;
    let second = receiver.received().remove(1);
    assert_eq!(second.headers["authorization"], "Bearer xyz");
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_admitted_or_came_before_is_not_asked_about() {
    let gateway = TestGateway::start().await;
    let receiver = receiver().await;
    set(&gateway, RELAY, json!({ "url": receiver.url("/a") })).await;
    let raw = signed("once");
    assert!(gateway.send(FROM, &[OPEN], &raw).await.accepted());
    assert!(gateway.send(FROM, &[OPEN], &raw).await.accepted());
    assert_eq!(receiver.received().len(), 1);
    // Refused by the policy, and not authenticated.
    let closed = gateway.send(FROM, &["closed@agents.example"], &signed("closed")).await;
    assert!(closed.settling().starts_with("550 5.7.1"), "{closed:?}");
    let plain = b"From: alice@good.example\r\nSubject: x\r\n\r\nHello\r\n";
    let unsigned = gateway.send(FROM, &[OPEN], plain).await;
    assert!(unsigned.settling().starts_with("550 5.7.20"), "{unsigned:?}");
    assert_eq!(receiver.received().len(), 1);
    assert_eq!(gateway.messages().await.len(), 1);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nearest_relay_is_asked_and_each_recipient_alone() {
    let gateway = TestGateway::start().await;
    let (above, own) = (receiver().await, receiver().await);
    let both = [OPEN, "open2@agents.example"];
    let shared = gateway.send(FROM, &both, &signed("shared")).await;
    assert!(shared.recipients.iter().all(|reply| reply.starts_with("250")), "{shared:?}");
    // Its own relay alone keeps an Agent apart.
    let path = of_agent(&gateway, "open").await;
    set(&gateway, &path, json!({ "url": own.url("/own") })).await;
    let apart = gateway.send(FROM, &both, &signed("apart")).await;
    assert!(apart.recipients[1].starts_with("452 4.5.3"), "{apart:?}");
    set(&gateway, RELAY, json!({ "url": above.url("/above") })).await;
    let apart = gateway.send(FROM, &both, &signed("apart again")).await;
    assert!(apart.recipients[1].starts_with("452 4.5.3"), "{apart:?}");
    assert_eq!((own.received().len(), above.received().len()), (2, 0));
    assert!(gateway.send(FROM, &both[1..], &signed("of the other")).await.accepted());
    assert_eq!((own.received().len(), above.received().len()), (2, 1));
    // Without its own, the one above counts; without any, they share again.
    assert_eq!(gateway.request("DELETE", &path, None).await.0, 200);
    assert!(reply(&gateway, "inherited").await.starts_with("250"));
    assert_eq!((own.received().len(), above.received().len()), (2, 2));
    assert_eq!(gateway.request("DELETE", RELAY, None).await.0, 200);
    assert_eq!(gateway.request("DELETE", RELAY, None).await.0, 404);
    let shared = gateway.send(FROM, &both, &signed("shared again")).await;
    assert!(shared.recipients.iter().all(|reply| reply.starts_with("250")), "{shared:?}");
    assert_eq!((own.received().len(), above.received().len()), (2, 2));
    gateway.finish().await;
}

/// An application that answers 200 when it is told to; says when it has been asked.
async fn held() -> (String, oneshot::Receiver<()>, oneshot::Sender<()>) {
    held_with(200).await
}

/// An application that answers with this status when it is told to; says when it has been asked.
async fn held_with(status: u16) -> (String, oneshot::Receiver<()>, oneshot::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/held", listener.local_addr().unwrap());
    let ((asking, asked), (answer, told)) = (oneshot::channel(), oneshot::channel());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"The end.\r\n") {
            assert!(stream.read_buf(&mut request).await.unwrap() > 0);
        }
        asking.send(()).unwrap();
        told.await.unwrap();
        let head = format!("HTTP/1.1 {status} Said\r\ncontent-length: 0\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
    });
    (url, asked, answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_waits_for_it_and_its_word_does_not_count_once_it_is_deleted() {
    deleted_meanwhile(TestGateway::start().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_waits_for_it_on_postgres_either() {
    deleted_meanwhile(TestGateway::on_postgres().await).await;
}

async fn deleted_meanwhile(gateway: TestGateway) {
    let path = of_agent(&gateway, "open").await;
    for (number, status) in [200, 406, 503].into_iter().enumerate() {
        let (url, asked, answer) = held_with(status).await;
        set(&gateway, &path, json!({ "url": url, "timeout": LONG })).await;
        let raw = ending(&format!("held for {status}"));
        let sending = gateway.send(FROM, &[OPEN], &raw);
        let meanwhile = async {
            timeout(PATIENCE, asked).await.unwrap().unwrap();
            // No transaction is open: others write, on SQLite too, and so does whoever deletes it.
            let of_another = signed(&format!("of another, {status}"));
            let other = gateway.send(FROM, &["open2@agents.example"], &of_another).await;
            assert!(other.accepted(), "{other:?}");
            assert_eq!(gateway.messages().await.len(), 2 * number + 1);
            assert_eq!(gateway.request("DELETE", &path, None).await.0, 200);
            answer.send(()).unwrap();
        };
        let (replies, ()) = tokio::join!(sending, meanwhile);
        // Decided again, without it.
        assert!(replies.accepted(), "{status}: {replies:?}");
        let record = newest(&gateway).await;
        let told = (&record["verdict"], relay_step(&record));
        assert_eq!(told, (&"accepted".into(), None), "{status}: {record}");
        assert_eq!(gateway.messages().await.len(), 2 * (number + 1));
    }
    gateway.finish().await;
}

/// A message with the end that [`held`] waits for.
fn ending(subject: &str) -> Vec<u8> {
    let letter = format!("{}\r\nThe end.\r\n", crate::support::letter(subject).trim_end());
    crate::support::signer().sign(letter.as_bytes()).unwrap()
}

/// The sending server waits for two answers at most, however often the relay is changed meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn of_a_relay_that_is_changed_again_and_again_two_are_asked() {
    let gateway = TestGateway::start().await;
    let last = receiver().await;
    let (first, first_asked, first_answer) = held_with(406).await;
    let (second, second_asked, second_answer) = held_with(406).await;
    set(&gateway, RELAY, json!({ "url": first, "timeout": LONG })).await;
    let raw = ending("changed twice");
    let meanwhile = async {
        timeout(PATIENCE, first_asked).await.unwrap().unwrap();
        set(&gateway, RELAY, json!({ "url": second, "timeout": LONG })).await;
        first_answer.send(()).unwrap();
        timeout(PATIENCE, second_asked).await.unwrap().unwrap();
        set(&gateway, RELAY, json!({ "url": last.url("/last") })).await;
        second_answer.send(()).unwrap();
    };
    let (replies, ()) = tokio::join!(gateway.send(FROM, &[OPEN], &raw), meanwhile);
    assert!(replies.settling().starts_with("451 4.4.1"), "{replies:?}");
    assert_eq!(last.received().len(), 0);
    // Its next try is another message: the one that is there now is asked.
    assert!(gateway.send(FROM, &[OPEN], &raw).await.accepted());
    assert_eq!((last.received().len(), gateway.messages().await.len()), (1, 1));
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_let_pass_is_not_asked_about_twice_and_a_changed_one_is() {
    let gateway = TestGateway::start().await;
    let second = receiver().await;
    let (url, asked, answer) = held().await;
    set(&gateway, RELAY, json!({ "url": url, "timeout": LONG })).await;
    let raw = ending("held");
    let agent = gateway.house.agents["open"].id;
    let meanwhile = async {
        timeout(PATIENCE, asked).await.unwrap().unwrap();
        // The policy changes under it: the message is decided again by what it said once.
        let body = json!({ "email": "someone@good.example" });
        let list = format!("/email/inboundWhitelist?targetAccountId={agent}");
        assert_eq!(gateway.request("POST", &list, Some(body)).await.0, 200);
        answer.send(()).unwrap();
    };
    let (replies, ()) = tokio::join!(gateway.send(FROM, &[OPEN], &raw), meanwhile);
    assert!(replies.accepted(), "{replies:?}");
    let step = relay_step(&newest(&gateway).await).unwrap();
    assert_eq!(step["result"], "passed");
    // Another application takes its place while it is asked: that one is asked, too.
    let (url, asked, answer) = held().await;
    set(&gateway, RELAY, json!({ "url": url, "timeout": LONG })).await;
    let raw = ending("held again");
    second.script([Reply::status(406)]);
    let meanwhile = async {
        timeout(PATIENCE, asked).await.unwrap().unwrap();
        set(&gateway, RELAY, json!({ "url": second.url("/new") })).await;
        answer.send(()).unwrap();
    };
    let (replies, ()) = tokio::join!(gateway.send(FROM, &[OPEN], &raw), meanwhile);
    assert!(replies.settling().starts_with("550 5.7.1"), "{replies:?}");
    assert_eq!((second.received().len(), gateway.messages().await.len()), (1, 1));
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_one_takes_no_more_than_its_places() {
    let few = ("relays.toml", "[forward]\nmax_at_once_per_relay = 1\n");
    let gateway = TestGateway::with_rules(&[few]).await;
    let (url, asked, answer) = held().await;
    set(&gateway, RELAY, json!({ "url": url, "timeout": LONG })).await;
    let raw = ending("held");
    let meanwhile = async {
        timeout(PATIENCE, asked).await.unwrap().unwrap();
        let told = reply(&gateway, "one too many").await;
        assert!(told.starts_with("451 4.4.1"), "{told}");
        answer.send(()).unwrap();
    };
    let (replies, ()) = tokio::join!(gateway.send(FROM, &[OPEN], &raw), meanwhile);
    assert!(replies.accepted(), "{replies:?}");
    // The message that the relay was not asked about left no attempt: it would stand before this
    // one.
    let attempts = attempts(&gateway, 1).await;
    assert_eq!((attempts.len(), &attempts[0]["status"]), (1, &json!(200)));
    gateway.finish().await;
}

/// Each Agent of a customer may have a slow one: together they have the places of their organization.
#[tokio::test(flavor = "multi_thread")]
async fn the_applications_of_one_organization_share_its_places() {
    let few = ("relays.toml", "[forward]\nmax_at_once_per_organization = 1\n");
    let gateway = TestGateway::with_rules(&[few]).await;
    let other = receiver().await;
    let (url, asked, answer) = held().await;
    let path = of_agent(&gateway, "open").await;
    set(&gateway, &path, json!({ "url": url, "timeout": LONG })).await;
    set(&gateway, RELAY, json!({ "url": other.url("/a") })).await;
    let raw = ending("held");
    let to = ["open2@agents.example"];
    let meanwhile = async {
        timeout(PATIENCE, asked).await.unwrap().unwrap();
        let told = gateway.send(FROM, &to, &signed("one too many")).await;
        assert!(told.settling().starts_with("451 4.4.1"), "{told:?}");
        assert_eq!(other.received().len(), 0);
        answer.send(()).unwrap();
    };
    let (replies, ()) = tokio::join!(gateway.send(FROM, &[OPEN], &raw), meanwhile);
    assert!(replies.accepted(), "{replies:?}");
    assert!(gateway.send(FROM, &to, &signed("now there is one")).await.accepted());
    assert_eq!(other.received().len(), 1);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_are_kept_up_to_a_number() {
    let gateway = TestGateway::with_rules(&[("relays.toml", "[attempts]\nkept = 2\n")]).await;
    let receiver = receiver().await;
    set(&gateway, RELAY, json!({ "url": receiver.url("/a") })).await;
    receiver.script([200, 500, 406].map(Reply::status));
    for number in 0..3 {
        reply(&gateway, &format!("number {number}")).await;
    }
    let newest = async {
        while gateway.count("SELECT COUNT(*) FROM relay_attempts WHERE status = 406").await == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, newest).await.unwrap();
    let attempts = attempts(&gateway, 2).await;
    let statuses: Vec<_> = attempts.iter().map(|one| &one["status"]).collect();
    assert_eq!(statuses, [406, 500]);
    assert_eq!(gateway.count("SELECT COUNT(*) FROM relay_attempts").await, 2);
    assert!(Duration::from_millis(attempts[0]["latencyMs"].as_u64().unwrap()) < PATIENCE);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_relay_leads_back_to_the_gateway() {
    let gateway = TestGateway::start().await;
    let own = json!({ "url": "https://mx.agents.example/inbound" });
    let (status, told) = gateway.request("POST", RELAY, Some(own)).await;
    assert_eq!(status, 400, "{told}");
    assert!(told["detail"].as_str().unwrap().contains("leads back to this gateway"), "{told}");
    // By another name it gets there, and is known by what it bears: no message goes round.
    let round = format!("http://{}/api/v2/account?token=none", gateway.http);
    set(&gateway, RELAY, json!({ "url": round })).await;
    let told = reply(&gateway, "round").await;
    assert!(told.starts_with("451 4.4.1"), "{told}");
    let attempts = attempts(&gateway, 1).await;
    assert_eq!((attempts.len(), &attempts[0]["status"]), (1, &json!(508)));
    gateway.finish().await;
}
