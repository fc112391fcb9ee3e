//! Attachments, pages and originals, end to end: mail by SMTP, links in the event that follows, and
//! readers who have a link and no key.

use std::time::Duration;

use gatepost::domain::clock::{Clock, Timestamp};
use gatepost::run;
use serde_json::Value;
use url::Url;

use crate::support::{PATIENCE, TestGateway, http, letter, signer};

const FROM: &str = "alice@good.example";
const TO: [&str; 1] = ["support@agents.example"];
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUg==";

/// A page with a picture of its own and one from elsewhere, and an attachment with a name that is
/// no ASCII.
fn with_page() -> Vec<u8> {
    let (head, _) =
        letter("with a page").split_once("\r\n\r\n").map(|(h, t)| (h.to_owned(), t.len())).unwrap();
    let head = head.replace("text/plain; charset=utf-8", "multipart/mixed; boundary=m");
    let message = format!(
        "{head}\r\n\r\n--m\r\nContent-Type: multipart/related; boundary=r\r\n\r\n\
         --r\r\nContent-Type: text/html; charset=utf-8\r\n\r\n\
         <h1 onclick=\"x()\">Grüße</h1><script>x()</script>\
         <img src=\"cid:own@good.example\" alt=own><img src=\"https://good.example/p.gif\" alt=far>\
         <a href=\"javascript:x()\">bad</a> <a href=\"https://good.example/\">good</a>\r\n\
         --r\r\nContent-Type: image/png; name=own.png\r\nContent-ID: <own@good.example>\r\n\
         Content-Disposition: inline\r\nContent-Transfer-Encoding: base64\r\n\r\n{PIXEL}\r\n--r--\r\n\
         --m\r\nContent-Type: application/pdf\r\nContent-Transfer-Encoding: base64\r\n\
         Content-Disposition: attachment; filename*=UTF-8''..%2FPr%C3%BCfung%20%F0%9F%99%82.pdf\r\n\
         \r\nJVBERi0xLjcK\r\n--m--\r\n"
    );
    signer().sign(message.as_bytes()).unwrap()
}

/// The Message record of the event that told of it.
async fn told(gateway: &TestGateway) -> Value {
    let events = gateway.get("/events?limit=200&event=email.received").await;
    events["events"][0]["data"]["message"].clone()
}

fn link(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no link: {value}")).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_gets_the_event_reads_the_files_without_a_key() {
    let mut gateway = TestGateway::start().await;
    let raw = with_page();
    assert!(gateway.send(FROM, &TO, &raw).await.accepted());
    let record = told(&gateway).await;
    let (metadata, attachments) = (&record["metadata"], record["attachments"].as_array().unwrap());
    let open = async |address, path: &str| http::get(&format!("http://{address}{path}")).await;

    let page = open(gateway.http, &link(&metadata["emailHtmlSignedUrl"])).await;
    assert_eq!(page.status, 200);
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    let html = page.text();
    for there in ["<h1>Grüße</h1>", &format!("src=\"data:image/png;base64,{PIXEL}\""), "far", "bad"]
    {
        assert!(html.contains(there), "{there}: {html}");
    }
    for gone in ["script", "onclick", "p.gif", "cid:", "x()"] {
        assert!(!html.contains(gone), "{gone}: {html}");
    }
    let original = open(gateway.http, &link(&metadata["emailRawSignedUrl"])).await;
    assert_eq!((original.status.as_u16(), original.body == raw), (200, true));
    let pdf = attachments.iter().find(|one| one["content-type"] == "application/pdf").unwrap();
    let file = link(&pdf["signed-url"]);
    let answer = open(gateway.http, &file).await;
    assert_eq!((answer.status.as_u16(), answer.text().as_str()), (200, "%PDF-1.7\n"));
    assert_eq!(
        answer.headers["content-disposition"],
        "attachment; filename=\"Pr_fung _.pdf\"; filename*=UTF-8''Pr%C3%BCfung%20%F0%9F%99%82.pdf"
    );
    // The link of v2 works as it did: with a key, and with a key alone.
    let with_key = link(&pdf["content-url"]);
    assert_eq!(open(gateway.http, &with_key).await.status, 401);
    let keyed = open(gateway.http, &format!("{with_key}?token={}", gateway.key)).await;
    assert_eq!(keyed.body, answer.body);
    // Another gateway of the same store knows the link: here the next one, as an embedded store has
    // one at a time.
    gateway.restart().await;
    assert_eq!(open(gateway.http, &file).await.body, answer.body);
    // A day and a minute later it is over, and the event has another.
    let clock = Clock::new(|| now().plus(Duration::from_secs(86_400 + 120)));
    gateway.restart_by(&[], clock).await;
    assert_eq!(open(gateway.http, &file).await.status, 410);
    let record = told(&gateway).await;
    let again = record["attachments"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["content-url"] == pdf["content-url"]);
    let again = link(&again.unwrap()["signed-url"]);
    assert_ne!(again, file);
    assert_eq!(open(gateway.http, &again).await.body, answer.body);
    gateway.finish().await;
}

fn now() -> Timestamp {
    run::system_mint().clock().now()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_opens_on_every_gateway() {
    let gateway = TestGateway::on_postgres().await;
    let second = gateway.second().await;
    assert!(gateway.send(FROM, &TO, &with_page()).await.accepted());
    let file = link(&told(&gateway).await["attachments"][0]["signed-url"]);
    let [here, there] = [gateway.http, second.http].map(|at| format!("http://{at}{file}"));
    let (here, there) = (http::get(&here).await, http::get(&there).await);
    assert_eq!((here.status.as_u16(), there.status.as_u16()), (200, 200));
    assert_eq!(here.body, there.body);
    assert!(second.stop(PATIENCE).await);
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_begin_with_the_public_url() {
    let public = Url::parse("https://mail.example/gate").unwrap();
    let gateway = TestGateway::with_settings(|settings| settings.public_url = Some(public)).await;
    assert!(gateway.send(FROM, &TO, &with_page()).await.accepted());
    let record = told(&gateway).await;
    let metadata = &record["metadata"];
    let file = record["attachments"][0]["signed-url"].clone();
    for url in [&file, &metadata["emailHtmlSignedUrl"], &metadata["emailRawSignedUrl"]] {
        let path = link(url).strip_prefix("https://mail.example/gate").unwrap().to_owned();
        let answer = http::get(&format!("http://{}{path}", gateway.http)).await;
        assert_eq!(answer.status, 200, "{path}");
    }
    assert!(link(&metadata["emailHtml"]).starts_with("/api/v2/media/"));
    gateway.finish().await;
}
