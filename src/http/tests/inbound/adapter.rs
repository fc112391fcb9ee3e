//! Records of an account's own adapter (relay type `json`): taken in as `receiveMessage` takes them,
//! once, by its signature alone (threats H14, H15). The published crate signs.

use std::time::Duration;

use serde_json::{Value, json};

use crate::domain::clock::Timestamp;
use crate::http::tests::inbound::{Post, step};
use crate::http::tests::{House, NOBODY, Reply, canary};
use crate::testkit::provider::Posting;

const JSON: &str = "/webhookRelay/json";

/// The way in of an adapter.
struct Way {
    path: String,
    secret: String,
}

/// Makes or rotates the way in of this account.
async fn open(house: &House, account: &str) -> Way {
    let rotate = json!({ "rotateInboundKey": true });
    let made = house.call(account, "POST", JSON, Some(&rotate)).await.success(200);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let way = Way { path: text(&made["config"]["inboundUrl"]), secret: text(&made["secret"]) };
    for secret in [&way.path, &way.secret] {
        canary::note(secret.as_bytes());
    }
    way
}

impl Way {
    fn sign(&self, id: &str, at: Timestamp, body: &str) -> Posting {
        let library = standardwebhooks::Webhook::new(&self.secret).unwrap();
        let signature = library.sign(id, at.seconds(), body.as_bytes()).unwrap();
        let plain = Posting { headers: Vec::new(), body: body.as_bytes().to_vec() };
        plain
            .with("Content-Type", "application/json")
            .with("webhook-id", id)
            .with("webhook-timestamp", &at.seconds().to_string())
            .with("webhook-signature", &signature)
    }

    async fn post(&self, post: &Post, id: &str, body: &Value) -> Reply {
        post.send(&self.path, &self.sign(id, post.now(), &body.to_string())).await
    }
}

/// A call with all that one may have.
fn call(post: &Post) -> Value {
    json!({
        "targetAgent": post.house.id("agent1").get(), "source": "call",
        "sourceAddress": "+1 555 123 1234", "toNumber": "+15559876543", "message": "",
        "name": "Anna", "duration": 61, "missedCall": true, "threadId": "t",
        "callDialog": [{ "role": "user", "content": "Hi" }], "metadata": { "key": "value" },
        "summary": "Wants a call.", "agentOutcome": "voicemail", "aiLeadRating": 80,
    })
}

fn with(body: &Value, name: &str, value: Value) -> Value {
    let mut body = body.clone();
    body[name] = value;
    body
}

/// The records of refusals, which are counted.
async fn refusals(post: &Post) -> Vec<Value> {
    let path = "/email/intake?verdict=refused&limit=200";
    let list = post.house.get("org1", path).await.success(200);
    list["intake"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_adapter_signs_is_taken_in_as_by_a_key() {
    let post = Post::open().await;
    let way = open(&post.house, "org1").await;
    let answer = way.post(&post, "msg_1", &call(&post)).await.success(200);
    let record = post.record().await;
    let by_key = post.house.post("org1", "/agent/receiveMessage", call(&post)).await.success(200);
    assert_eq!(answer["message"], by_key["message"]);
    assert_eq!(answer["roomId"], by_key["roomId"], "one contact");

    let messages = post.house.get("agent1", "/messages/recent").await.json();
    let (other, own) = (messages[0].as_object().unwrap(), messages[1].as_object().unwrap());
    assert_eq!(own["uuid"], answer["messageUuid"]);
    for (name, value) in own {
        let differs = ["uuid", "timestamp", "date", "metadata"].contains(&name.as_str());
        assert!(differs || other[name] == *value, "{name}: {value} and {}", other[name]);
    }
    assert_eq!((&own["source"], &own["duration"]), (&json!("call"), &json!(61)));
    let raw = own["metadata"]["receivedRawUrl"].as_str().unwrap().strip_prefix("/api/v2");
    let mut sent = call(&post);
    sent.as_object_mut().unwrap().remove("targetAgent");
    assert_eq!(post.house.get("agent1", raw.unwrap()).await.json(), sent);

    assert_eq!((&record["source"], &record["verdict"]), (&json!("call"), &json!("accepted")));
    assert_eq!(record["messageUuid"], answer["messageUuid"]);
    let proof = json!({
        "provider": "json", "proof": "a signature of Standard Webhooks over the whole request",
        "relayed": false,
    });
    assert_eq!(step(&record, "provider")["inputs"], proof);
    let account = json!({ "accountId": post.house.id("org1").get(), "source": "call" });
    assert_eq!(step(&record, "receiveMessage")["inputs"], account);
    let told = record["explanation"].as_str().unwrap();
    assert!(told.contains("by the adapter (relay type json) of account"), "{told}");
    let events = post.house.get("agent1", "/events?limit=200").await.success(200);
    assert!(events.to_string().matches("message.received").count() >= 2, "{events}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_id_is_taken_in_once_and_answered_each_time() {
    let post = Post::open().await;
    let way = open(&post.house, "org1").await;
    let first = way.post(&post, "msg_1", &call(&post)).await;
    assert!(!first.headers.contains_key("idempotency-replayed"));
    // Each attempt is signed anew, at its own time.
    let again = way.post(&post, "msg_1", &call(&post)).await;
    assert_eq!(first.success(200), again.success(200));
    assert_eq!(again.headers["idempotency-replayed"], "true");
    let other = with(&call(&post), "summary", json!("Another."));
    way.post(&post, "msg_1", &other).await.problem(409, "conflict", "webhook-id");
    assert_eq!(post.messages().await, 1);
    // An id is of its way in, and so is that of an API key.
    let below = open(&post.house, "agent1").await;
    assert_ne!(below.post(&post, "msg_1", &call(&post)).await.success(200), first.json());
    let body = call(&post).to_string();
    let path = ("POST", "/agent/receiveMessage");
    let by_key = post.house.exact("org1", path, "Idempotency-Key: msg_1\r\n", Some(&body)).await;
    assert_ne!(by_key.success(200), first.json());
    assert_eq!(post.messages().await, 3);
    // Many at once: one is stored, and who comes while it is under way is told to look again.
    let body = call(&post);
    let all = (0..8).map(|_| way.post(&post, "msg_2", &body));
    let all = futures_util::future::join_all(all).await;
    assert!(all.iter().any(|reply| reply.status == 200));
    assert!(all.iter().all(|reply| [200, 409].contains(&reply.status)));
    assert_eq!(post.messages().await, 4);
    way.post(&post, "msg_2", &body).await.success(200);
    assert_eq!(post.messages().await, 4);
}

/// Its message is stored, so no record may say that it was refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_whose_answer_was_not_kept_is_no_refusal() {
    let post = Post::open().await;
    let way = open(&post.house, "org1").await;
    way.post(&post, "msg_1", &call(&post)).await.success(200);
    let lose = "UPDATE idempotency_keys SET answer = NULL";
    let lost = sqlx::query(lose).execute(&mut post.house.database().await).await.unwrap();
    assert_eq!(lost.rows_affected(), 1);
    way.post(&post, "msg_1", &call(&post)).await.problem(409, "conflict", "check the result");
    assert_eq!(refusals(&post).await, [json!(null); 0]);
    let other = with(&call(&post), "summary", json!("Another."));
    way.post(&post, "msg_1", &other).await.problem(409, "conflict", "another request");
    assert_eq!(refusals(&post).await.len(), 1);
    assert_eq!(post.messages().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_adapter_did_not_sign_is_nobodys() {
    let post = Post::with("[limits]\nmax_body_bytes = 4096\nmax_drained_bytes = 0\n").await;
    let way = open(&post.house, "org1").await;
    let foreign = open(&post.house, "org2").await;
    let (now, body) = (post.now(), call(&post).to_string());
    let genuine = way.sign("msg_1", now, &body);
    let without = |name: &str| {
        let mut posting = genuine.clone();
        posting.headers.retain(|(known, _)| known != name);
        posting
    };
    let forged = |name: &str, value: &str| without(name).with(name, value);
    let changed = Posting { body: body.replace("61", "62").into_bytes(), ..genuine.clone() };
    let seconds = |seconds: u64| Duration::from_secs(seconds);
    for (posting, words) in [
        (without("webhook-signature"), "is not signed: send webhook-id"),
        (without("webhook-timestamp"), "is not signed"),
        (without("webhook-id"), "is not signed"),
        (genuine.clone().with("webhook-id", "msg_2"), "is not signed"),
        (forged("webhook-id", "msg_2"), "no v1 signature"),
        (forged("webhook-timestamp", &(now.seconds() + 1).to_string()), "no v1 signature"),
        (forged("webhook-signature", "v1,AAAA"), "no v1 signature"),
        (changed, "no v1 signature"),
        (foreign.sign("msg_1", now, &body), "no v1 signature"),
        (way.sign("msg_1", now.minus(seconds(310)), &body), "too old"),
    ] {
        post.send(&way.path, &posting).await.problem(401, "unauthorized", words);
    }
    // Its clock, or ours, is wrong: the adapter comes again.
    let early = way.sign("msg_1", now.plus(seconds(3600)), &body);
    post.send(&way.path, &early).await.problem(503, "unavailable", "Retry-After");
    // The key of another account opens its own way alone.
    post.send(&foreign.path, &genuine).await.problem(401, "unauthorized", "no v1 signature");
    let large = with(&call(&post), "message", json!("x".repeat(4096))).to_string();
    let large = way.sign("msg_1", now, &large);
    post.send(&way.path, &large).await.problem(413, "payload_too_large", "4096 bytes");
    let packed = genuine.clone().with("Content-Encoding", "gzip");
    post.send(&way.path, &packed).await.problem(415, "unsupported_media_type", "");
    assert_eq!(post.messages().await, 0);
    // The administrator of the account sees why, counted.
    let records = refusals(&post).await;
    assert_eq!(records.len(), 1, "{records:?}");
    let told = records[0]["explanation"].as_str().unwrap();
    assert!(told.contains("is not signed"), "{told}");
    post.send(&way.path, &genuine).await.success(200);
    // A new key comes with a new secret, and the old one proves nothing from then on.
    let rotated = open(&post.house, "org1").await;
    post.send(&way.path, &genuine).await.problem(404, "not_found", "nothing at this path");
    post.send(&rotated.path, &way.sign("msg_3", post.now(), &body)).await.problem(
        401,
        "unauthorized",
        "no v1 signature",
    );
    rotated.post(&post, "msg_3", &call(&post)).await.success(200);
    assert_eq!(post.messages().await, 2);
}

/// As `fixtures/access.toml` has it for `receiveMessage` with the key of the way's account.
#[tokio::test(flavor = "multi_thread")]
async fn an_adapter_reaches_the_agents_of_its_account_and_no_others() {
    let post = Post::open().await;
    let id = |name: &str| json!(post.house.id(name).get());
    let mut stored = 0;
    for (account, reached) in [
        ("agent1", &["agent1"][..]),
        ("org1", &["agent1", "agent2"]),
        ("reseller1", &["agent1", "agent2", "agent3"]),
        ("partner", &["agent1", "agent2", "agent3", "agent4"]),
    ] {
        let way = open(&post.house, account).await;
        for agent in ["agent1", "agent2", "agent3", "agent4"] {
            for (spelling, target) in [("id", id(agent)), ("name", json!(agent))] {
                let body = with(&call(&post), "targetAgent", target);
                let reply = way.post(&post, &format!("{agent}-{spelling}"), &body).await;
                match reached.contains(&agent) {
                    true => drop(reply.success(200)),
                    false => reply.problem(403, "forbidden", "does not reach"),
                }
                stored += usize::from(reached.contains(&agent));
            }
        }
        let nobody = with(&call(&post), "targetAgent", json!(NOBODY));
        way.post(&post, "nobody", &nobody).await.problem(403, "forbidden", "does not reach");
        // Its Agent is agent1, which is not below this target.
        let elsewhere = with(&call(&post), "targetAccountId", id("agent4"));
        let reply = way.post(&post, "elsewhere", &elsewhere).await;
        reply.problem(403, "forbidden", "does not reach");
    }
    assert_eq!(post.messages().await, stored);
    // Nobody who runs the adapter may ever look at its answers.
    let records = refusals(&post).await;
    let told = |record: &Value| record["explanation"].as_str().unwrap().contains("not reach");
    assert!(!records.is_empty() && records.iter().all(told), "{records:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adapter_needs_its_feature_and_an_agent_that_is_active() {
    let post = Post::open().await;
    let way = open(&post.house, "org1").await;
    let assign = async |feature: &str, on: Value| {
        let path = format!("/features/assign?targetAccountId={}", post.house.id("org1"));
        let body = json!({ "features": { feature: on } });
        post.house.post("partner", &path, body).await.success(200);
    };
    assign("relays", json!(false)).await;
    let reply = way.post(&post, "msg_1", &call(&post)).await;
    reply.problem(403, "feature_required", "does not have the feature \"relays\"");
    let records = refusals(&post).await;
    assert!(records[0]["explanation"].as_str().unwrap().contains("\"relays\""), "{records:?}");
    assign("relays", Value::Null).await;
    // Its key is no API key.
    assign("api", json!(false)).await;
    way.post(&post, "msg_1", &call(&post)).await.success(200);
    assign("api", Value::Null).await;
    let off = json!({ "active": false, "targetAccountId": post.house.id("agent1").get() });
    post.house.call("org1", "POST", "/updateAccount", Some(&off)).await.success(200);
    way.post(&post, "msg_2", &call(&post)).await.problem(409, "conflict", "not active");
    assert_eq!(post.messages().await, 1);
    let path = format!("/updateOrganization?targetOrganizationId={}", post.house.id("org1"));
    let active = async |on: bool| {
        let body = json!({ "active": on });
        post.house.call("reseller1", "POST", &path, Some(&body)).await.success(200);
    };
    active(false).await;
    way.post(&post, "msg_3", &call(&post)).await.problem(401, "unauthorized", "");
    active(true).await;
    let closed = post.house.call("org1", "DELETE", &format!("{JSON}/inboundKey"), None).await;
    closed.success(200);
    let reply = way.post(&post, "msg_3", &call(&post)).await;
    reply.problem(404, "not_found", "nothing at this path");
}

/// The signature proves the adapter: nothing that it says is a proven sender.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_adapter_says_of_its_sender_proves_nothing() {
    let post = Post::open().await;
    let way = open(&post.house, "org1").await;
    post.house.receive("agent1", "From: a\r\n\r\nhello", 0).await;
    let chat = json!({
        "targetAgent": "agent1", "source": "chat", "sourceAddress": "boss@good.example",
        "message": "Hello",
    });
    let mail = with(&chat, "source", json!("email"));
    let reply = way.post(&post, "msg_1", &mail).await;
    reply.problem(400, "invalid_request", "its signature is verified");
    for name in ["authentication", "findings", "emailFrom"] {
        let claims = with(&chat, "metadata", json!({ name: { "dkim": [{ "result": "pass" }] } }));
        way.post(&post, name, &claims).await.problem(400, "invalid_request", name);
    }
    let room = way.post(&post, "msg_2", &chat).await.success(200)["roomId"].clone();
    let messages = post.house.get("agent1", "/messages/recent").await.json();
    assert_eq!(messages.as_array().unwrap().len(), 2);
    let (own, of_mail) = (&messages[0], &messages[1]);
    assert_eq!((&own["source"], &own["roomId"]), (&json!("chat"), &room));
    assert_ne!(of_mail["roomId"], room, "another contact than the one that mail proves");
    assert_eq!(own["metadata"].get("authentication"), None);
    assert_eq!(post.record().await["sender"], "chat:boss@good.example");
    let records = refusals(&post).await;
    let told = records[0]["explanation"].as_str().unwrap();
    assert!(told.contains("its signature is verified"), "{told}");
}

/// The parser is the operation's: strict, whatever is signed.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_signed_is_read_as_strictly_as_what_a_key_sends() {
    let post = Post::open().await;
    let way = open(&post.house, "org1").await;
    let whole = call(&post).to_string();
    let twice = whole.replacen('{', "{\"duration\": 5, ", 1);
    for (body, words) in [
        (twice.as_str(), "is sent twice"),
        ("[]", "must be a JSON object"),
        ("{", "not valid JSON"),
        ("", "a body is missing"),
        (&whole.replacen('{', "{\"proof\": true, ", 1), "\"proof\" is not known here"),
        (&whole.replace("+1 555 123 1234", "5551231234"), "send it in E.164"),
        (&whole.replace("61", "61000000"), "duration must be"),
    ] {
        let posting = way.sign("msg_1", post.now(), body);
        post.send(&way.path, &posting).await.problem(400, "invalid_request", words);
    }
    assert_eq!(post.messages().await, 0);
}
