//! A client that keeps its connection for tens of thousands of requests, one after another.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::http::tests::{PATIENCE, Reply};

pub(super) struct Line {
    stream: TcpStream,
    /// Received bytes that belong to no answer yet.
    ahead: Vec<u8>,
}

impl Line {
    pub(super) async fn to(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), ahead: Vec::new() }
    }

    /// Returns the answer to one request; `target` is path and query.
    pub(super) async fn ask(&mut self, method: &str, target: &str, body: Option<&str>) -> Reply {
        self.ask_with(method, target, "", body).await
    }

    /// Like `ask`, with these lines in the header section.
    pub(super) async fn ask_with(
        &mut self,
        method: &str,
        target: &str,
        lines: &str,
        body: Option<&str>,
    ) -> Reply {
        let mut request = format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{lines}");
        if let Some(body) = body {
            let length = body.len();
            let more = format!("Content-Type: application/json\r\nContent-Length: {length}\r\n");
            request.push_str(&more);
        }
        request.push_str("\r\n");
        request.push_str(body.unwrap_or_default());
        self.stream.write_all(request.as_bytes()).await.unwrap();
        let whole = tokio::time::timeout(PATIENCE, self.answer()).await;
        Reply::parse(request.as_bytes(), &whole.expect("an answer comes in time"))
    }

    async fn answer(&mut self) -> Vec<u8> {
        loop {
            if let Some(length) = length(&self.ahead).filter(|length| *length <= self.ahead.len()) {
                let rest = self.ahead.split_off(length);
                return std::mem::replace(&mut self.ahead, rest);
            }
            let read = self.stream.read_buf(&mut self.ahead).await.unwrap();
            assert!(read > 0, "closed after {:?}", String::from_utf8_lossy(&self.ahead));
        }
    }
}

/// The length of the first answer; None before its header section is complete.
fn length(octets: &[u8]) -> Option<usize> {
    let end = octets.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&octets[..end]).unwrap().to_ascii_lowercase();
    let stated = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let body: usize = stated.unwrap_or_else(|| panic!("no length: {head}")).parse().unwrap();
    Some(end + 4 + body)
}
