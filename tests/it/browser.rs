//! Pages as a browser shows them: everybody can read them, at any width, light or dark, and they load
//! nothing from elsewhere.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use crate::support::TestGateway;
use crate::support::browser::{Browser, Scheme};

async fn start() -> (TestGateway, Browser) {
    let gateway = TestGateway::start().await;
    let browser = Browser::at(&format!("http://{}", gateway.http)).await;
    (gateway, browser)
}

/// Looks at every page that the navigation of `/docs` names.
async fn the_documentation_is_sound(scheme: Scheme) {
    let (gateway, browser) = start().await;
    browser.prefer(scheme).await;
    browser.open("/docs").await;
    let links = "return [...document.querySelectorAll('.nav a')].map((link) => link.pathname)";
    let pages: Vec<String> = serde_json::from_value(browser.run(links, &[]).await).unwrap();
    assert!(pages.len() > 10, "{pages:?}");
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

#[tokio::test]
async fn everybody_can_read_the_documentation() {
    the_documentation_is_sound(Scheme::Light).await;
}

#[tokio::test]
async fn everybody_can_read_the_documentation_in_the_dark() {
    the_documentation_is_sound(Scheme::Dark).await;
}

#[tokio::test]
async fn operations_are_found_by_words_and_by_keyboard() {
    let (gateway, browser) = start().await;
    browser.open("/docs/errors").await;
    browser.find("body").await.send_keys("/").await;
    browser.wait_for("document.activeElement.id === 'search'").await;
    browser.find("#search").await.send_keys("rotate webhook").await;
    browser.wait_for("document.querySelector('#found a')").await;
    let faults = browser.faults(Scheme::Light).await;
    assert!(faults.is_empty(), "{faults:#?}");
    browser.find("#search").await.send_keys("\u{e007}").await;
    browser.wait_for("location.pathname === '/docs/webhooks' && location.hash").await;
    browser.finish().await;
    gateway.finish().await;
}

/// A page with one fault of each kind that the others must not have.
const BAD: &str = "<!doctype html><html lang=en><title>Bad</title><main><h1>Bad</h1>\n\
    <p style='color: #bbb; background: #fff'>pale</p><div style='width: 2000px'>wide</div>\n\
    <img alt='' src='http://elsewhere.example/seen.png'>\n\
    <script>console.error('at fault'); new WebSocket('ws://elsewhere.example/')</script>";

#[tokio::test]
async fn a_browser_sees_every_kind_of_fault() {
    let (gateway, browser) = start().await;
    let bad = format!("data:text/html;base64,{}", BASE64_STANDARD.encode(BAD));
    browser.open(&bad).await;
    let found = browser.axe().await;
    let pale = found.iter().find(|one| one.rule == "color-contrast").expect("no finding");
    assert_eq!((pale.impact.as_str(), pale.selector.as_str()), ("serious", "p"), "{pale}");
    assert!(browser.scrolls_sideways().await);
    let elsewhere = browser.requests_to_others().await;
    let wanted = ["http://elsewhere.example/seen.png", "ws://elsewhere.example/"];
    assert!(wanted.iter().all(|url| elsewhere.iter().any(|one| one == url)), "{elsewhere:?}");
    let errors = browser.console_errors().await;
    assert!(errors.iter().any(|error| error.contains("at fault")), "{errors:?}");
    browser.open("/docs").await;
    assert_eq!(browser.requests_to_others().await, [""; 0]);
    assert_eq!(browser.console_errors().await, [""; 0]);
    browser.finish().await;
    gateway.finish().await;
}

#[tokio::test]
async fn a_browser_keeps_cookies() {
    let (gateway, browser) = start().await;
    browser.open("/docs").await;
    assert!(browser.cookie("session").await.is_none());
    let cookie = json!({ "name": "session", "value": "hush", "httpOnly": true });
    browser.set_cookie(cookie).await;
    browser.open("/docs/errors").await;
    assert_eq!(browser.cookie("session").await.unwrap()["value"], "hush");
    assert_eq!(browser.run("return document.cookie", &[]).await, "");
    browser.finish().await;
    gateway.finish().await;
}
