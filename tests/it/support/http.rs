//! Answers of the API: every test that asks it reads them here, so that all of them are kept.

use reqwest::header::HeaderMap;
use reqwest::{Response, StatusCode};

use super::canary;

/// An answer that has been read to its end.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The answer to a GET.
pub async fn get(url: &str) -> Answer {
    read("GET", reqwest::get(url).await.unwrap()).await
}

/// The answer to a GET, if anybody answers.
pub async fn get_if_there(url: &str) -> Option<Answer> {
    Some(read("GET", reqwest::get(url).await.ok()?).await)
}

/// The answer to a request of this method.
pub async fn read(method: &str, response: Response) -> Answer {
    let (url, status, headers) =
        (response.url().clone(), response.status(), response.headers().clone());
    let body = response.bytes().await.unwrap().to_vec();
    canary::note(url.as_str().as_bytes());
    let what = format!("{method} {} {status}", url.path());
    // The request body is unknown here; keys are in the URL.
    let request = format!("{method} {url}");
    // The console answers a sign-in by leading to a page, with the key of the session in a cookie.
    let succeeded = status.is_success() || status == StatusCode::SEE_OTHER;
    let seen = [format!("{headers:?}\n").as_bytes(), &body].concat();
    canary::keep(&what, &seen, canary::shows(request.as_bytes(), succeeded));
    Answer { status, headers, body }
}
