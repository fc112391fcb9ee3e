//! Journeys through the console from the sign-in on, by clicks and typed words alone. Each ends with
//! what is so outside the browser: an answer of the API, an event that is delivered, a message that
//! is accepted. `console` has the way from a complaint to an accepted message.

use gatepost::run;
use gatepost::testkit::receiver::{Receiver, Reply};
use serde_json::{Value, json};
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::console::{AGENT, accepted, sign, sign_in, signed_in};
use crate::support::browser::Browser;
use crate::support::{PATIENCE, TestGateway, canary, http, letter_between, signed, signer};

const ALICE: &str = "alice@good.example";
const CAROL: &str = "carol@good.example";

/// A message of Carol, who is on no list.
fn of_carol(to: &str) -> Vec<u8> {
    sign(&signer(), &letter_between(CAROL, to, "let me in"))
}

/// From a page of the organization to one of its Agent `support`.
async fn go_to_agent(browser: &Browser, gateway: &TestGateway, page: &str) {
    browser.press("Accounts").await;
    browser.shows("Create an Agent").await;
    browser.press("support").await;
    let live = format!("/console/{}/live", gateway.house.agents["support"].id);
    browser.wait_for(&format!("location.pathname === '{live}'")).await;
    browser.press(page).await;
}

async fn finish(gateway: TestGateway, browser: Browser) {
    browser.finish().await;
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_complaint_leads_to_its_cause_by_one_click_from_the_live_page() {
    let (gateway, browser) = signed_in().await;
    accepted(&gateway, &signed("no complaint")).await;
    let refused = gateway.send(CAROL, &[AGENT], &of_carol(AGENT)).await;
    // "My mail comes back", says Carol.
    browser.fill("Sender", &format!("{CAROL}\u{e007}")).await;
    browser.wait_for("location.search.includes('sender=carol')").await;
    browser.press("refused").await;
    browser.shows("not on this Agent's allowlist").await;
    browser.shows("sender_not_allowed").await;
    let path = browser.run("return location.pathname", &[]).await;
    let id = path.as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    assert!(refused.settling().contains(&id), "{}", refused.settling());
    let record = gateway.get(&format!("/email/intake/{id}")).await;
    assert_eq!(record["intake"]["sender"], CAROL);
    finish(gateway, browser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_failed_is_sent_again() {
    let once = ("webhooks.toml", "[schedule]\nwait_seconds = [0]\njitter_percent = 0\n");
    let gateway = TestGateway::with_rules(&[once]).await;
    gateway.receiver.script([Reply::status(500)]);
    accepted(&gateway, &signed("an event")).await;
    let webhooks = gateway.get("/webhooks").await;
    let id = webhooks["webhooks"][0]["id"].as_str().unwrap();
    let path = format!("/webhooks/{id}/deliveries");
    let reaches = async |state: &str| {
        let reached = async {
            while gateway.get(&path).await["deliveries"][0]["state"] != state {
                yield_now().await;
            }
        };
        timeout(PATIENCE, reached).await.unwrap_or_else(|_| panic!("never {state}"));
    };
    reaches("exhausted").await;
    let browser = Browser::at(&format!("http://{}", gateway.http)).await;
    sign_in(&browser, &gateway.key).await;
    // From the message, whose page says what became of its event, to the webhook.
    browser.search("event").await;
    browser.wait_for("location.pathname.endsWith('/search')").await;
    browser.press("an event").await;
    browser.shows("Events and their deliveries").await;
    browser.press("exhausted").await;
    browser.press("The webhook test").await;
    browser.shows("Sends a webhook.test event now.").await;
    browser.press("exhausted email.received").await;
    browser.press_beside("exhausted email.received", "Send again").await;
    browser.shows("It will be sent again").await;
    let sent = gateway.receiver.wait_for(2, PATIENCE).await.unwrap();
    assert_eq!(sent[0].headers["webhook-id"], sent[1].headers["webhook-id"]);
    assert!(sent[1].verified);
    reaches("delivered").await;
    finish(gateway, browser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leaked_secret_is_replaced() {
    let (gateway, browser) = signed_in().await;
    let receiver = Receiver::start(run::system_mint().clock().clone()).await.unwrap();
    let former = gateway.hook("second", &receiver.url("/events")).await;
    browser.press("Webhooks").await;
    browser.press("second").await;
    browser.shows("Sends a webhook.test event now.").await;
    browser.choose("The previous secret", "ends at once").await;
    browser.press("Make a new secret").await;
    browser.shows("The secret of second").await;
    let secret = browser.text_of("#secret").await;
    canary::note(secret.as_bytes());
    assert_ne!(secret, former);
    receiver.trust(&secret);
    accepted(&gateway, &signed("after the leak")).await;
    let sent = receiver.wait_for(1, PATIENCE).await.unwrap();
    assert!(sent[0].verified, "the new secret signs");
    // Beside it stands the signature for those who know the public key alone (`v1a`).
    let signatures = sent[0].headers["webhook-signature"].split(' ');
    let by_secret = signatures.filter(|one| one.starts_with("v1,")).count();
    assert_eq!(by_secret, 1, "the former one signs no more");
    finish(gateway, browser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_made_and_gets_its_first_message() {
    let (gateway, browser) = signed_in().await;
    let address = "sales@agents.example";
    let letter = sign(&signer(), &letter_between(ALICE, address, "the first one"));
    let replies = gateway.send(ALICE, &[address], &letter).await;
    assert!(replies.recipients[0].starts_with("550 5.1.1"), "{replies:?}");
    browser.press("Accounts").await;
    browser.shows("Create an Agent").await;
    browser.fill("Name", "Sales desk").await;
    browser.press("Create").await;
    browser.shows("The account is created.").await;
    browser.press("Sales desk").await;
    browser.shows("Every message that comes in will be here").await;
    browser.press("See what is missing").await;
    browser.shows("The Agent has no address").await;
    browser.press("Add an address").await;
    browser.shows("This Agent has no address").await;
    browser.fill("Address", address).await;
    browser.press("Add").await;
    browser.shows("The Agent has the address").await;
    browser.press("Policy").await;
    browser.shows("Draft a change").await;
    browser.choose("Mode", "open").await;
    browser.press("Save without trying").await;
    browser.shows("The policy is saved").await;
    let replies = gateway.send(ALICE, &[address], &letter).await;
    assert!(replies.accepted(), "{replies:?}");
    browser.press("Live").await;
    browser.press("accepted").await;
    browser.press("Read the message").await;
    browser.shows("Hello, this is the first one.").await;
    assert_eq!(gateway.messages().await[0]["metadata"]["emailTo"], json!([address]));
    finish(gateway, browser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_made_and_revoked() {
    let (gateway, browser) = signed_in().await;
    let status = async |key: &str| {
        let url = format!("http://{}/api/v2/account?token={key}", gateway.http);
        http::get(&url).await.status.as_u16()
    };
    browser.press("Keys and members").await;
    browser.shows("Create a key").await;
    browser.fill("Purpose", "a program").await;
    browser.press("Create").await;
    browser.shows("The new key").await;
    let key = browser.text_of("#made").await;
    canary::note(key.as_bytes());
    assert_eq!(status(&key).await, 200);
    browser.press("Keys and members").await;
    browser.wait_for("!document.body.innerText.includes('The new key')").await;
    browser.press_beside("a program", "Revoke").await;
    browser.press_beside("a program", "Revoke: it opens nothing").await;
    browser.shows("The key is revoked").await;
    assert_eq!(status(&key).await, 401);
    assert_eq!(status(&gateway.key).await, 200, "no other key is");
    finish(gateway, browser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_domain_is_claimed_and_proven() {
    let (gateway, browser) = signed_in().await;
    let verified = async || {
        let answer = gateway.get("/domains").await;
        let all = answer["domains"].as_array().unwrap().iter();
        let mut found = all.filter(|entry| entry["domain"] == "new.example");
        found.next().map(|entry| entry["verified"].clone())
    };
    browser.press("Domains").await;
    browser.fill("Domain", "new.example").await;
    browser.press("Claim").await;
    browser.shows("_gatepost.new.example. TXT").await;
    assert_eq!(verified().await, Some(json!(false)));
    let record = browser.text_of("main pre").await;
    let challenge = record.split('"').nth(1).unwrap();
    let name = "_gatepost.new.example";
    gateway.dns.change(|zone| zone.insert(name, "TXT", "NOERROR", challenge)).unwrap();
    browser.press("Look for the record now").await;
    browser.shows("new.example. MX 10").await;
    assert_eq!(verified().await, Some(json!(true)));
    finish(gateway, browser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_of_a_policy_is_tried_and_saved() {
    let (gateway, browser) = signed_in().await;
    let raw = of_carol(AGENT);
    assert!(!gateway.send(CAROL, &[AGENT], &raw).await.accepted());
    go_to_agent(&browser, &gateway, "Policy").await;
    browser.shows("Draft a change").await;
    browser.fill("Add senders", CAROL).await;
    browser.fill("Note", "asked by the desk").await;
    browser.press("Try on the last 30 days").await;
    browser.shows("1 of 1 verdicts would be others").await;
    assert!(!gateway.send(CAROL, &[AGENT], &of_carol(AGENT)).await.accepted(), "only tried");
    browser.press("Save this draft").await;
    browser.shows("The policy is saved").await;
    assert!(gateway.send(CAROL, &[AGENT], &raw).await.accepted());
    let agent = gateway.house.agents["support"].id;
    let list = gateway.get(&format!("/email/inboundWhitelist?targetAccountId={agent}")).await;
    let entry = list["whitelist"].as_array().unwrap().iter().find(|one| one["email"] == CAROL);
    assert_eq!(entry.unwrap()["note"], "asked by the desk");
    finish(gateway, browser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_is_published_and_a_former_one_comes_back() {
    let (gateway, browser) = signed_in().await;
    let agent = gateway.house.agents["support"].id.get();
    let stage = async |title: &str| {
        let body = json!({
            "type": "chatAgent", "title": title, "description": "Answers.", "targetAccountId": agent,
        });
        let (status, answer) = gateway.request("POST", "/agent", Some(body)).await;
        assert_eq!(status, 200, "{answer}");
    };
    let live = async || -> Value {
        let path = format!("/agentEventRules/default?targetAccountId={agent}");
        gateway.get(&path).await["agentEventRules"]["title"].clone()
    };
    stage("First").await;
    go_to_agent(&browser, &gateway, "Configuration").await;
    browser.shows("staging revision").await;
    browser.press("Publish").await;
    browser.shows("The configuration is live").await;
    assert_eq!(live().await, "First");
    stage("Second").await;
    browser.press("Configuration").await;
    browser.shows("Second").await;
    browser.press("Publish").await;
    browser.shows("The configuration is live").await;
    assert_eq!(live().await, "Second");
    browser.press("Bring back to staging").await;
    browser.shows("The version is in staging").await;
    assert_eq!(live().await, "Second");
    browser.press("Publish").await;
    browser.shows("The configuration is live").await;
    assert_eq!(live().await, "First");
    finish(gateway, browser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contact_is_erased() {
    let (gateway, browser) = signed_in().await;
    accepted(&gateway, &signed("to be forgotten")).await;
    let contacts = gateway.get("/contacts").await;
    assert_eq!(contacts["contacts"].as_array().unwrap().len(), 1);
    browser.press("Rooms").await;
    browser.shows("in the inbox").await;
    browser.press("Alice Example").await;
    browser.shows("Hello, this is to be forgotten.").await;
    browser.press("Erase this contact").await;
    browser.press("Erase the contact for ever").await;
    browser.shows("The contact is erased").await;
    assert_eq!(gateway.get("/contacts").await["contacts"], json!([]));
    assert_eq!(gateway.get("/messages/recent").await, json!([]));
    finish(gateway, browser).await;
}
