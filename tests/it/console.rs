//! The console as a browser shows it: pages that everybody can read, sessions, and the way from a
//! complaint to an accepted message. `console_journeys` has the other ways, `console_mail` what mail
//! of strangers does there.

use gatepost::testkit::signer::Signer;
use serde_json::json;

use crate::support::browser::{Browser, Scheme};
use crate::support::{TestGateway, canary, http, letter, letter_between, signed, signer};

pub const AGENT: &str = "support@agents.example";

/// A gateway, and a browser that signed in with the organization's key.
pub async fn signed_in() -> (TestGateway, Browser) {
    let gateway = TestGateway::start().await;
    let browser = Browser::at(&format!("http://{}", gateway.http)).await;
    sign_in(&browser, &gateway.key).await;
    (gateway, browser)
}

pub async fn sign_in(browser: &Browser, key: &str) {
    browser.open("/console").await;
    browser.find("input[name=key]").await.send_keys(key).await;
    browser.find("button.main").await.click().await;
    browser.wait_for("location.pathname.endsWith('/live')").await;
    let cookie = browser.cookie("gatepost_console").await.unwrap();
    canary::note(cookie["value"].as_str().unwrap().as_bytes());
}

pub async fn accepted(gateway: &TestGateway, raw: &[u8]) {
    let replies = gateway.send("alice@good.example", &[AGENT], raw).await;
    assert!(replies.settling().starts_with("250"), "{}", replies.settling());
}

/// Every page of the navigation, of the organization and of an Agent, with a message and a refusal.
async fn every_page_is_sound(scheme: Scheme) {
    let (gateway, browser) = signed_in().await;
    accepted(&gateway, &signed("a page to look at")).await;
    gateway.send("alice@good.example", &[AGENT], letter("unsigned").as_bytes()).await;
    browser.prefer(scheme).await;
    let agent = gateway.house.agents["support"].id;
    let organization = gateway.house.organization.id;
    let mut pages = vec!["/console/sign-in".to_owned(), "/console/open?ticket=x".to_owned()];
    for account in [organization, agent] {
        browser.open(&format!("/console/{account}/live")).await;
        let links = "return [...document.querySelectorAll('.nav a, td a')].map((link) => \
                     link.pathname)";
        let found: Vec<String> = serde_json::from_value(browser.run(links, &[]).await).unwrap();
        assert!(found.len() > 10, "{found:?}");
        pages.extend(found);
        pages.push(format!("/console/{account}/catalog"));
        pages.push(format!("/console/{account}/search?q=page"));
    }
    let messages = gateway.get("/messages/recent").await;
    let uuid = messages[0]["uuid"].as_str().unwrap();
    pages.push(format!("/console/{agent}/messages/{uuid}"));
    pages.push(format!("/console/{agent}/messages/{uuid}/source"));
    pages.push(format!("/console/{agent}/rooms/{}", messages[0]["roomId"].as_str().unwrap()));
    let webhooks = gateway.get("/webhooks").await;
    let webhook = webhooks["webhooks"][0]["id"].as_str().unwrap();
    pages.push(format!("/console/{organization}/webhooks/{webhook}"));
    let mut all = Vec::new();
    for page in pages {
        browser.open(&page).await;
        let faults = browser.faults(scheme).await;
        all.extend(faults.into_iter().map(|fault| format!("{page} {fault}")));
    }
    assert!(all.is_empty(), "{} faults:\n{}", all.len(), all.join("\n"));
    browser.finish().await;
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_can_read_the_console() {
    every_page_is_sound(Scheme::Light).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_can_read_the_console_in_the_dark() {
    every_page_is_sound(Scheme::Dark).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_sender_is_let_in_from_its_verdict() {
    let (gateway, browser) = signed_in().await;
    let key = signer();
    let raw = || sign(&key, &letter_between("carol@good.example", AGENT, "let me in"));
    let refused = gateway.send("carol@good.example", &[AGENT], &raw()).await;
    let reply = refused.settling();
    assert!(reply.starts_with("550"), "{reply}");
    // From a complaint, which quotes the reply, to its cause: the search box.
    let words = reply.replace(['\r', '\n'], " ");
    browser.find("input[name=q]").await.send_keys(words.trim()).await;
    browser.find("input[name=q]").await.send_keys("\u{e007}").await;
    browser.wait_for("location.pathname.includes('/verdicts/')").await;
    browser.find("aside button.main").await.click().await;
    browser.wait_for("location.search.includes('preview')").await;
    let page = browser.run("return document.body.innerText", &[]).await;
    let page = page.as_str().unwrap();
    assert!(page.contains("not on this Agent's allowlist"), "{page}");
    assert!(page.contains("would have got 1 message in"), "{page}");
    browser.find("aside button.main").await.click().await;
    browser.wait_for("document.querySelector('.done')").await;
    let replies = gateway.send("carol@good.example", &[AGENT], &raw()).await;
    assert!(replies.settling().starts_with("250"), "it is on the list now");
    // And its message is found by its words, read, and erased.
    browser.search("let").await;
    browser.wait_for("location.pathname.endsWith('/search')").await;
    browser.find("td.clip a").await.click().await;
    browser.wait_for("location.pathname.includes('/messages/')").await;
    browser.find("form details summary").await.click().await;
    browser.find("button.danger").await.click().await;
    browser.wait_for("document.querySelector('.done')").await;
    assert_eq!(gateway.get("/messages/recent").await, json!([]));
    browser.finish().await;
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_live_page_shows_a_message_as_it_comes_until_the_session_ends() {
    let (gateway, browser) = signed_in().await;
    // A row that is there already stays, so that nobody presses into the void: it keeps its mark.
    gateway.send("eve@evil.example", &[AGENT], b"From: eve@evil.example\r\n\r\n\r\n").await;
    browser.wait_for("document.querySelector('#rows .verdict.bad')").await;
    browser.run("document.querySelector('#rows tr').mark = 'kept'", &[]).await;
    browser.wait_for("document.querySelector('#follow').textContent === 'following'").await;
    accepted(&gateway, &signed("comes while somebody looks")).await;
    browser.wait_for("document.querySelector('#rows .verdict.good')").await;
    browser.wait_for("[...document.querySelectorAll('#rows tr')].pop().mark === 'kept'").await;
    browser.finish().await;
    gateway.finish().await;
}

pub fn sign(signer: &Signer, letter: &str) -> Vec<u8> {
    signer.sign(letter.as_bytes()).unwrap()
}

/// An embedded store has one gateway at a time, so this is PostgreSQL's alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_on_every_gateway_with_its_key_postgres() {
    let gateway = TestGateway::on_postgres().await;
    let second = gateway.second().await;
    let body = json!({ "description": "a person", "type": "admin" });
    let (_, made) = gateway.request("POST", "/tokens", Some(body)).await;
    let browser = Browser::at(&format!("http://{}", gateway.http)).await;
    sign_in(&browser, made["token"]["token"].as_str().unwrap()).await;
    // Cookies know no ports: the other gateway gets the same one, as behind a balancer.
    let elsewhere = format!("http://{}/console", second.http);
    browser.open(&elsewhere).await;
    browser.wait_for("location.pathname.endsWith('/live')").await;
    let body = json!({ "id": made["token"]["id"] });
    assert_eq!(gateway.request("DELETE", "/tokens", Some(body)).await.0, 200);
    browser.find(".nav a[href$='/rooms']").await.click().await;
    browser.wait_for("location.pathname === '/console/sign-in'").await;
    browser.finish().await;
    assert!(second.stop(crate::support::PATIENCE).await);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_saved_under_any_name() {
    let (gateway, browser) = signed_in().await;
    let plain = letter_between("alice@good.example", AGENT, "a file");
    let (head, _) = plain.split_once("\r\n\r\n").unwrap();
    let head = head.replace("text/plain; charset=utf-8", "multipart/mixed; boundary=b");
    let part = "Content-Type: application/pdf\r\nContent-Disposition: attachment; \
                filename*=utf-8''a%20b%20%C3%BC.pdf\r\n\r\n%PDF\r\n";
    let body = format!("--b\r\nContent-Type: text/plain\r\n\r\nHello\r\n--b\r\n{part}--b--\r\n");
    accepted(&gateway, &sign(&signer(), &format!("{head}\r\n\r\n{body}"))).await;
    let messages = gateway.get("/messages/recent").await;
    let (uuid, agent) = (messages[0]["uuid"].as_str().unwrap(), gateway.house.agents["support"].id);
    browser.open(&format!("/console/{agent}/messages/{uuid}")).await;
    let fetched = "const link = document.querySelector(\"a[href*='/parts/']\");\n\
                   const wire = new XMLHttpRequest(); wire.open('GET', link.href, false);\n\
                   wire.send(); return [link.textContent, wire.status, wire.responseText];";
    assert_eq!(browser.run(fetched, &[]).await, json!(["a b ü.pdf", 200, "%PDF"]));
    browser.finish().await;
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_without_the_console_has_no_page_of_it() {
    let gateway = TestGateway::with_settings(|settings| settings.console = false).await;
    for path in ["/console", "/console/sign-in", "/console/1/live"] {
        let answer = http::get(&format!("http://{}{path}", gateway.http)).await;
        assert_eq!(answer.status, 404, "{path}");
    }
    gateway.finish().await;
}

/// With Tab and Enter alone, from the live page to a sender on the list.
#[tokio::test(flavor = "multi_thread")]
async fn a_sender_is_let_in_by_the_keyboard_alone() {
    let (gateway, browser) = signed_in().await;
    let raw = sign(&signer(), &letter_between("carol@good.example", AGENT, "let me in"));
    let replies = gateway.send("carol@good.example", &[AGENT], &raw).await;
    assert!(replies.settling().starts_with("550"), "{}", replies.settling());
    gateway.counts("SELECT COUNT(*) FROM records", 1).await;
    browser.open("/console").await;
    for (entered, there) in [
        ("#rows a", "location.pathname.includes('/verdicts/')"),
        ("aside button.main", "location.search.includes('preview')"),
        ("aside button.main", "document.querySelector('.done')"),
    ] {
        browser.enter(entered).await;
        browser.wait_for(there).await;
    }
    let agent = gateway.house.agents["support"].id;
    let list = format!("/email/inboundWhitelist?targetAccountId={agent}");
    let list = gateway.get(&list).await.to_string();
    assert!(list.contains("carol@good.example"), "{list}");
    browser.finish().await;
    gateway.finish().await;
}
