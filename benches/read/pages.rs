//! Pages of the console, asked for as a browser does that signed in with the partner's key: it sees
//! all accounts of the store.

use gatepost::testkit::smtp_client::{Transaction, deliver};
use reqwest::header::{CONTENT_TYPE, COOKIE, SET_COOKIE};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder};
use serde_json::Value;

use super::accounts::Accounts;
use super::fill;
use super::support::letter;
use super::support::process::Server;
use super::support::site::Site;

/// Names of the measured pages, each with its request. Sends a message without a signature first:
/// its record has all that the page of a verdict shows.
pub async fn requests(
    server: &Server,
    site: &Site,
    accounts: &Accounts,
) -> Vec<(String, RequestBuilder)> {
    let key = |sought| accounts.readers().find(|(who, _)| *who == sought).unwrap().1;
    let client = Client::builder().redirect(Policy::none()).build().unwrap();
    let base = format!("http://{}", server.http);
    let signing_in = client.post(format!("{base}/console/sign-in"));
    let signing_in = signing_in.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    let answer = signing_in.body(format!("key={}", key("partner"))).send().await.unwrap();
    let cookie = answer.headers()[SET_COOKIE].to_str().unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();

    let (raw, to) = (letter("unsigned"), ["support@agents.example".to_owned()]);
    let from = "alice@good.example";
    let transaction = Transaction { helo: "client.example", from, to: &to, raw: raw.as_bytes() };
    deliver(server.smtp, &transaction).await.unwrap();
    let asked = async |path: &str| -> Value {
        let text = client.get(format!("{base}/api/v2{path}")).send().await.unwrap().text().await;
        serde_json::from_str(&text.unwrap()).unwrap()
    };
    let record = asked(&format!("/email/intake?limit=1&verdict=refused&token={}", site.key)).await;
    let record = record["intake"][0]["id"].as_str().unwrap().to_owned();
    let message = asked(&format!("/messages/recent?limit=1&token={}", key("Agent"))).await;
    let (uuid, room) = (message[0]["uuid"].clone(), message[0]["roomId"].clone());
    let (uuid, room) = (uuid.as_str().unwrap(), room.as_str().unwrap());

    let (partner, agent) = (site.house.partner.id, site.house.agents["support"].id);
    let of_agent = |page: &str| format!("{base}/console/{agent}{page}");
    let of_partner = |page: &str| format!("{base}/console/{partner}{page}");
    [
        ("live", of_partner("/live")),
        ("live, refused only", of_partner("/live?verdict=refused")),
        ("verdict", of_partner(&format!("/verdicts/{record}"))),
        ("message", of_partner(&format!("/messages/{uuid}"))),
        ("rooms", of_partner("/rooms")),
        ("one room", of_partner(&format!("/rooms/{room}"))),
        ("refused, a month", of_partner("/refused?period=month")),
        ("policy", of_agent("/policy")),
        ("agent", of_agent("/agent")),
        ("setup", of_agent("/setup")),
        ("accounts", of_partner("/accounts")),
        ("domains", of_partner("/domains")),
        ("keys", of_partner("/keys")),
        ("audit", of_partner("/audit")),
        ("webhooks", of_partner("/webhooks")),
        ("event catalogue", of_partner("/catalog")),
        ("system", of_partner("/system")),
        ("sessions", of_partner("/sessions")),
        ("search, a common word", of_partner(&format!("/search?q={}", fill::COMMON))),
        ("search, a rare word", of_partner(&format!("/search?q={}", fill::RARE))),
    ]
    .map(|(page, url)| (format!("console, {page}"), client.get(url).header(COOKIE, &cookie)))
    .into()
}

/// Rows and cards of a page.
pub fn items(page: &[u8]) -> usize {
    let page = String::from_utf8_lossy(page);
    page.matches("<tr").count() + page.matches("<article").count()
}
