//! The stream of the live page.

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Browser;
use crate::domain::member::Role;
use crate::domain::reason::Reason;
use crate::domain::verdict::Verdict;
use crate::http::tests::{House, PATIENCE};

/// A live page that is followed.
struct Follower {
    stream: TcpStream,
    text: String,
}

impl Follower {
    async fn of(house: &House, browser: &Browser<'_>, account: &str) -> Self {
        let mut stream = TcpStream::connect(house.address).await.expect("a connection");
        let (cookie, account) = (&browser.cookie, house.id(account));
        let head = format!(
            "GET /console/{account}/live/stream HTTP/1.1\r\nHost: h\r\nCookie: {cookie}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("the request is sent");
        let mut follower = Self { stream, text: String::new() };
        let head = follower.until("\r\n\r\n").await;
        // The first event may have come with it.
        head.split_once("\r\n\r\n").expect("its end").1.clone_into(&mut follower.text);
        follower
    }

    /// Reads until these words are there; returns all that came since the last call.
    async fn until(&mut self, words: &str) -> String {
        let reading = async {
            let mut octets = [0; 4096];
            while !self.text.contains(words) {
                let count = self.stream.read(&mut octets).await.expect("a stream");
                assert!(count > 0, "it has ended: {}", self.text);
                self.text.push_str(&String::from_utf8_lossy(&octets[..count]));
            }
        };
        timeout(PATIENCE, reading).await.unwrap_or_else(|_| panic!("{words} never comes"));
        std::mem::take(&mut self.text)
    }
}

const REFUSED: Verdict = Verdict::Refused(Reason::DkimMissing);

#[tokio::test]
async fn who_follows_sees_what_the_rights_of_the_moment_allow() {
    let mut house = House::new().await;
    let member = house.join("anna", "org1", Role::Member, &[]).await;
    let browser = Browser::of(&house, "anna").await;
    let mut follower = Follower::of(&house, &browser, "org1").await;
    let first = house.refuse("agent2", REFUSED).await.to_string();
    follower.until(&first).await;
    let only = json!({
        "targetMemberId": member.id.get(), "permittedAccountIds": [house.id("agent1").get()],
    });
    assert_eq!(house.call("org1", "PUT", "/member", Some(&only)).await.status, 201);
    let hidden = house.refuse("agent2", REFUSED).await.to_string();
    let shown = house.refuse("agent1", REFUSED).await.to_string();
    let text = follower.until(&shown).await;
    assert!(!text.contains(&hidden), "{text}");
}

/// A page that was paused shows at once what came in meanwhile.
#[tokio::test]
async fn who_begins_to_follow_gets_all_rows() {
    let house = House::new().await;
    let earlier = house.refuse("agent1", REFUSED).await.to_string();
    let browser = Browser::of(&house, "agent1").await;
    let mut follower = Follower::of(&house, &browser, "agent1").await;
    follower.until(&earlier).await;
}

#[tokio::test]
async fn as_many_follow_as_may_read_the_log() {
    let rules = "[events]\nmax_waiting = 3\nmax_waiting_per_account = 2\nmax_waiting_per_key = 1\n";
    let house = House::with(rules).await;
    let browser = Browser::of(&house, "agent1").await;
    let follower = Follower::of(&house, &browser, "agent1").await;
    let path = format!("/console/{}/live/stream", house.id("agent1"));
    let second = browser.get(&path).await;
    assert_eq!(second.status, 429, "{}", second.text());
    assert!(second.headers.contains_key("retry-after"), "{second:?}");
    drop(follower);
}
