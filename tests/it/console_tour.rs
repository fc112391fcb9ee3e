//! The pages of a console behind which mail has come in: each shows what it is for, at a width that
//! a person has. `scripts/screenshots` gets its pictures of them.

use gatepost::run;
use gatepost::testkit::case::Case;
use gatepost::testkit::receiver::{Receiver, Reply};
use serde_json::{Value, json};

use crate::support::browser::{Browser, Scheme};
use crate::support::{PATIENCE, TestGateway, canary, signer};

const AGENT: &str = "support@agents.example";

/// Mail as a support desk gets it: one conversation, and others.
const LETTERS: &[(&str, &str, &str)] = &[
    (
        "alice@good.example",
        "Invoice 4711 is paid twice",
        "Hello,\n\nour bank shows invoice 4711 \
      paid on the 2nd and on the 5th. Please send one of the payments back.\n\nAlice",
    ),
    (
        "alice@good.example",
        "Re: Invoice 4711 is paid twice",
        "Hello again,\n\nthe reference of the \
      second payment is 88-1042.\n\nAlice",
    ),
    (
        "alice@good.example",
        "Re: Invoice 4711 is paid twice",
        "Thank you, the money has arrived.\n\n\
      Alice",
    ),
    (
        "dora@good.example",
        "Delivery to the back entrance",
        "Please deliver to the back entrance on \
      Thursday, the front door is closed.\n\nDora",
    ),
];

/// Mail of all ends, besides.
const CASES: &[&str] = &[
    "refused/dkim_missing/unsigned",
    "refused/dkim_unaligned/spoof",
    "refused/dkim_unaligned/spoof_name",
    "refused/sender_not_allowed/unlisted",
    "refused/sender_not_allowed/lookalike_domain",
    "refused/sender_invalid/from_twice_above",
    "refused/unknown_recipient/no_such_agent",
    "deferred/dns_unavailable/key_servfail",
    "accepted/attachments",
    "accepted/hidden_html",
];

/// A page of the tour: its name, its path, and words that it shows.
struct Stop {
    name: &'static str,
    path: String,
    words: &'static [&'static str],
}

/// Sends the letters and the cases.
async fn fill(gateway: &TestGateway) {
    let key = signer();
    for (number, (from, subject, text)) in LETTERS.iter().enumerate() {
        let text = text.replace('\n', "\r\n");
        let name = if from.starts_with("alice") { "Alice Example" } else { "Dora Example" };
        let letter = format!(
            "From: {name} <{from}>\r\nTo: Support <{AGENT}>\r\nSubject: {subject}\r\nDate: Mon, 05 \
             Jan 2026 10:00:00 +0000\r\nMessage-ID: <tour-{number}@good.example>\r\nMIME-Version: \
             1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{text}\r\n"
        );
        let raw = key.sign(letter.as_bytes()).unwrap();
        let replies = gateway.send(from, &[AGENT], &raw).await;
        assert!(replies.settling().starts_with("250"), "{}", replies.settling());
    }
    for name in CASES {
        let case = Case::named(name).unwrap();
        let to: Vec<&str> = case.script.to.iter().map(String::as_str).collect();
        let replies = gateway.send(&case.script.from, &to, &case.raw()).await;
        let settling = replies.settling();
        assert!(settling.starts_with(&case.script.reply), "{name}: {settling}");
    }
}

/// Changes a policy, a configuration and an account, as the audit log shows; answers whether each
/// was changed.
async fn configure(gateway: &TestGateway, agent: i64) {
    let acted = |path: &str| format!("{path}?targetAccountId={agent}");
    let rules = |title: &str| {
        json!({
            "type": "chatAgent", "title": title, "description": "Answers questions about invoices.",
            "agentLang": "en-US",
        })
    };
    let sender = json!({ "emails": ["carol@good.example"], "note": "ticket 812" });
    for (method, path, body) in [
        ("POST", "/agent", rules("Support")),
        ("POST", "/agent/publish", json!({})),
        ("POST", "/agent", rules("Support, with refunds")),
        ("POST", "/email/inboundWhitelist", sender),
    ] {
        let (status, answer) = gateway.request(method, &acted(path), Some(body)).await;
        assert!((200..300).contains(&status), "{method} {path}: {answer}");
    }
}

/// The place of the first record that the filter finds.
async fn record(gateway: &TestGateway, filter: &str) -> String {
    let found = gateway.get(&format!("/email/intake?{filter}")).await;
    found["intake"][0]["id"].as_str().unwrap_or_else(|| panic!("{filter}: {found}")).to_owned()
}

async fn stops(gateway: &TestGateway) -> Vec<Stop> {
    let organization = gateway.house.organization.id.get();
    let agent = gateway.house.agents["support"].id.get();
    let messages = gateway.get("/messages/recent?limit=50").await;
    let all: &[Value] = messages.as_array().unwrap();
    let of = |sought: &str| {
        let found = all.iter().find(|one| one["metadata"]["emailSubject"] == sought);
        found.unwrap_or_else(|| panic!("{sought}: {messages}"))
    };
    let hidden = of("Order 4711")["uuid"].as_str().unwrap();
    let spoofed = record(gateway, "reason=dkim_unaligned").await;
    let stop = |name, account: i64, path: &str, words| Stop {
        name,
        path: format!("/console/{account}{path}"),
        words,
    };
    vec![
        stop("live", organization, "/live", &["accepted", "refused", "deferred", "mallory@"]),
        stop("verdict", organization, &format!("/verdicts/{spoofed}"), &["dkim_unaligned"]),
        stop("message", agent, &format!("/messages/{hidden}"), &["hidden_text", "Order 4711"]),
        stop(
            "source",
            agent,
            &format!("/messages/{hidden}/source"),
            &["DKIM-Signature", "Order 4711"],
        ),
        stop("rooms", organization, "/rooms", &["Alice Example", "Dora Example"]),
        stop("refused", organization, "/refused", &["dkim_missing", "dns_unavailable"]),
        stop("policy", agent, "/policy", &["allowlist", "carol@good.example", "ticket 812"]),
        stop("webhooks", organization, "/webhooks", &["CRM", "failing"]),
        stop("accounts", organization, "/accounts", &["support"]),
        stop("agent", agent, "/agent", &["Support, with refunds", "Publish"]),
        stop("setup", agent, "/setup", &[AGENT]),
        stop("audit", organization, "/audit", &["senders.allowed", "agent.published"]),
    ]
}

/// Opens the first page, by the key of the accounts' root, which sees everything below it.
async fn signed_in(gateway: &TestGateway) -> Browser {
    let partner = gateway.house.partner.id;
    let key = gateway.tenancy.create_key(partner, "tour").await.unwrap().token;
    canary::note(key.as_bytes());
    let browser = Browser::at(&format!("http://{}", gateway.http)).await;
    browser.open("/console").await;
    browser.find("input[name=key]").await.send_keys(&key).await;
    browser.find("button.main").await.click().await;
    browser.wait_for("location.pathname.endsWith('/live')").await;
    browser
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_can_read_the_console_with_mail_in_it() {
    let gateway = TestGateway::start().await;
    let receiver = Receiver::start(run::system_mint().clock().clone()).await.unwrap();
    receiver.otherwise(Reply::status(503).text("closed for maintenance"));
    let secret = gateway.hook("CRM", &receiver.url("/crm")).await;
    receiver.trust(&secret);
    fill(&gateway).await;
    configure(&gateway, gateway.house.agents["support"].id.get()).await;
    receiver.wait_for(1, PATIENCE).await.unwrap();
    let failed = "SELECT COUNT(DISTINCT 1) FROM attempts WHERE status = 503";
    gateway.counts(failed, 1).await;
    let browser = signed_in(&gateway).await;
    let mut stops = stops(&gateway).await;
    let system = "return document.querySelector(\".nav a[href$='/system']\").pathname";
    let system = browser.run(system, &[]).await.as_str().unwrap().to_owned();
    stops.push(Stop { name: "system", path: system, words: &["SPF, DKIM, DMARC"] });
    let mut faults = Vec::new();
    for (scheme, seen) in [(Scheme::Light, &stops[..]), (Scheme::Dark, &stops[..])] {
        browser.prefer(scheme).await;
        for Stop { name, path, words } in seen {
            browser.open(path).await;
            let text = browser.run("return document.querySelector('main').innerText", &[]).await;
            let text = text.as_str().unwrap();
            let missing = words.iter().filter(|words| !text.contains(**words));
            faults.extend(missing.map(|words| format!("{name}: {words} is not in {text}")));
            faults.extend(browser.picture(&format!("tour-{name}"), scheme).await);
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    browser.finish().await;
    gateway.finish().await;
}
