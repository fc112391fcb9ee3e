//! Sign-in and its end, forms that another site sends, and secrets that no page shows.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Browser, field, send, sign_in};
use crate::domain::audit::Actor;
use crate::domain::member::Role;
use crate::domain::reason::Reason;
use crate::domain::verdict::Verdict;
use crate::http::tests::{House, PATIENCE, Reply};

#[tokio::test]
async fn a_key_is_typed_once_and_a_cookie_that_no_script_reads_follows() {
    let house = House::new().await;
    let refused = sign_in(&house, "gp_wrong").await;
    assert_eq!(refused.status, 401);
    assert!(refused.text().contains("unknown, revoked or expired"), "{}", refused.text());
    assert!(!refused.headers.contains_key("set-cookie"));
    let entered = sign_in(&house, house.token("agent1")).await;
    assert_eq!(entered.status, 303);
    let agent = house.id("agent1");
    assert_eq!(entered.headers["location"], format!("/console/{agent}/live"));
    let cookie = &entered.headers["set-cookie"];
    for word in ["HttpOnly", "SameSite=Strict", "Path=/console", "Max-Age="] {
        assert!(cookie.contains(word), "{cookie}");
    }
    assert!(!cookie.contains("gp_"), "the key is in no cookie: {cookie}");
    // Without a session a page leads to the sign-in, and from there back to the page.
    let page = send(&house, "GET", "/console/7/live?sender=a%40b", "", None).await;
    assert_eq!(page.status, 303);
    let place = &page.headers["location"];
    assert_eq!(place, "/console/sign-in?to=%2Fconsole%2F7%2Flive%3Fsender%3Da%2540b");
}

#[tokio::test]
async fn nobody_is_led_to_another_server_after_the_sign_in() {
    let house = House::new().await;
    let key = house.token("agent1").to_owned();
    for to in ["https://evil.example/", "//evil.example", "/console/\\evil", "/elsewhere"] {
        let form = super::encoded(&[("key", &key), ("to", to)]);
        let entered = send(&house, "POST", "/console/sign-in", "", Some(&form)).await;
        assert!(entered.headers["location"].ends_with("/live"), "{to}: {entered:?}");
    }
    let form = super::encoded(&[("key", &key), ("to", "/console/7/rooms")]);
    let entered = send(&house, "POST", "/console/sign-in", "", Some(&form)).await;
    assert_eq!(entered.headers["location"], "/console/7/rooms");
}

#[tokio::test]
async fn a_session_ends_with_its_key_and_by_signing_out() {
    let house = House::new().await;
    let (first, second) =
        (Browser::of(&house, "agent1").await, Browser::of(&house, "agent1").await);
    let live = format!("/console/{}/live", house.id("agent1"));
    assert_eq!(first.get(&live).await.status, 200);
    let out = first.submit(&live, &[]).await;
    assert_eq!(out.status, 405, "the live page changes nothing");
    let page = first.get(&live).await.text();
    let csrf = field(&page, "csrf");
    let of_another = [("csrf", field(&second.get(&live).await.text(), "csrf"))];
    let of_another = of_another.each_ref().map(|(name, text)| (*name, text.as_str()));
    let refused = first.post("/console/sign-out", &of_another).await;
    assert_eq!((refused.status, refused.headers.get("set-cookie")), (403, None));
    assert_eq!(first.get(&live).await.status, 200, "nothing was ended");
    assert_eq!(first.post("/console/sign-out", &[("csrf", &csrf)]).await.status, 303);
    assert_eq!(first.get(&live).await.status, 303, "it has ended");
    assert_eq!(second.get(&live).await.status, 200, "the other one has not");
    let key = house.token("agent1").to_owned();
    let named = serde_json::json!({ "token": key });
    assert_eq!(house.call("agent1", "DELETE", "/tokens", Some(&named)).await.status, 200);
    let after = second.get(&live).await;
    assert_eq!(
        (after.status, after.headers["location"].split('?').next()),
        (303, Some("/console/sign-in"))
    );
}

#[tokio::test]
async fn sessions_are_listed_and_ended_by_those_who_reach_their_keys() {
    let house = House::new().await;
    let (above, below) = (Browser::of(&house, "org1").await, Browser::of(&house, "agent1").await);
    let foreign = Browser::of(&house, "org2").await;
    let page = |name: &str| format!("/console/{}/sessions", house.id(name));
    let own = below.get(&page("agent1")).await.text();
    let id = &field(&own, "session");
    assert!(!foreign.get(&page("org2")).await.text().contains(id));
    assert_eq!(foreign.submit(&page("org2"), &[("session", id)]).await.status, 404);
    assert!(above.get(&page("org1")).await.text().contains(id));
    assert_eq!(above.submit(&page("org1"), &[("session", id)]).await.status, 303);
    assert_eq!(below.get(&page("agent1")).await.status, 303, "it was ended from above");
}

#[tokio::test]
async fn a_form_that_no_page_of_the_session_sent_changes_nothing() {
    let house = House::new().await;
    let (browser, other) =
        (Browser::of(&house, "agent1").await, Browser::of(&house, "agent1").await);
    let reason = Verdict::Refused(Reason::SenderNotAllowed);
    let record = house.refuse("agent1", reason).await;
    let path = format!("/console/{}/verdicts/{record}", house.id("agent1"));
    let strange = &field(&other.get(&path).await.text(), "csrf");
    for form in [&[][..], &[("csrf", "")], &[("csrf", "wrong")], &[("csrf", strange)]] {
        let refused = browser.post(&path, form).await;
        assert_eq!(refused.status, 403, "{form:?}");
        assert!(refused.text().contains("not of your session"), "{}", refused.text());
    }
    let page = browser.get(&path).await;
    let csrf = &field(&page.text(), "csrf");
    let lines = format!("Cookie: {}\r\nSec-Fetch-Site: cross-site\r\n", browser.cookie);
    let form = super::encoded(&[("csrf", csrf)]);
    let refused = send(&house, "POST", &path, &lines, Some(&form)).await;
    assert_eq!(refused.status, 403);
    // Over plain http a browser says it in Origin alone.
    for (origin, status) in [("http://evil.example", 403), ("null", 403), ("http://h", 404)] {
        let lines = format!("Cookie: {}\r\nOrigin: {origin}\r\n", browser.cookie);
        let form = super::encoded(&[("csrf", csrf), ("session", "x")]);
        let path = format!("/console/{}/sessions", house.id("agent1"));
        assert_eq!(
            send(&house, "POST", &path, &lines, Some(&form)).await.status,
            status,
            "{origin}"
        );
    }
    let list = house.get("agent1", "/email/inboundWhitelist").await.success(200);
    assert_eq!(list["total"], 0, "nothing was added");
    // Nobody frames a page, and a page loads nothing from elsewhere.
    let policy = &page.headers["content-security-policy"];
    assert!(policy.contains("frame-ancestors 'none'") && policy.contains("default-src 'self'"));
    assert!(!policy.contains("unsafe-inline"));
    // The form of the page itself adds the sender, once however often it is sent.
    let preview = format!("{path}?preview=yes");
    assert_eq!(browser.submit(&preview, &[]).await.status, 303);
    let list = house.get("agent1", "/email/inboundWhitelist").await.success(200);
    assert_eq!(
        (&list["total"], &list["whitelist"][0]["email"]),
        (&1.into(), &"boss@good.example".into())
    );
}

#[tokio::test]
async fn wrong_keys_are_counted_as_those_of_the_api() {
    let rates = "[rates]\nreads_per_minute = 0\nwrites_per_minute = 0\nkeyless_per_minute = 3\n\
                 denied_seconds = 1\n";
    let house = House::with(rates).await;
    for _ in 0..3 {
        assert_eq!(sign_in(&house, "gp_wrong").await.status, 401);
    }
    assert_eq!(sign_in(&house, "gp_wrong").await.status, 429);
    assert_eq!(house.send("GET", "/api/v2/account?token=gp_wrong", None).await.status, 429);
}

#[tokio::test]
async fn a_sign_in_ends_the_session_that_the_browser_had() {
    let house = House::new().await;
    let former = Browser::of(&house, "agent1").await;
    let form = super::encoded(&[("key", house.token("agent1"))]);
    let lines = format!("Cookie: {}\r\n", former.cookie);
    let entered = send(&house, "POST", "/console/sign-in", &lines, Some(&form)).await;
    assert_eq!(entered.status, 303);
    let (cookie, _) = entered.headers["set-cookie"].split_once(';').expect("attributes");
    assert_ne!(cookie, former.cookie, "nobody chooses the secret of a session beforehand");
    let live = format!("/console/{}/live", house.id("agent1"));
    assert_eq!(former.get(&live).await.status, 303);
    // Nor do two cookies of the name open anything: somebody else may have set one of them.
    for both in [format!("{cookie}; {}", former.cookie), format!("{cookie}; {cookie}")] {
        let page = send(&house, "GET", &live, &format!("Cookie: {both}\r\n"), None).await;
        assert_eq!(page.status, 303);
    }
    let page = send(&house, "GET", &live, &format!("Cookie: {cookie}\r\n"), None).await;
    assert_eq!(page.status, 200);
}

/// A ticket of a link to the console of this account.
async fn ticket(house: &House, account: &str) -> String {
    let access = &house.http.use_cases.access;
    let link = access.link(house.id(account), 15, &Actor::OPERATOR).await;
    link.unwrap_or_else(|error| panic!("{error}")).secret
}

#[tokio::test]
async fn a_link_that_is_looked_at_is_not_used_up() {
    let house = House::new().await;
    let ticket = ticket(&house, "agent1").await;
    let path = format!("/console/open?ticket={ticket}");
    for _ in 0..3 {
        let page = send(&house, "GET", &path, "", None).await;
        assert_eq!((page.status, page.headers.get("set-cookie")), (200, None));
        assert_eq!(page.headers["referrer-policy"], "no-referrer", "{page:?}");
        assert_eq!(field(&page.text(), "ticket"), ticket);
    }
    let form = super::encoded(&[("ticket", &ticket)]);
    let entered = send(&house, "POST", "/console/open", "", Some(&form)).await;
    assert_eq!(entered.status, 303);
    let live = format!("/console/{}/live", house.id("agent1"));
    assert_eq!(entered.headers["location"], live);
    assert_eq!(send(&house, "POST", "/console/open", "", Some(&form)).await.status, 401);
}

#[tokio::test]
async fn a_link_that_nobody_opened_is_listed_and_withdrawn() {
    let mut house = House::new().await;
    let ticket = ticket(&house, "agent1").await;
    let (above, foreign) = (Browser::of(&house, "org1").await, Browser::of(&house, "org2").await);
    let page = |name: &str| format!("/console/{}/sessions", house.id(name));
    let shown = above.get(&page("org1")).await.text();
    let id = field(&shown, "link");
    assert!(!id.is_empty() && shown.contains("Withdraw") && !shown.contains(&ticket), "{shown}");
    assert_eq!(field(&foreign.get(&page("org2")).await.text(), "link"), "");
    assert_eq!(foreign.submit(&page("org2"), &[("link", &id)]).await.status, 404);
    let withdrawn = above.submit(&page("org1"), &[("link", &id)]).await;
    assert!(withdrawn.headers["location"].ends_with("?done=withdrawn"), "{withdrawn:?}");
    assert_eq!(field(&above.get(&page("org1")).await.text(), "link"), "");
    assert_eq!(above.submit(&page("org1"), &[("link", &id)]).await.status, 404, "it is gone");
    let form = super::encoded(&[("ticket", &ticket)]);
    assert_eq!(send(&house, "POST", "/console/open", "", Some(&form)).await.status, 401);
    // A member who is no administrator sees no link of its organization.
    let second = self::ticket(&house, "org1").await;
    house.join("anna", "org1", Role::Member, &[]).await;
    let anna = Browser::of(&house, "anna").await;
    let page = format!("/console/{}/sessions", house.id("org1"));
    let shown = anna.get(&page).await.text();
    assert!(!shown.contains("Withdraw") && !shown.contains(&second), "{shown}");
}

#[tokio::test]
async fn a_browser_is_the_actor_of_its_session_in_the_audit_log() {
    let house = House::new().await;
    let browser = Browser::of(&house, "agent1").await;
    let live = format!("/console/{}/live", house.id("agent1"));
    let csrf = field(&browser.get(&live).await.text(), "csrf");
    assert_eq!(browser.post("/console/sign-out", &[("csrf", &csrf)]).await.status, 303);
    for action in ["consoleSession.begun", "consoleSession.ended"] {
        let path = format!("/audit?action={action}");
        let log = house.get("agent1", &path).await.success(200);
        let entries = log["audit"].as_array().expect("entries");
        assert_eq!(entries.len(), 1, "{log}");
        assert_eq!(entries[0]["by"]["accountId"], house.id("agent1").get(), "{log}");
        assert!(entries[0]["requestId"].is_string(), "{log}");
        assert_eq!(entries[0]["remoteAddress"], "127.0.0.1", "{log}");
    }
}

#[tokio::test]
async fn a_key_in_an_address_signs_nobody_in_and_is_not_repeated() {
    let house = House::new().await;
    let key = house.token("agent1").to_owned();
    let live = format!("/console/{}/live", house.id("agent1"));
    let spelled = key.replace('_', "%5F");
    for path in [
        format!("{live}?a=b&token={spelled}"),
        format!("{live}?token={}", spelled.replace('%', "%25")),
        format!("/console?ticket={}", key.replace("gp_", "gps_")),
        format!("{live}?token={key}"),
        format!("{live}?key={key}"),
        format!("/console/{key}/live"),
        format!("/console?key={key}"),
        format!("/console/sign-in?key={key}"),
        format!("/console/open?ticket={key}"),
    ] {
        let page = send(&house, "GET", &path, "", None).await;
        assert!(!page.headers.contains_key("set-cookie"), "{page:?}");
        let shown = format!("{:?}{}", page.headers, page.text());
        let secret = key.strip_prefix("gp_").expect("a key");
        assert!(!shown.contains(secret), "{path}: {shown}");
    }
    for line in [format!("Authorization: Bearer {key}"), format!("Cookie: gatepost_console={key}")]
    {
        let page = send(&house, "GET", &live, &format!("{line}\r\n"), None).await;
        assert_eq!(page.status, 303, "{line}");
    }
}

#[tokio::test]
async fn no_page_loads_anything_from_elsewhere_or_is_framed() {
    let house = House::new().await;
    let browser = Browser::of(&house, "agent1").await;
    let id = house.id("agent1").to_string();
    let rows = super::rows().map(|path| path.replace("{account}", &id));
    let open = ["", "/sign-in", "/open?ticket=x", "/nowhere"].map(|path| format!("/console{path}"));
    for path in rows.chain(open) {
        let page = browser.get(&path).await;
        let kind = page.headers.get("content-type").map(String::as_str).unwrap_or_default();
        if kind.starts_with("text/html") {
            let policy = &page.headers["content-security-policy"];
            for rule in ["default-src 'self'", "frame-ancestors 'none'", "form-action 'self'"] {
                assert!(policy.contains(rule), "{path}: {policy}");
            }
            assert!(!policy.contains("unsafe"), "{path}: {policy}");
        } else {
            assert_eq!(page.status, 303, "{path}: {page:?}");
        }
    }
}

#[tokio::test]
async fn a_member_who_is_no_administrator_sees_and_ends_its_own_sessions() {
    let mut house = House::new().await;
    house.join("anna", "org1", Role::Member, &[]).await;
    let (anna, above) = (Browser::of(&house, "anna").await, Browser::of(&house, "org1").await);
    let page = format!("/console/{}/sessions", house.id("org1"));
    let own = anna.get(&page).await.text();
    assert_eq!(own.matches("name=\"session\"").count(), 1, "{own}");
    let all = above.get(&page).await.text();
    assert_eq!(all.matches("name=\"session\"").count(), 2, "{all}");
    let others = all.split("name=\"session\" value=\"").skip(1);
    let mine = field(&own, "session");
    let others: Vec<_> = others.filter_map(|rest| rest.split('"').next()).collect();
    let strange = others.iter().find(|id| **id != mine).expect("the session of org1");
    assert_eq!(anna.submit(&page, &[("session", strange)]).await.status, 404);
    assert_eq!(anna.submit(&page, &[("session", &mine)]).await.status, 303);
    assert_eq!(anna.get(&page).await.status, 303, "it has ended");
}

#[tokio::test]
async fn a_session_that_ends_while_its_form_comes_changes_nothing() {
    let house = House::new().await;
    let received = house.receive("agent1", "Subject: x\r\n\r\nhello", 1).await;
    let browser = Browser::of(&house, "agent1").await;
    let path = format!("/console/{}/messages/{}", house.id("agent1"), received.message);
    let form = super::encoded(&[("csrf", &field(&browser.get(&path).await.text(), "csrf"))]);
    let mut stream = TcpStream::connect(house.address).await.expect("a connection");
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nCookie: {}\r\nExpect: \
         100-continue\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: \
         {}\r\n\r\n",
        browser.cookie,
        form.len()
    );
    stream.write_all(head.as_bytes()).await.expect("the head is sent");
    // The server asks for the form once it has found the session.
    let mut told = [0; 25];
    timeout(PATIENCE, stream.read_exact(&mut told)).await.expect("in time").expect("an answer");
    assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
    let named = serde_json::json!({ "token": house.token("agent1") });
    assert_eq!(house.call("agent1", "DELETE", "/tokens", Some(&named)).await.status, 200);
    stream.write_all(form.as_bytes()).await.expect("the form is sent");
    let refused = Reply::to(b"", &mut stream).await;
    assert_eq!(refused.status, 303);
    assert!(refused.headers["location"].starts_with("/console/sign-in"), "{refused:?}");
    let left = house.get("org1", "/messages/recent").await;
    assert!(left.text().contains(&received.message.to_string()), "{}", left.text());
}
