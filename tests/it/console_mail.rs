//! Mail of strangers in the console, as a browser shows it: hostile mail does nothing on any page.

use gatepost::mail::scan::scan;
use gatepost::rules::Rules;
use gatepost::testkit::case::Case;
use gatepost::testkit::signer::{Key, Signer};
use gatepost::testkit::smtp_client::{Transaction, deliver};
use serde_json::{Value, json};

use crate::console::{AGENT, accepted, sign, sign_in, signed_in};
use crate::support::browser::Browser;
use crate::support::corpus::{self, say};
use crate::support::{TestGateway, letter_between, signer};

/// Each would change the title, or ask a server, if anything in it ran or loaded.
const HOSTILE: &[&str] = &[
    "<script>top.document.title = 'run'</script>",
    "<img src=x onerror=\"top.document.title = 'run'\"><img src='http://elsewhere.example/a.png'>",
    "<iframe srcdoc=\"<script>top.document.title = 'run'</script>\"></iframe>",
    "<svg onload=\"top.document.title = 'run'\"><a xlink:href='javascript:top.document.title=1'>x",
    "<base href='http://elsewhere.example/'><link rel=stylesheet href='style.css'>",
    "<form action='http://elsewhere.example/'><input autofocus onfocus='top.document.title=1'>",
    "<style>@import 'http://elsewhere.example/a.css'; body { background: \
     url(http://elsewhere.example/b.png) }</style>",
    "<meta http-equiv=refresh content='0; url=http://elsewhere.example/'>",
    "<video src='http://elsewhere.example/v.mp4' autoplay></video><object data='//elsewhere.example'>",
];

/// A page to look at.
struct Page {
    /// Below the organization.
    path: String,
    /// Names it in a fault.
    about: String,
    /// Whether a frame shows what a person sees.
    is_framed: bool,
}

impl Page {
    fn of_message(message: &Value) -> Self {
        let path = format!("messages/{}", message["uuid"].as_str().unwrap());
        let metadata = &message["metadata"];
        let is_framed = metadata["emailHtml"].is_string();
        Self { path, about: metadata["emailSubject"].to_string(), is_framed }
    }

    fn of_source(message: &Value) -> Self {
        let Self { path, about, .. } = Self::of_message(message);
        Self { path: format!("{path}/source"), about, is_framed: false }
    }

    fn of_verdict(record: &Value) -> Self {
        let path = format!("verdicts/{}", record["id"].as_str().unwrap());
        Self { path, about: record["explanation"].to_string(), is_framed: false }
    }
}

/// The faults of pages: a script that ran, a request to another server, an error in the console, which
/// every attempt at these leaves.
async fn faults(gateway: &TestGateway, browser: &Browser, pages: &[Page]) -> Vec<String> {
    let organization = gateway.house.organization.id;
    let mut faults = Vec::new();
    for Page { path, about, is_framed } in pages {
        let path = format!("/console/{organization}/{path}");
        browser.open(&path).await;
        let seen = "return [document.title.endsWith('· Gatepost'), location.pathname + location.search,\n\
                    document.querySelectorAll('main script, main [onload], main [onerror]').length,\n\
                    Boolean(document.querySelector('main h1')),\n\
                    Boolean(document.querySelector('main iframe.letter'))]";
        let seen = browser.run(seen, &[]).await;
        if seen != json!([true, path, 0, true, is_framed]) {
            faults.push(format!("{path} {about}: {seen}"));
        }
        let errors = browser.console_errors().await.into_iter();
        let all = errors.chain(browser.requests_to_others().await);
        faults.extend(all.map(|fault| format!("{path} {about}: {fault}")));
    }
    faults
}

/// The pages of all messages.
async fn pages_of_messages(gateway: &TestGateway) -> Vec<Page> {
    gateway.messages().await.iter().map(Page::of_message).collect()
}

/// The pages of all verdicts on mail that did not become a message.
async fn pages_of_verdicts(gateway: &TestGateway) -> Vec<Page> {
    let (mut pages, mut before) = (Vec::new(), String::new());
    loop {
        let list = gateway.get(&format!("/email/intake?limit=200{before}")).await;
        let records = list["intake"].as_array().unwrap().iter();
        pages.extend(records.filter(|one| one["messageUuid"].is_null()).map(Page::of_verdict));
        let Some(next) = list["next"].as_str() else { return pages };
        before = format!("&before={next}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_mail_does_nothing_on_the_page_of_its_message() {
    let (gateway, browser) = signed_in().await;
    let key = signer();
    let name = "From: \"<img src=x onerror=1>\" <";
    for (number, html) in HOSTILE.iter().enumerate() {
        // As a page, and as a text that happens to be one.
        for kind in ["text/html", "text/plain"] {
            let subject = format!("{number} <script>document.title = 'run'</script>\"'>");
            let plain = letter_between("alice@good.example", AGENT, &subject);
            let (head, _) = plain.split_once("\r\n\r\n").unwrap();
            let head = head.replace("text/plain", kind).replace("From: Alice Example <", name);
            let raw = format!("{head}\r\n\r\n<p>Hello {html}</p>\r\n");
            accepted(&gateway, &sign(&key, &raw)).await;
        }
    }
    let messages = gateway.messages().await;
    let mut pages: Vec<Page> = messages.iter().map(Page::of_message).collect();
    assert_eq!(pages.len(), 2 * HOSTILE.len());
    assert_eq!(pages.iter().filter(|page| page.is_framed).count(), HOSTILE.len());
    pages.extend(messages.iter().map(Page::of_source));
    let room = format!("rooms/{}", messages[0]["roomId"].as_str().unwrap());
    for path in [&room, "rooms", "live", "search?q=hello"] {
        let (path, about) = (path.to_owned(), "a list".to_owned());
        pages.push(Page { path, about, is_framed: false });
    }
    let found = faults(&gateway, &browser, &pages).await;
    assert!(found.is_empty(), "{}", found.join("\n"));
    browser.finish().await;
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_fixture_does_anything_on_the_pages_of_its_message_and_verdict() {
    let gateway = TestGateway::start().await;
    let cases = &Case::groups().unwrap()[0].cases;
    for case in cases {
        let (helo, from, to) = (&*case.script.helo, &*case.script.from, &*case.script.to);
        let transaction = Transaction { helo, from, to, raw: &case.raw() };
        let reply = deliver(gateway.smtp, &transaction).await.unwrap();
        assert_eq!(reply.accepted(), case.script.expect == "accepted", "{}", case.name);
    }
    let mut pages = pages_of_messages(&gateway).await;
    assert!(pages.len() > 100 && pages.iter().any(|page| page.is_framed), "{}", pages.len());
    let verdicts = pages_of_verdicts(&gateway).await;
    assert!(verdicts.len() > 100, "{}", verdicts.len());
    pages.extend(verdicts);
    // Not before: no page that follows the mail is open while it comes, and no browser waits for long.
    let browser = Browser::at(&format!("http://{}", gateway.http)).await;
    sign_in(&browser, &gateway.key).await;
    let found = faults(&gateway, &browser, &pages).await;
    assert!(found.is_empty(), "{} faults:\n{}", found.len(), found.join("\n"));
    browser.finish().await;
    gateway.finish().await;
}

/// As if the domain of each author had signed it, so that it is accepted.
#[tokio::test(flavor = "multi_thread")]
async fn no_message_of_the_corpus_does_anything_on_its_page() {
    let Some(all) = corpus::messages() else {
        return say("pages of messages: the corpus was not given (GATEPOST_CORPUS)");
    };
    let any = "[rates]\nroom_messages_per_minute = 0\nsignature_messages_per_minute = 0\n";
    let gateway = TestGateway::with_rules(&[("intake.toml", any)]).await;
    let key = Key::generate_ed25519().unwrap();
    let limits = Rules::defaults().unwrap().intake.limits;
    for message in &all {
        let Ok(seen) = scan(&message.raw, &limits) else { continue };
        let domain = seen.from.address.domain().as_str().to_owned();
        let signer = Signer::new(key.clone(), &domain, "gatepost").headers(["From", "Subject"]);
        let (name, record) = (signer.key_name(), key.txt_record().unwrap());
        gateway
            .dns
            .change(|zone| {
                zone.remove(&name, "TXT")?;
                zone.insert(&name, "TXT", "NOERROR", &record)
            })
            .unwrap();
        let Ok(raw) = signer.sign(&message.raw) else { continue };
        // Some are refused for their format or a second From; the same one again is a repeat.
        gateway.send("stranger@good.example", &["open@agents.example"], &raw).await;
    }
    let browser = Browser::at(&format!("http://{}", gateway.http)).await;
    sign_in(&browser, &gateway.key).await;
    let pages = pages_of_messages(&gateway).await;
    let framed = pages.iter().filter(|page| page.is_framed).count();
    let found = faults(&gateway, &browser, &pages).await;
    assert!(found.is_empty(), "{} faults:\n{}", found.len(), found.join("\n"));
    say(&format!(
        "pages of messages: opened those of {} of {} messages of other people, {framed} with HTML",
        pages.len(),
        all.len()
    ));
    assert!(pages.len() >= 250 && framed >= 50, "{} {framed}", pages.len());
    browser.finish().await;
    gateway.finish().await;
}
