//! A caller over its rate is told so, and delays no other.

use crate::http::tests::{House, Reply};

/// So few per minute that none comes back during a test.
const TWO_READS: &str = "[rates]\nreads_per_minute = 2\nwrites_per_minute = 1\n\
                         keyless_per_minute = 0\n";
const TWO_FAILURES: &str = "[rates]\nreads_per_minute = 0\nwrites_per_minute = 0\n\
                            keyless_per_minute = 2\n";

fn seconds(reply: &Reply, header: &str, name: &str) -> u64 {
    let text = &reply.headers[header];
    let found = text.split(';').find_map(|part| part.strip_prefix(&format!("{name}=")));
    found.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
}

#[tokio::test]
async fn a_key_that_asks_for_too_much_is_told_when_to_go_on() {
    let house = House::with(TWO_READS).await;
    for left in [1, 0] {
        let reply = house.get("agent1", "/account").await;
        reply.success(200);
        assert_eq!(reply.headers["ratelimit-policy"], "\"read\";q=2;w=60");
        assert!(reply.headers["ratelimit"].starts_with(&format!("\"read\";r={left};t=")));
        assert!((1..=60).contains(&seconds(&reply, "ratelimit", "t")));
    }
    let refused = house.get("agent1", "/email/inboundPolicy").await;
    refused.problem(429, "rate_limited", "Retry-After");
    let wait: u64 = refused.headers["retry-after"].parse().unwrap();
    assert!((1..=30).contains(&wait), "{wait}");
    assert_eq!(refused.headers["ratelimit-policy"], "\"read\";q=2;w=60");
    assert_eq!(seconds(&refused, "ratelimit", "r"), 0);
    // Refused before its rights are checked.
    house.get("agent1", "/account?x=1").await.problem(
        429,
        "rate_limited",
        "too many requests to read",
    );
    // Changes and other keys are counted apart; errors have the headers, too.
    let body = Some(r#"{"mode":"closed"}"#);
    let reply = house.exact("agent1", ("PUT", "/email/inboundPolicy"), "", body).await;
    reply.problem(400, "invalid_request", "mode");
    assert_eq!(reply.headers["ratelimit-policy"], "\"write\";q=1;w=60");
    house.get("agent2", "/account").await.success(200);
    // The answer does not wait for a body that never comes.
    let head = format!(
        "PUT /api/v2/email/inboundPolicy?token={} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n",
        house.token("agent1")
    );
    let reply = house.exchange(head.as_bytes()).await;
    reply.problem(429, "rate_limited", "too many requests to write");
    // Without a key no rate is shown.
    let reply = house.send("GET", "/api/v2/account", None).await;
    reply.problem(401, "unauthorized", "token");
    assert!(!reply.headers.contains_key("ratelimit"));
}

/// A request from this address with this key.
async fn from(house: &House, address: &str, token: &str) -> u16 {
    let request = format!(
        "GET /api/v2/account?token={token} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\
         X-Forwarded-For: {address}\r\n\r\n"
    );
    let reply = house.exchange(request.as_bytes()).await;
    if reply.status == 429 {
        reply.problem(429, "rate_limited", "without a valid key");
        let wait: u64 = reply.headers["retry-after"].parse().unwrap();
        assert!((1..=60).contains(&wait), "{wait}");
        assert!(!reply.headers.contains_key("ratelimit"));
    }
    reply.status
}

#[tokio::test]
async fn guessing_slows_down_and_locks_no_key_out() {
    let house = House::with(TWO_FAILURES).await;
    let guess = |number: usize| format!("gp_{number:043}");
    let (office, used, fresh) = ("192.0.2.1", house.token("agent1"), house.token("agent2"));
    assert_eq!(from(&house, office, used).await, 200);
    for number in 0..2 {
        assert_eq!(from(&house, office, &guess(number)).await, 401);
    }
    for number in 0..20 {
        assert_eq!(from(&house, office, &guess(number)).await, 429);
        assert_eq!(from(&house, office, "").await, 429);
        assert_eq!(from(&house, office, used).await, 200, "it was valid before");
    }
    assert_eq!(from(&house, office, fresh).await, 429, "nobody knows it yet");
    assert_eq!(from(&house, "192.0.2.2", fresh).await, 200);
    assert_eq!(from(&house, office, fresh).await, 200, "now it is known");
    // IPv6: neighbours in a /64 are one.
    for (address, status) in [
        ("2001:db8::1", 401),
        ("2001:db8::2", 401),
        ("2001:db8::3", 429),
        ("2001:db8:0:1::1", 401),
        // A malformed address counts as the proxy's own.
        ("2001:db8::4:80, x", 401),
    ] {
        assert_eq!(from(&house, address, &guess(7)).await, status, "{address}");
    }
    // A revoked key is refused at once, and counts as a guess from then on.
    let key = house.store.keys(house.id("agent1")).await.unwrap()[0].id;
    house.tenancy.revoke_key(key).await.unwrap();
    assert_eq!(from(&house, office, used).await, 401);
    assert_eq!(from(&house, office, used).await, 429);
    // A health check needs no key, and has no rate.
    house.send("GET", "/healthz", None).await.success(200);
}
