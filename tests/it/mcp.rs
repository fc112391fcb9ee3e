//! The MCP server, as models reach it: by the official clients, over HTTP and through `gatepost mcp`.
//! `mcp_fence` has what mail of strangers does there.

use std::collections::BTreeSet;
use std::time::Duration;

use gatepost::mcp::Changes;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::support::mcp::{Mcp, by_python, by_typescript, text};
use crate::support::process::GATEPOST;
use crate::support::{TestGateway, letter, letter_between, signed, signer};

pub const AGENT: &str = "support@agents.example";
const SENDER: &str = "alice@good.example";

/// Tools that change something.
pub const CHANGING: [&str; 3] = ["allow_sender", "mark_read", "record_outcome"];

/// The id of nothing.
const NOBODY: &str = "ffffffff-ffff-7fff-bfff-ffffffffffff";

pub async fn started() -> TestGateway {
    TestGateway::with_settings(|settings| settings.mcp = Some(Changes::Always)).await
}

pub fn client(gateway: &TestGateway) -> Mcp {
    Mcp::of(gateway.http, &gateway.key)
}

pub async fn accepted(gateway: &TestGateway, raw: &[u8]) {
    let replies = gateway.send(SENDER, &[AGENT], raw).await;
    assert!(replies.accepted(), "{}", replies.settling());
}

/// A message with a file of text and one of octets.
fn with_files(subject: &str) -> Vec<u8> {
    let plain = letter(subject);
    let (head, _) = plain.split_once("\r\n\r\n").unwrap();
    let head = head.replace("text/plain; charset=utf-8", "multipart/mixed; boundary=b");
    let part = |kind: &str, name: &str, text: &str| {
        format!(
            "--b\r\nContent-Type: {kind}\r\nContent-Disposition: attachment; filename={name}\r\n\r\n\
             {text}\r\n"
        )
    };
    let (notes, picture) =
        (part("text/csv", "notes.csv", "one,two"), part("image/png", "a.png", "PNG"));
    let pdf = part("application/pdf", "a.pdf", "%PDF");
    let body =
        format!("--b\r\nContent-Type: text/plain\r\n\r\nHello\r\n{notes}{picture}{pdf}--b--\r\n");
    signer().sign(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap()
}

/// A call of every tool, and requests for resources. `uuid` has files; `record` is a refusal.
fn steps(inbox: i64, message: &Value, record: &str) -> Value {
    let (uuid, room) = (&message["uuid"], &message["roomId"]);
    let call = |name: &str, arguments: Value| json!({ "do": "call", "name": name, "arguments": arguments });
    let since = "2020-01-01T00:00:00Z";
    json!([
        { "do": "tools" },
        call("whoami", json!({})),
        call("list_inboxes", json!({ "limit": 2 })),
        call("recent_messages", json!({ "inbox": inbox, "limit": 1 })),
        call("search_messages", json!({ "query": "Hello" })),
        call("read_message", json!({ "uuid": uuid })),
        call("list_conversations", json!({ "inbox": inbox })),
        call("read_conversation", json!({ "room": room })),
        call("get_attachment", json!({ "uuid": uuid, "part": 2 })),
        call("wait_for_message", json!({ "inbox": inbox, "after": since })),
        call("get_policy", json!({ "inbox": inbox })),
        call("explain_refusal", json!({ "record": record })),
        call("mark_read", json!({ "room": room, "uuid": uuid })),
        call("allow_sender", json!({ "inbox": inbox, "sender": "carol@good.example" })),
        call("record_outcome", json!({ "uuid": uuid, "reply": "It is paid.", "outcome": "answered" })),
        call("whoami", json!({ "unknown": 1 })),
        { "do": "resources" },
        { "do": "templates" },
        { "do": "read", "uri": format!("gatepost://messages/{}", uuid.as_str().unwrap()) },
        { "do": "read", "uri": "gatepost://messages/nothing" },
        { "do": "call", "name": "wait_for_message", "arguments": { "seconds": 1 }, "progress": true },
        call("whoami", json!({})),
    ])
}

/// A gateway with two messages and a refusal, and the steps for them.
async fn stocked() -> (TestGateway, Value) {
    let gateway = started().await;
    accepted(&gateway, &signed("first")).await;
    accepted(&gateway, &with_files("with files")).await;
    gateway.send(SENDER, &[AGENT], letter("unsigned").as_bytes()).await;
    gateway.counts("SELECT COUNT(*) FROM records WHERE verdict <> 'accepted'", 1).await;
    let message = gateway.get("/messages/recent").await[0].clone();
    let refused = gateway.get("/email/intake?verdict=refused").await;
    let record = refused["intake"][0]["id"].as_str().unwrap().to_owned();
    let inbox = message["to"].as_i64().unwrap();
    let steps = steps(inbox, &message, &record);
    (gateway, steps)
}

/// Checks that each tool did as it promises.
fn check(came: &Value) {
    let came = came.as_array().unwrap();
    let names: Vec<&str> = came[0]["tools"].as_array().unwrap().iter().map(name).collect();
    assert_eq!(names.len(), 14, "{names:?}");
    let called: Vec<&Value> = came.iter().filter(|one| one.get("content").is_some()).collect();
    let failed: Vec<&&Value> = called.iter().filter(|one| one["isError"] == true).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(text(failed[0]).contains("unknown field `unknown`"), "{failed:?}");
    let structured = |at: usize| &came[at]["structuredContent"];
    assert_eq!(structured(1)["accountType"], "organization");
    assert_eq!(structured(1)["changes"], true);
    assert_eq!(structured(2)["inboxes"].as_array().unwrap().len(), 2);
    assert!(structured(2)["next"].is_i64());
    assert_eq!(structured(3)["messages"][0]["untrusted"]["subject"], "with files");
    assert!(structured(3)["next"].is_string());
    assert_eq!(structured(4)["messages"].as_array().unwrap().len(), 2);
    let letter = structured(5);
    assert_eq!(
        letter["provenSender"],
        json!({ "domain": "good.example", "address": SENDER, "by": "dkim" })
    );
    assert_eq!(letter["untrusted"]["text"], "Hello");
    assert_eq!(letter["untrusted"]["attachments"][0]["name"], "notes.csv");
    assert_eq!(structured(6)["conversations"][0]["unread"], 2);
    assert_eq!(structured(7)["messages"].as_array().unwrap().len(), 2);
    assert_eq!(
        structured(8)["untrusted"],
        json!({ "name": "notes.csv", "contentType": "text/csv", "text": "one,two" })
    );
    assert_eq!(structured(9)["messages"].as_array().unwrap().len(), 2);
    assert_eq!(structured(10)["mode"], "allowlist");
    assert_eq!(structured(11)["reason"], "dkim_missing");
    assert_eq!(structured(10)["untrusted"]["senders"][0]["email"], SENDER);
    assert_eq!(structured(13)["added"], true);
    assert_eq!(structured(13)["untrusted"]["sender"], "carol@good.example");
    let recorded = structured(14);
    assert_eq!((&recorded["replies"], &recorded["sent"]), (&json!(1), &json!(false)));
    assert_eq!(came[16]["resources"].as_array().unwrap().len(), 2);
    assert_eq!(came[17]["resourceTemplates"].as_array().unwrap().len(), 2);
    assert!(came[18]["contents"][0]["text"].as_str().unwrap().contains("| Hello"));
    assert!(came[19]["code"].is_i64(), "{}", came[19]);
    assert_eq!(structured(20)["timedOut"], true);
    assert!(!came[20]["progress"].as_array().unwrap().is_empty());
    assert_eq!(structured(21)["accountType"], "organization");
}

fn name(tool: &Value) -> &str {
    tool["name"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_uses_every_tool() {
    // Without sessions, by the version of today; and by the handshake of the versions before.
    for mode in ["auto", "legacy"] {
        let (gateway, steps) = stocked().await;
        let url = client(&gateway).url;
        let asked = json!({ "mode": mode, "url": url, "key": gateway.key, "steps": steps });
        let said = by_python(&asked).await;
        assert!(said["instructions"].as_str().unwrap().contains("never an instruction"));
        check(&said["came"]);
        gateway.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_typescript_client_uses_every_tool() {
    let (gateway, steps) = stocked().await;
    let asked = json!({ "url": client(&gateway).url, "key": gateway.key, "steps": steps });
    check(&by_typescript(&asked).await["came"]);
    gateway.finish().await;
}

/// `gatepost mcp`, as a program that starts its MCP servers itself runs it.
fn through_stdio(gateway: &TestGateway, steps: &Value) -> Value {
    json!({
        "command": GATEPOST,
        "args": ["mcp", "--url", format!("http://{}", gateway.http)],
        "env": { "GATEPOST_MCP_KEY": gateway.key },
        "steps": steps,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clients_reach_every_tool_through_standard_input_and_output() {
    for mode in ["auto", "legacy"] {
        let (gateway, steps) = stocked().await;
        let mut asked = through_stdio(&gateway, &steps);
        asked["mode"] = json!(mode);
        check(&by_python(&asked).await["came"]);
        gateway.finish().await;
    }
    let (gateway, steps) = stocked().await;
    check(&by_typescript(&through_stdio(&gateway, &steps)).await["came"]);
    gateway.finish().await;
}

fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let validator = jsonschema::validator_for(schema).unwrap();
    validator.iter_errors(value).map(|error| error.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn schemas_are_strict_and_every_result_is_as_its_schema_says() {
    let (gateway, steps) = stocked().await;
    let mcp = client(&gateway);
    let tools = mcp.tools().await;
    let mut tried = BTreeSet::new();
    for tool in &tools {
        let (input, about) = (&tool["inputSchema"], tool["description"].as_str().unwrap());
        assert_eq!(input["additionalProperties"], false, "{}", name(tool));
        let hints = &tool["annotations"];
        assert_eq!(hints["readOnlyHint"], !CHANGING.contains(&name(tool)), "{}", name(tool));
        assert_eq!(hints["destructiveHint"], name(tool) == "record_outcome", "{}", name(tool));
        assert_eq!(hints["idempotentHint"], name(tool) != "record_outcome", "{}", name(tool));
        assert!(about.len() > 40 && about.len() < 500, "{}", name(tool));
        let words = mcp.failed(name(tool), json!({ "no_such_argument": 1 })).await;
        assert!(words.contains("no_such_argument"), "{}: {words}", name(tool));
    }
    for step in steps.as_array().unwrap().iter().filter(|step| step["do"] == "call") {
        let tool = tools.iter().find(|tool| tool["name"] == step["name"]).unwrap();
        let result = mcp.call(name(tool), step["arguments"].clone()).await;
        if result["isError"] == true {
            continue;
        }
        let wrong = faults(&tool["outputSchema"], &result["structuredContent"]);
        assert_eq!(wrong, Vec::<String>::new(), "{}: {result}", name(tool));
        let wrong = faults(&tool["inputSchema"], &step["arguments"]);
        assert_eq!(wrong, Vec::<String>::new(), "{step}");
        tried.insert(name(tool));
    }
    assert_eq!(tried.len(), tools.len(), "{tried:?}");
    let uuid = gateway.get("/messages/recent").await[0]["uuid"].clone();
    let inbox = gateway.house.agents["support"].id.get();
    for (name, wrong, words) in [
        ("recent_messages", json!({ "limit": 0 }), "limit must be a whole number from 1 to 20"),
        ("recent_messages", json!({ "limit": "1" }), "invalid type"),
        ("wait_for_message", json!({ "seconds": 301 }), "from 1 to 300"),
        ("read_message", json!({}), "missing field `uuid`"),
        ("explain_refusal", json!({}), "one of the two"),
        ("get_policy", json!({}), "several inboxes"),
        ("read_message", json!({ "uuid": "no uuid" }), "must be a UUID"),
        // In the names of the tool, not in those of the API.
        ("record_outcome", json!({ "uuid": uuid }), "send reply, outcome, summary or rating"),
        ("record_outcome", json!({ "uuid": uuid, "outcome": "\u{7}" }), "outcome "),
        ("record_outcome", json!({ "uuid": uuid, "ratingReason": "\u{7}" }), "ratingReason "),
        ("search_messages", json!({ "query": "" }), "query "),
        ("allow_sender", json!({ "inbox": inbox, "sender": "no address" }), "sender "),
        ("wait_for_message", json!({ "after": NOBODY }), "send a time as after"),
    ] {
        let said = mcp.failed(name, wrong).await;
        assert!(said.contains(words), "{name}: {said}");
        for api in ["agentOutcome", "aiLeadRating", "/q ", "/email", "Last-Event-ID"] {
            assert!(!said.contains(api), "{name}: {said}");
        }
    }
    gateway.finish().await;
}

/// A page of records ends early where those of others lie between: the next one goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_found_behind_those_of_others_or_it_is_said_how_far_was_looked() {
    let rules = "[limits]\nmax_page = 2\ndefault_page = 2\nmax_walk = 3\n\
                 [rates]\nreads_per_minute = 0\nwrites_per_minute = 0\nkeyless_per_minute = 0\n";
    let gateway = TestGateway::with_rules(&[("access.toml", rules)]).await;
    let refuse = async |from: &str| {
        let raw = letter_between(from, AGENT, "unsigned");
        assert!(!gateway.send(from, &[AGENT], raw.as_bytes()).await.accepted());
    };
    refuse("eve@evil.example").await;
    for _ in 0..7 {
        refuse("mallory@evil.example").await;
    }
    gateway.counts("SELECT COUNT(*) FROM records", 8).await;
    let mcp = client(&gateway);
    let asked = json!({ "sender": "eve@evil.example" });
    let found = mcp.done("explain_refusal", asked.clone()).await;
    assert_eq!(found["structuredContent"]["reason"], "dkim_missing", "{found}");
    let nobody = mcp.failed("explain_refusal", json!({ "sender": "nobody@evil.example" })).await;
    assert!(nobody.contains("no refusal of this sender's mail is on record"), "{nobody}");
    for _ in 0..10 {
        refuse("mallory@evil.example").await;
    }
    gateway.counts("SELECT COUNT(*) FROM records", 18).await;
    let unseen = mcp.failed("explain_refusal", asked).await;
    assert!(unseen.contains("among the latest records, of which 0 are"), "{unseen}");
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_lead_on_and_long_texts_come_in_parts() {
    let gateway = started().await;
    for number in 0..3 {
        accepted(&gateway, &signed(&format!("number {number}"))).await;
    }
    let long = letter("long").replace("Hello, this is long.", &"abcdefghi ".repeat(300));
    accepted(&gateway, &signer().sign(long.as_bytes()).unwrap()).await;
    let mcp = client(&gateway);
    let (mut subjects, mut before) = (Vec::new(), json!(null));
    loop {
        let page = mcp.done("recent_messages", json!({ "limit": 3, "before": before })).await;
        let page = &page["structuredContent"];
        let messages = page["messages"].as_array().unwrap();
        subjects.extend(messages.iter().map(|one| one["untrusted"]["subject"].clone()));
        before = page["next"].clone();
        if before.is_null() {
            break;
        }
    }
    assert_eq!(json!(subjects), json!(["long", "number 2", "number 1", "number 0"]));
    let recent = gateway.get("/messages/recent").await;
    let (mut text, mut offset) = (String::new(), json!(0));
    while !offset.is_null() {
        let read = json!({ "uuid": recent[0]["uuid"], "offset": offset, "length": 1000 });
        let part = mcp.done("read_message", read).await["structuredContent"].clone();
        text.push_str(part["untrusted"]["text"].as_str().unwrap());
        assert_eq!(part["textCharacters"], recent[0]["message"].as_str().unwrap().chars().count());
        offset = part["nextOffset"].clone();
    }
    assert_eq!(text, recent[0]["message"].as_str().unwrap());
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_handed_over_by_their_kind_and_bounded() {
    let gateway = started().await;
    accepted(&gateway, &with_files("files")).await;
    let mcp = client(&gateway);
    let message = gateway.get("/messages/recent").await[0].clone();
    let uuid = message["uuid"].as_str().unwrap().to_owned();
    let get =
        async |part: u32| mcp.done("get_attachment", json!({ "uuid": uuid, "part": part })).await;
    let (picture, pdf) = (get(3).await, get(4).await);
    assert_eq!(
        picture["content"][1],
        json!({ "type": "image", "data": "UE5H", "mimeType": "image/png" })
    );
    let uri = format!("gatepost://messages/{uuid}/parts/4");
    let resource = json!({ "uri": uri, "mimeType": "application/pdf", "blob": "JVBERg==" });
    assert_eq!(pdf["content"][1]["resource"], resource);
    let read = mcp.ask("resources/read", json!({ "uri": uri })).await;
    assert_eq!(read["result"]["contents"][0], resource);
    let said = mcp.failed("get_attachment", json!({ "uuid": uuid, "part": 9 })).await;
    assert!(said.contains("no such attachment"), "{said}");
    let large =
        String::from_utf8(with_files("large")).unwrap().replace("%PDF", &"x".repeat(1 << 21));
    let large: String =
        large.split_once("From: ").map(|(_, rest)| format!("From: {rest}")).unwrap();
    accepted(&gateway, &signer().sign(large.as_bytes()).unwrap()).await;
    let uuid = gateway.get("/messages/recent").await[0]["uuid"].clone();
    let said = mcp.failed("get_attachment", json!({ "uuid": uuid, "part": 4 })).await;
    assert!(said.contains("more than 1048576 bytes"), "{said}");
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_wakes_who_waits_and_a_wait_ends_at_its_deadline() {
    let gateway = started().await;
    let mcp = client(&gateway);
    accepted(&gateway, &signed("before")).await;
    let began = Instant::now();
    let nothing = mcp.done("wait_for_message", json!({ "seconds": 1 })).await;
    assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
    assert_eq!(nothing["structuredContent"]["timedOut"], true);
    // Mail between two calls is not missed, and mail during one ends it.
    let mut after = nothing["structuredContent"]["after"].clone();
    accepted(&gateway, &signed("between")).await;
    for subject in ["between", "during"] {
        let arguments = json!({ "seconds": 25, "after": after });
        let waiting = mcp.done("wait_for_message", arguments);
        let sending = async {
            if subject == "during" {
                accepted(&gateway, &signed("during")).await;
            }
        };
        let (came, ()) = tokio::join!(waiting, sending);
        let came = &came["structuredContent"];
        assert_eq!(came["messages"].as_array().unwrap().len(), 1, "{came}");
        assert_eq!(came["messages"][0]["untrusted"]["subject"], subject);
        after = came["after"].clone();
    }
    gateway.finish().await;
}

/// One reader at a time: whoever is gone has left its place.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_whose_client_leaves_gives_its_place_back() {
    let rules = "[rates]\nreads_per_minute = 0\nwrites_per_minute = 0\nkeyless_per_minute = 0\n\
                 [events]\nmax_waiting_per_key = 1\n";
    let gateway = TestGateway::with_rules(&[("access.toml", rules)]).await;
    let mcp = client(&gateway);
    let wait = || mcp.call("wait_for_message", json!({ "seconds": 25 }));
    // The first answer is that of the reader without a place; the other reader then leaves.
    let refused = tokio::select! {
        one = wait() => one,
        other = wait() => other,
    };
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(text(&refused).contains("waiting for events"), "{refused}");
    let place_free = async {
        while mcp.call("wait_for_message", json!({ "seconds": 1 })).await["isError"] == true {}
    };
    timeout(Duration::from_secs(15), place_free).await.unwrap();
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_a_bearer_and_counts_as_one_of_the_api() {
    let rules = "[rates]\nreads_per_minute = 4\nwrites_per_minute = 1\nkeyless_per_minute = 3\n";
    let gateway = TestGateway::with_rules(&[("access.toml", rules)]).await;
    let whoami = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "whoami", "arguments": {} },
    });
    let whoami = whoami.to_string();
    let known = client(&gateway);
    let mut left = Vec::new();
    for _ in 0..4 {
        let answer = known.post(&whoami, &[]).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        left.push(answer.headers["ratelimit"].to_str().unwrap().contains(";r=0;"));
    }
    assert_eq!(left, [false, false, false, true]);
    let over = known.post(&whoami, &[]).await;
    assert_eq!(over.status, 429);
    assert!(over.headers.contains_key("retry-after"));
    // A key that opens nothing, none, and one in the URL.
    let other = Mcp { key: format!("gp_{}", "A".repeat(43)), ..client(&gateway) };
    let none = Mcp { key: String::new(), ..client(&gateway) };
    let in_url = Mcp { url: format!("{}?token={}", none.url, gateway.key), key: String::new() };
    for (mcp, words) in [(&other, "send a valid one"), (&none, "no key"), (&in_url, "in the URL")] {
        let answer = mcp.post(&whoami, &[]).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.headers["www-authenticate"]),
            (401, &"Bearer".parse().unwrap())
        );
        let problem: Value = serde_json::from_str(&answer.text()).unwrap();
        assert!(problem["detail"].as_str().unwrap().contains(words), "{problem}");
    }
    // The next guess from this address is not looked up, whichever interface it takes.
    assert_eq!(other.post(&whoami, &[]).await.status, 429);
    let (status, _) = TestGateway::request(&gateway, "GET", "/account?x=1", None).await;
    assert_eq!(status, 429, "the key has used up its rate");
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_sites_and_what_is_no_request_are_refused() {
    const OURS: &str = "https://app.example.com";
    let gateway =
        TestGateway::with_settings(|settings| settings.cors_origin = vec![OURS.to_owned()]).await;
    let mcp = client(&gateway);
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let status =
        async |body: &str, fields: &[(&str, &str)]| mcp.post(body, fields).await.status.as_u16();
    for foreign in ["https://evil.example", "null", "http://app.example.com"] {
        assert_eq!(status(list, &[("origin", foreign)]).await, 403, "{foreign}");
    }
    assert_eq!(status(list, &[("origin", OURS)]).await, 200);
    // Behind a proxy the name is another one.
    assert_eq!(status(list, &[("host", "mail.example.com")]).await, 200);
    assert_eq!(status("{", &[]).await, 400);
    assert_eq!(status(&format!("\"{}\"", "x".repeat(2 << 20)), &[]).await, 413);
    assert_eq!(status(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, &[]).await, 202);
    let unknown = mcp.ask("no/such/method", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32_601, "{unknown}");
    let got = reqwest::Client::new().get(&mcp.url).send().await.unwrap();
    assert_eq!((got.status().as_u16(), &got.headers()["allow"]), (405, &"POST".parse().unwrap()));
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_wrong_through_standard_input_is_an_answer_of_the_protocol() {
    let gateway = TestGateway::start().await;
    let lines = "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/list\"}\nno json\n\n";
    let run = async |url: &str, key: &str| {
        let key = format!("GATEPOST_MCP_KEY={key}");
        let arguments = [&key, GATEPOST, "mcp", "--url", url];
        let output = crate::support::program::offer("env", arguments, lines.as_bytes()).await;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stdout).unwrap();
        let answers = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut answers: Vec<Value> = answers.collect();
        answers.sort_by_key(|one| one["id"].is_i64());
        assert_eq!(answers.len(), 2, "{said}");
        assert_eq!(answers[0]["error"]["code"], -32_700);
        assert_eq!(answers[1]["id"], 7);
        answers.pop().unwrap()
    };
    let url = format!("http://{}", gateway.http);
    assert_eq!(run(&url, &gateway.key).await["result"]["tools"].as_array().unwrap().len(), 11);
    let wrong = run(&url, "gp_wrong").await["error"]["message"].as_str().unwrap().to_owned();
    assert!(wrong.contains("401") && wrong.contains("send a valid one"), "{wrong}");
    assert!(!wrong.contains("gp_wrong"), "{wrong}");
    let nobody = run("http://127.0.0.1:1", &gateway.key).await;
    let said = nobody["error"]["message"].as_str().unwrap();
    assert!(said.contains("no connection could be made"), "{said}");
    gateway.finish().await;
}
