//! Pages of other origins, as browsers ask for them (Fetch, "CORS protocol"; threats E13).

use reqwest::{Client, Method, Response};

use crate::support::TestGateway;

const OURS: &str = "https://app.example.com";

async fn gateway(origins: &[&str]) -> TestGateway {
    let origins = origins.iter().map(|one| (*one).to_owned()).collect();
    TestGateway::with_settings(|settings| settings.cors_origin = origins).await
}

async fn asked(gateway: &TestGateway, method: Method, (path, origin): (&str, &str)) -> Response {
    let url = format!("http://{}/api/v2{path}", gateway.http);
    let is_preflight = method == Method::OPTIONS;
    let mut request = Client::new().request(method, url).header("Origin", origin);
    if is_preflight {
        request = request
            .header("Access-Control-Request-Method", "PUT")
            .header("Access-Control-Request-Headers", "content-type,idempotency-key");
    }
    request.send().await.unwrap()
}

fn allowed(response: &Response) -> Option<&str> {
    response.headers().get("access-control-allow-origin").map(|value| value.to_str().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_origins_that_are_named_may_call() {
    let gateway = gateway(&["https://other.example", OURS]).await;
    let path = "/email/inboundPolicy";
    let preflight = asked(&gateway, Method::OPTIONS, (path, OURS)).await;
    assert_eq!((preflight.status().as_u16(), allowed(&preflight)), (200, Some(OURS)));
    let header = |name: &str| preflight.headers()[name].to_str().unwrap().to_ascii_lowercase();
    assert_eq!(header("access-control-allow-methods"), "get,post,put,delete");
    assert_eq!(header("access-control-allow-headers"), "*,authorization");
    assert_eq!(header("access-control-max-age"), "600");
    assert!(header("vary").contains("origin"));
    assert!(!preflight.headers().contains_key("access-control-allow-credentials"));
    // Answers and problems alike, with the headers that say more.
    let key = &gateway.key;
    for (path, status) in [(format!("/account?token={key}"), 200), ("/account".to_owned(), 401)] {
        let answer = asked(&gateway, Method::GET, (&path, OURS)).await;
        assert_eq!((answer.status().as_u16(), allowed(&answer)), (status, Some(OURS)));
        assert_eq!(answer.headers()["access-control-expose-headers"], "*");
    }
    // Pages of others learn nothing from it.
    for other in ["https://app.example.com.evil.example", "http://app.example.com", "null"] {
        let preflight = asked(&gateway, Method::OPTIONS, (path, other)).await;
        assert_eq!(allowed(&preflight), None, "{other}");
        let answer = asked(&gateway, Method::GET, (&format!("/account?token={key}"), other)).await;
        assert_eq!(allowed(&answer), None, "{other}");
    }
    gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_no_origin_is_named_no_page_may_call() {
    let gateway = gateway(&[]).await;
    let preflight = asked(&gateway, Method::OPTIONS, ("/account", OURS)).await;
    assert_eq!((preflight.status().as_u16(), allowed(&preflight)), (405, None));
    let key = &gateway.key;
    let answer = asked(&gateway, Method::GET, (&format!("/account?token={key}"), OURS)).await;
    assert_eq!((answer.status().as_u16(), allowed(&answer)), (200, None));
    gateway.finish().await;
}
