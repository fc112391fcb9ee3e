//! Previews of a policy draft over the records of the last days, and malformed requests for one.
//! Real messages are in `tests/it/preview.rs`.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::app::intake::preview::Preview;
use crate::domain::id::Mint;
use crate::domain::reason::Reason;
use crate::domain::verdict::Verdict;
use crate::http::tests::{House, PATIENCE};
use crate::rules::Rules;
use crate::shutdown::Shutdown;
use crate::store::Store;
use crate::testkit::dns::{DnsServer, Zone};
use crate::testkit::signer::{Key, Signer};
use crate::verify::Authenticator;

const PATH: &str = "/email/inboundPolicy/preview";
const BOSS: &str = "boss@good.example";

/// Builds the use case over this store.
pub(super) fn of(store: &Store, rules: &Rules, mint: &Mint, dns: &Arc<Authenticator>) -> Preview {
    let intake = Arc::new(rules.intake.clone());
    let (bare, keep) = (rules.smtp.framing.bare_line_ends, rules.retention.clone());
    Preview::new(store.clone(), Arc::clone(dns), intake, bare, keep, mint.clone())
}

impl House {
    async fn preview(&self, body: Value) -> Value {
        self.call("agent1", "POST", PATH, Some(&body)).await.success(200)
    }

    fn free_places(&self) -> usize {
        self.http.uploads.places.available_permits()
    }
}

/// Records of agent1: one accepted, one refused by the policy, two refused otherwise, one deferred.
async fn house(rules: &str) -> House {
    let house = House::with(rules).await;
    house.receive("agent1", "From: a\r\n\r\nhello", 0).await;
    house.refuse("agent1", Verdict::Refused(Reason::SenderNotAllowed)).await;
    house.refuse("agent1", Verdict::Refused(Reason::DkimMissing)).await;
    house.refuse("agent1", Verdict::Refused(Reason::UnknownRecipient)).await;
    house.refuse("agent1", Verdict::Deferred(Reason::DnsUnavailable)).await;
    house.refuse("agent2", Verdict::Refused(Reason::SenderNotAllowed)).await;
    house
}

#[tokio::test]
async fn records_are_weighed_by_the_policy_as_it_is_and_the_draft_over_it() {
    let house = house("").await;
    let tally =
        |accepted: u64| json!({"accepted": accepted, "refused": 4 - accepted, "deferred": 1});
    // The list is empty: mail that another policy had accepted would be refused.
    for (draft, would, changes) in [
        (json!({}), 0, json!([["accepted", "refused"]])),
        (json!({ "mode": "allowlist" }), 0, json!([["accepted", "refused"]])),
        (json!({ "mode": "open" }), 2, json!([["refused", "accepted"]])),
        (json!({ "mode": "open", "remove": [BOSS] }), 2, json!([["refused", "accepted"]])),
        (json!({ "add": ["Boss@GOOD.example", BOSS] }), 2, json!([["refused", "accepted"]])),
        (json!({ "add": ["other@good.example"] }), 0, json!([["accepted", "refused"]])),
    ] {
        let mut body = draft.clone();
        body["days"] = json!(90);
        let answer = house.preview(body).await;
        assert_eq!((&answer["examined"], &answer["complete"]), (&json!(5), &json!(true)));
        let counts = json!({ "was": tally(1), "would": tally(would), "changed": 1 });
        assert_eq!(answer["counts"], counts, "{draft}");
        let changed = answer["changed"].as_array().unwrap();
        let found: Vec<_> = changed.iter().map(|one| json!([one["was"], one["would"]])).collect();
        assert_eq!(json!(found), changes, "{draft}");
        let id = changed[0]["intakeId"].as_str().unwrap();
        let path = format!("/email/intake/{id}");
        let record = house.get("agent1", &path).await.success(200)["intake"].clone();
        for name in ["sender", "date"] {
            assert_eq!(changed[0][name], record[name], "{name}");
        }
        assert_eq!(changed[0]["was"], record["verdict"]);
        assert_eq!(changed[0]["wasReason"], record["reason"]);
    }
    // The present allowlist applies to past mail.
    let listed = json!({ "email": BOSS });
    house.call("agent1", "POST", "/email/inboundWhitelist", Some(&listed)).await.success(200);
    for (draft, would, changed) in
        [(json!({ "days": 1 }), 2, 1), (json!({ "days": 1, "remove": [BOSS] }), 0, 1)]
    {
        let answer = house.preview(draft).await;
        assert_eq!(answer["counts"]["would"], tally(would));
        assert_eq!(answer["counts"]["changed"], changed);
    }
    // Nothing was saved.
    let policy = house.get("agent1", "/email/inboundPolicy").await.success(200)["policy"].clone();
    assert_eq!((&policy["mode"], &policy["allowlistCount"]), (&json!("allowlist"), &json!(1)));
}

#[tokio::test]
async fn a_preview_that_did_not_look_at_everything_says_so() {
    for (most, examined, complete) in [(1, 1, false), (4, 4, false), (5, 5, true), (6, 5, true)] {
        let house = house(&format!("[limits]\nmax_preview = {most}\n")).await;
        let answer = house.preview(json!({ "mode": "open", "days": 7 })).await;
        assert_eq!(answer["examined"], examined, "{most}");
        assert_eq!(answer["complete"], complete, "{most}");
        let last = house.get("agent1", "/email/intake").await.success(200);
        let oldest = &last["intake"][examined - 1]["date"];
        assert_eq!(&answer["since"] == oldest, !complete, "{answer} {oldest}");
    }
}

#[tokio::test]
async fn mistakes_are_named_and_change_nothing() {
    let house = House::new().await;
    let many: Vec<String> = (0..1001).map(|number| format!("a{number}@b.example")).collect();
    for (body, words) in [
        (json!({}), "send days or eml"),
        (json!({ "mode": "open" }), "send days or eml"),
        (
            json!({ "days": 1, "eml": "From: a@b.example" }),
            "/eml is one field too many: send only days or eml",
        ),
        (json!({ "days": 0 }), "/days must be a whole number from 1 to 3650"),
        (json!({ "days": 91 }), "/days is refused: send 1 to 90"),
        (json!({ "days": -1 }), "/days must be a whole number"),
        (json!({ "days": 1.5 }), "/days must be a whole number"),
        (json!({ "days": "1" }), "/days must be a whole number"),
        (json!({ "days": 1, "mode": "Open" }), "/mode must be one of: allowlist, open"),
        (json!({ "days": 1, "add": "a@b.example" }), "/add must be an array of 1 to 1000 items"),
        (json!({ "days": 1, "add": [BOSS, "x"] }), "/add/1 is refused"),
        (json!({ "days": 1, "remove": [BOSS, "a@b.example", "@b"] }), "/remove/2 is refused"),
        (json!({ "days": 1, "add": many }), "/add must be an array of 1 to 1000 items"),
        (
            json!({ "days": 1, "add": [BOSS], "remove": ["a@b.example", "BOSS@good.example"] }),
            "/remove/1 is refused: boss@good.example is also in add",
        ),
        (json!({ "days": 1, "draft": {} }), "field \"draft\" is not known here"),
        (json!({ "eml": "" }), "the text of a message, or the base64"),
        (json!({ "eml": "no colon and no base64!" }), "the text of a message, or the base64"),
        (json!({ "eml": 1 }), "/eml must be a string"),
    ] {
        let reply = house.call("agent1", "POST", PATH, Some(&body)).await;
        reply.problem(400, "invalid_request", words);
    }
    house.get("agent1", PATH).await.problem(405, "method_not_allowed", "Allow");
}

#[tokio::test]
async fn a_message_may_be_as_large_as_mail_may_be_and_no_larger() {
    let house = House::with("[limits]\nmax_body_bytes = 1024\nmax_uploads = 1\n").await;
    let body = |size: usize| json!({ "eml": format!("X: {}\r\n", "x".repeat(size)) });
    // Larger than other bodies may be: the message is read and examined.
    let answer = house.preview(body(100_000)).await;
    assert_eq!(answer["current"]["reason"], "sender_invalid", "{answer}");
    let too_large = house.http.use_cases.preview.max_message_bytes();
    let reply = house.call("agent1", "POST", PATH, Some(&body(too_large))).await;
    reply.problem(413, "payload_too_large", "a message must have at most");
    // Other bodies have their own limit, and places are free again.
    let long = json!({ "mode": "x".repeat(2000) });
    let reply = house.call("agent1", "PUT", "/email/inboundPolicy", Some(&long)).await;
    reply.problem(413, "payload_too_large", "more than 1024 bytes");
    assert_eq!(house.free_places(), 1);
}

async fn until(holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, waiting).await.expect("it comes to that in time");
}

#[tokio::test]
async fn a_message_has_its_place_until_it_has_been_looked_at() {
    let helpers = Shutdown::default();
    let dns = DnsServer::start(Zone::default(), helpers.clone()).await.unwrap();
    let house = House::asking(dns.addr(), "[limits]\nmax_uploads = 2\n").await;
    // Parsed at once, parsed on another thread, and in a body that needs a place.
    for (selector, size) in [("small", 10), ("large", 300_000), ("larger", 1 << 20)] {
        let key = format!("{selector}._domainkey.good.example");
        dns.change(|zone| zone.insert(&key, "TXT", "TIMEOUT", "")).unwrap();
        let signer = Signer::new(Key::generate_ed25519().unwrap(), "good.example", selector);
        let text = format!("From: {BOSS}\r\n\r\n{}", "all work\r\n".repeat(size / 10));
        let eml = String::from_utf8(signer.sign(text.as_bytes()).unwrap()).unwrap();
        let body = json!({ "mode": "open", "eml": eml });
        let beside = async {
            until(|| dns.queries_for(&key) > 0).await;
            assert_eq!(house.free_places(), 1, "{selector}");
            // This key holds its turn; another key gets the other place.
            let again = house.call("agent1", "POST", PATH, Some(&body)).await;
            again.problem(429, "rate_limited", "one at a time");
            assert_eq!(again.headers["retry-after"], "5");
            let other = json!({ "eml": "From: a@b.example\r\n\r\nx\r\n" });
            let other = house.call("agent2", "POST", PATH, Some(&other)).await.success(200);
            assert_eq!(other["current"]["reason"], "dkim_missing");
            assert_eq!(house.free_places(), 1, "{selector}");
            dns.change(|zone| zone.remove(&key, "TXT")).unwrap();
        };
        let (answer, ()) = tokio::join!(house.preview(body.clone()), beside);
        assert_eq!(answer["current"]["reason"], "dkim_failed", "{selector}: {answer}");
        assert_eq!(house.free_places(), 2, "{selector}");
    }
    drop(house);
    assert!(helpers.finish(PATIENCE).await);
}

#[tokio::test]
async fn a_key_sends_one_large_body_at_a_time_and_none_out_of_its_reach() {
    let house = House::with("[limits]\nmax_body_bytes = 1024\nmax_uploads = 2\n").await;
    let head = |caller: &str, target: &str| {
        let (token, target) = (house.token(caller), house.id(target));
        format!(
            "POST /api/v2{PATH}?token={token}&targetAccountId={target} HTTP/1.1\r\nHost: h\r\n\
             Connection: close\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n\r\n{{"
        )
    };
    // The refusal does not wait for the body.
    let reply = house.exchange(head("agent1", "agent4").as_bytes()).await;
    reply.problem(403, "forbidden", "");
    let mut stream = TcpStream::connect(house.address).await.unwrap();
    let begun = head("agent1", "agent1") + &" ".repeat(2000);
    stream.write_all(begun.as_bytes()).await.unwrap();
    until(|| house.free_places() == 1).await;
    let long = json!({ "eml": format!("X: {}\r\n", "x".repeat(3000)) });
    let reply = house.call("agent1", "POST", PATH, Some(&long)).await;
    reply.problem(429, "rate_limited", "one at a time");
    house.call("agent2", "POST", PATH, Some(&long)).await.success(200);
    // Small previews without a message go on.
    house.preview(json!({ "mode": "open", "days": 1 })).await;
    drop(stream);
    until(|| house.free_places() == 2).await;
    house.preview(long).await;
}

#[tokio::test]
async fn what_no_session_takes_is_malformed() {
    let house = House::new().await;
    for (eml, words) in [
        ("From: a@b.example\r\n\r\nx\ny\r\n", "a bare LF at byte 22"),
        ("From: a@b.example\r\n\r\nx\ry\r\n", "a bare CR at byte 22"),
        ("From: a@b.example\n\nx\0\n", "a bare NUL at byte 22"),
    ] {
        let answer = house.preview(json!({ "mode": "open", "eml": eml })).await;
        for record in ["current", "draft"] {
            assert_eq!(answer[record]["reason"], "malformed", "{answer}");
            let told = answer[record]["explanation"].as_str().unwrap();
            assert!(told.contains(words) && told.contains("550 5.5.2"), "{told}");
        }
    }
}
