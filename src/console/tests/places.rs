//! Pages that show texts of messages take places among the downloads.

use std::sync::Arc;

use tokio::time::timeout;

use super::Browser;
use crate::http::tests::{House, PATIENCE};

/// Waits until so many requests have their share of the places. Each takes one for its key, and one
/// for its account.
async fn until_taken(house: &House, requests: usize) {
    let taken = async {
        while house.http.downloads.shares() < 2 * requests {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, taken).await.expect("they come");
}

#[tokio::test]
async fn a_page_with_texts_of_messages_waits_for_a_place_and_gives_it_back() {
    let house = House::with("[limits]\nmax_downloads = 1\n").await;
    let received = house.receive("agent1", "Subject: x\r\n\r\nhello", 1).await;
    let browser = Browser::of(&house, "agent1").await;
    let at = |page: String| format!("/console/{}{page}", house.id("agent1"));
    let places = &house.http.downloads.places;
    for path in [
        at(format!("/messages/{}", received.message)),
        at(format!("/messages/{}/source", received.message)),
        at(format!("/rooms/{}", received.room)),
        at("/search?q=hello".into()),
    ] {
        let taken = Arc::clone(places).acquire_owned().await.expect("a place");
        // Others wait for nothing.
        assert_eq!(browser.get(&at("/live".into())).await.status, 200);
        let asking = browser.get(&path);
        tokio::pin!(asking);
        tokio::select! {
            page = &mut asking => panic!("{path} did not wait: {}", page.status),
            () = until_taken(&house, 1) => {}
        }
        drop(taken);
        let page = asking.await;
        assert_eq!(page.status, 200, "{path}: {}", page.text());
        assert!(
            page.text().contains("hello") && page.text().trim_end().ends_with("</html>"),
            "{path}"
        );
        assert!(page.headers["content-security-policy"].contains("frame-ancestors 'none'"));
        assert_eq!(page.headers["content-length"], page.text().len().to_string());
        assert_eq!(places.available_permits(), 1, "{path}");
    }
    // Nor does one keep it that shows nothing.
    let nobodys = at(format!("/messages/{}", uuid::Uuid::nil()));
    assert_eq!(browser.get(&nobodys).await.status, 404);
    assert_eq!(places.available_permits(), 1);
}

#[tokio::test]
async fn a_key_has_a_share_of_the_places_for_pages() {
    let house = House::with("[limits]\nmax_downloads = 1\n").await;
    let received = house.receive("agent1", "Subject: x\r\n\r\nhello", 1).await;
    let browser = Browser::of(&house, "agent1").await;
    let path = format!("/console/{}/messages/{}", house.id("agent1"), received.message);
    let taken = Arc::clone(&house.http.downloads.places).acquire_owned().await.expect("a place");
    let waiting = async { tokio::join!(browser.get(&path), browser.get(&path)) };
    tokio::pin!(waiting);
    tokio::select! {
        _ = &mut waiting => panic!("they did not wait"),
        () = until_taken(&house, 2) => {}
    }
    let refused = browser.get(&path).await;
    assert_eq!(refused.status, 429);
    assert!(refused.text().contains("too many downloads at once"), "{}", refused.text());
    drop(taken);
    let (one, two) = waiting.await;
    assert_eq!((one.status, two.status), (200, 200));
}
