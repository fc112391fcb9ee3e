//! An answer, read to the end of its connection, and the checks of every answer.

use std::collections::BTreeMap;

use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::http::tests::{PATIENCE, canary, described};

/// An answer, as it came over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// By lower-case name.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) async fn read(stream: &mut TcpStream) -> Self {
        Self::to(b"", stream).await
    }

    pub(crate) async fn to(request: &[u8], stream: &mut TcpStream) -> Self {
        let mut octets = Vec::new();
        let reading = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut octets));
        reading.await.expect("the connection ends in time").unwrap();
        Self::parse(request, &octets)
    }

    /// Parses a complete answer to this request.
    pub(crate) fn parse(request: &[u8], octets: &[u8]) -> Self {
        canary::note(request);
        // The console answers a sign-in by leading to a page.
        let succeeded = octets.starts_with(b"HTTP/1.1 2") || octets.starts_with(b"HTTP/1.1 303");
        let made_by = canary::shows(request, succeeded);
        canary::keep("answer", octets, made_by);
        let end = octets.windows(4).position(|four| four == b"\r\n\r\n").expect("a header section");
        let head = String::from_utf8(octets[..end].to_vec()).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let reply = Self { status, headers, body: octets[end + 4..].to_vec() };
        described::hold(request, &reply);
        reply
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body of a success with this status.
    #[track_caller]
    pub(crate) fn success(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.carries_what_every_answer_carries();
        let body = self.json();
        assert_eq!(body["success"], true);
        assert!(body["message"].is_string());
        body
    }

    /// Checks the shape of an error, and that its text says `words`.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str, words: &str) {
        assert_eq!(self.status, status, "{}", self.text());
        self.carries_what_every_answer_carries();
        assert_eq!(self.headers["content-type"], "application/problem+json");
        let body = self.json();
        assert_eq!(body["status"], status);
        assert_eq!(body["code"], code);
        assert_eq!(body["success"], false);
        assert_eq!(body["type"], "about:blank");
        assert!(body["title"].is_string());
        assert_eq!(body["detail"], body["message"]);
        assert_eq!(body["requestId"], self.headers["x-request-id"].as_str());
        let detail = body["detail"].as_str().unwrap();
        assert!(detail.contains(words), "{detail:?} does not say {words:?}");
    }

    /// The texts of a list of messages.
    pub(crate) fn texts(&self) -> Vec<String> {
        let text = |record: &Value| record["message"].as_str().unwrap().to_owned();
        self.json().as_array().unwrap().iter().map(text).collect()
    }

    /// The path of a link, below the base.
    pub(crate) fn link(&self, relation: &str) -> Option<String> {
        let links = self.headers.get("link")?;
        let link = links.split(", ").find(|link| link.ends_with(&format!("rel=\"{relation}\"")))?;
        let target = link.strip_prefix('<')?.split_once('>')?.0;
        Some(target.strip_prefix("/api/v2").expect("a relative link below the base").to_owned())
    }

    #[track_caller]
    pub(crate) fn carries_what_every_answer_carries(&self) {
        for (name, expected) in [
            ("cache-control", "no-store"),
            ("referrer-policy", "no-referrer"),
            ("x-content-type-options", "nosniff"),
        ] {
            assert_eq!(self.headers.get(name).map(String::as_str), Some(expected), "{name}");
        }
        let id: uuid::Uuid = self.headers["x-request-id"].parse().unwrap();
        assert_eq!(id.get_version_num(), 7);
    }
}
