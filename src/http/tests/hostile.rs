//! Input that is malformed, contradictory, or too much (threats E2, E3, E10, E11, E12).

use serde_json::json;

use crate::http::tests::{House, Reply};

#[tokio::test]
async fn targets_in_query_and_body_must_agree() {
    let house = House::new().await;
    let (one, other) = (house.id("agent1").get(), house.id("agent2").get());
    for (in_query, in_body, expected) in [
        (one, json!(one), 200),
        (one, json!(one.to_string()), 200),
        (one, json!(other), 400),
        (other, json!(one.to_string()), 400),
    ] {
        let path = format!("/email/inboundPolicy?targetAccountId={in_query}");
        let body = json!({ "mode": "open", "targetAccountId": in_body });
        let reply = house.call("partner", "PUT", &path, Some(&body)).await;
        assert_eq!(reply.status, expected, "{}", reply.text());
    }
    let untouched = house.tenancy.policy(house.id("agent2")).await.unwrap();
    assert_eq!(untouched.mode.as_str(), "allowlist");
}

#[tokio::test]
async fn a_key_in_any_other_form_is_no_key() {
    let house = House::new().await;
    let token = house.token("agent1").to_owned();
    let long = "a".repeat(60_000);
    let (none, twice) = ("there is no key in this request", "there more than once");
    for (query, words) in [
        (String::new(), none),
        (format!("token={token}&token={token}"), twice),
        (format!("token={token}&t%6Fken=x"), twice),
        (format!("token[]={token}"), none),
        (format!("Token={token}"), none),
    ] {
        let reply = house.send("GET", &format!("/api/v2/account?{query}"), None).await;
        reply.problem(401, "unauthorized", words);
    }
    for query in [
        "token".into(),
        "token=".into(),
        format!("token={token}x"),
        format!("token=%20{token}"),
        format!("token={token}%00"),
        format!("token={}", &token[..45]),
        format!("token={}", token.to_uppercase()),
        "token='%20OR%201=1--".into(),
        "token=%F0%9F%94%91".into(),
        "token=%ff%fe".into(),
        format!("token={long}"),
        format!("token=gp_{long}"),
    ] {
        let reply = house.send("GET", &format!("/api/v2/account?{query}"), None).await;
        reply.problem(401, "unauthorized", "the key is unknown, revoked, expired");
    }
    let in_header = format!(
        "GET /api/v2/account HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\
         Authorization: Bearer {token}\r\nCookie: token={token}\r\n\r\n"
    );
    house.exchange(in_header.as_bytes()).await.problem(
        401,
        "unauthorized",
        "reads no Authorization header",
    );
    let encoded = token.replace('_', "%5F");
    let reply = house.send("GET", &format!("/api/v2/account?t%6Fken={encoded}"), None).await;
    reply.success(200);
}

#[tokio::test]
async fn queries_and_paths_are_read_strictly() {
    let house = House::new().await;
    for (path, words) in [
        ("/account?x=1", "\"x\" is not known"),
        ("/messages/recent?limit=5&limit=5", "limit is sent twice"),
        ("/messages/recent?limit=%zz", "percent-encoding"),
        ("/messages/recent?limit=0", "1 to 200"),
        ("/messages/recent?limit=201", "1 to 200"),
        ("/messages/recent?limit=-1", "1 to 200"),
        ("/messages/recent?limit=05", "1 to 200"),
        ("/messages/recent?limit=", "1 to 200"),
        (
            "/messages/recent?before=x",
            "/before must be a cursor of an earlier answer, or an id of this list",
        ),
        (
            "/messages/recent?after=1-2'%20OR%20'1'='1",
            "/after must be a cursor of an earlier answer, or an id of this list",
        ),
        ("/messages/1:2/raw", "must be a UUID"),
        ("/messages/%00/raw", "must be a UUID"),
        ("/messages/..%2f..%2fetc%2fpasswd/raw", "must be a UUID"),
        ("/messages/%ff/raw", "not UTF-8"),
        ("/email/intake/urn:uuid:0198c0de-0000-7000-8000-000000000000", "must be a UUID"),
    ] {
        house.get("partner", path).await.problem(400, "invalid_request", words);
    }
    let long = format!("/account?targetAccountId={}", "1".repeat(9000));
    house.get("partner", &long).await.problem(400, "invalid_request", "longer than 8192");
}

#[tokio::test]
async fn the_beginning_of_a_path_says_where_it_goes_on() {
    let house = House::new().await;
    for path in ["/", "/api/v2"] {
        let here = house.send("GET", path, None).await;
        assert_eq!(here.status, 200, "{path}");
        for place in ["docs", "openapi", "alive", "ready"] {
            let place = here.json()[place].as_str().unwrap().to_owned();
            assert_ne!(house.send("GET", &place, None).await.status, 404, "{place}");
        }
    }
}

#[tokio::test]
async fn paths_lead_nowhere_else() {
    let house = House::new().await;
    let token = house.token("partner");
    for path in [
        "/api",
        "/api/v2/",
        "/api/v2/nothing",
        "/api/v2/account/",
        "/api/v2//account",
        "/api/v2/media/../../etc/passwd",
        "/api/v2/media/%2e%2e/%2e%2e/x",
        "/api/v2/media/x/../../account",
        "/API/V2/account",
        "/healthz/x",
    ] {
        let reply = house.send("GET", &format!("{path}?token={token}"), None).await;
        reply.problem(404, "not_found", "nothing at this path");
    }
    let reply = house.call("partner", "PATCH", "/webhooks", None).await;
    reply.problem(405, "method_not_allowed", "Allow");
    let allow = &reply.headers["allow"];
    assert!(["GET", "POST", "DELETE"].iter().all(|method| allow.contains(method)), "{allow}");
    house.send("POST", "/healthz", None).await.problem(405, "method_not_allowed", "Allow");
    // A HEAD is a GET without its body, errors too.
    let reply = house.send("HEAD", "/api/v2/account", None).await;
    assert_eq!((reply.status, reply.body.len()), (401, 0));
}

async fn put_policy(house: &House, content_type: &str, body: &str) -> Reply {
    let id = house.id("agent1");
    let token = house.token("partner");
    // A body that names the target does so alone.
    let query = if body.contains("targetAccountId") {
        format!("token={token}")
    } else {
        format!("token={token}&targetAccountId={id}")
    };
    let target = format!("/api/v2/email/inboundPolicy?{query}");
    house.send("PUT", &target, Some((content_type, body))).await
}

#[tokio::test]
async fn a_body_is_one_json_object_of_known_fields() {
    let house = House::new().await;
    for (body, words) in [
        ("", "a body is missing"),
        ("[]", "must be a JSON object"),
        ("\"open\"", "must be a JSON object"),
        ("{\"mode\":\"open\"", "not valid JSON"),
        ("{\"mode\":\"open\"} x", "not valid JSON"),
        ("mode=open", "not valid JSON"),
        ("{}", "/mode is missing: send one of: allowlist, open"),
        (r#"{"mode":"open","mode":"open"}"#, "field \"mode\" is sent twice"),
        (r#"{"mode":"open","superAdmin":true}"#, "field \"superAdmin\" is not known"),
        (r#"{"mode":"open","__proto__":{}}"#, "field \"__proto__\" is not known"),
        (r#"{"mode":null}"#, "/mode must be one of: allowlist, open"),
        (r#"{"mode":["open"]}"#, "/mode must be one of: allowlist, open"),
        (r#"{"mode":"Open"}"#, "/mode must be one of: allowlist, open"),
        (r#"{"mode":""}"#, "/mode must be one of: allowlist, open"),
    ] {
        let reply = put_policy(&house, "application/json", body).await;
        reply.problem(400, "invalid_request", words);
    }
    let policy = house.tenancy.policy(house.id("agent1")).await.unwrap();
    assert_eq!((policy.mode.as_str(), policy.version), ("allowlist", 1));
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"]
    {
        let reply = put_policy(&house, content_type, r#"{"mode":"open"}"#).await;
        reply.problem(415, "unsupported_media_type", "application/json");
    }
    put_policy(&house, "Application/JSON; charset=utf-8", r#"{"mode":"open"}"#).await.success(200);
    let reply = house.call("agent1", "GET", "/email/inboundPolicy", Some(&json!({}))).await;
    reply.problem(400, "invalid_request", "takes no body");
}

#[tokio::test]
async fn bodies_are_bounded_in_size_depth_and_coding() {
    let house = House::new().await;
    let large = format!(r#"{{"mode":"{}"}}"#, "x".repeat(3 << 20));
    let reply = put_policy(&house, "application/json", &large).await;
    reply.problem(413, "payload_too_large", "more than 1048576 bytes");
    let deep = format!(r#"{{"mode":{}"#, "[".repeat(100_000));
    let reply = put_policy(&house, "application/json", &deep).await;
    reply.problem(400, "invalid_request", "recursion limit");
    let head = format!(
        "PUT /api/v2/email/inboundPolicy?token={} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\
         Content-Type: application/json\r\n",
        house.token("agent1")
    );
    // curl waits for 100 (Continue) before a large body, and gets the refusal at once.
    let asked = format!("{head}Content-Length: 104857600\r\nExpect: 100-continue\r\n\r\n");
    let reply = house.exchange(asked.as_bytes()).await;
    reply.problem(413, "payload_too_large", "send less");
    let packed = format!("{head}Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{{}}");
    let reply = house.exchange(packed.as_bytes()).await;
    reply.problem(415, "unsupported_media_type", "Content-Encoding");
    let chunks = "fff\r\n".to_owned() + &"x".repeat(0xfff) + "\r\n";
    let chunked =
        format!("{head}Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n", chunks.repeat(300));
    let reply = house.exchange(chunked.as_bytes()).await;
    reply.problem(413, "payload_too_large", "send less");
}

#[tokio::test]
async fn contradictory_framing_and_huge_heads_are_refused() {
    let house = House::new().await;
    let token = house.token("agent1");
    let line = format!("GET /api/v2/account?token={token} HTTP/1.1\r\nHost: h\r\n");
    let smuggled = format!(
        "{line}Content-Length: 4\r\nContent-Length: 30\r\n\r\nabcdGET /healthz HTTP/1.1\r\n\r\n"
    );
    assert_eq!(house.exchange(smuggled.as_bytes()).await.status, 400);
    let fat = format!("{line}X: {}\r\n\r\n", "x".repeat(200_000));
    assert_eq!(house.exchange(fat.as_bytes()).await.status, 431);
    let many = format!("{line}{}\r\n", "X: y\r\n".repeat(200));
    assert_eq!(house.exchange(many.as_bytes()).await.status, 431);
    let vast = format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(65_600));
    assert!([414, 431].contains(&house.exchange(vast.as_bytes()).await.status));
    house.get("agent1", "/account").await.success(200);
}
