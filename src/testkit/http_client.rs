//! A plain API client, like that of an Agent's author: one request per connection, JSON both ways.
//!
//! For the demo and `gatepost dev`, with a server on this machine. HTTP/1.0, so that a response is
//! never chunked and ends with its connection (RFC 9112 §6.3).

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longer than the longest wait of a list (`events.max_wait_seconds`), 300 seconds.
const PATIENCE: Duration = Duration::from_secs(330);
/// Largest response in bytes: a page of messages is a quarter of it.
const MAX_ANSWER: u64 = 32 << 20;

#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    #[error("the API cannot be reached")]
    Connection(#[from] io::Error),
    #[error("the API answered {status}: {detail}")]
    Refused { status: u16, detail: String },
    #[error("the answer of the API is not JSON")]
    NotJson(#[from] serde_json::Error),
}

#[derive(Clone)]
pub struct Api {
    server: SocketAddr,
    key: String,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Api {
    pub fn new(server: SocketAddr, key: &str) -> Self {
        Self { server, key: key.to_owned() }
    }

    /// The base URL of all operations.
    pub fn base(&self) -> String {
        format!("http://{}/api/v2", self.server)
    }

    /// Sends a GET of this path, with its query. Returns the JSON of a 2xx response.
    pub async fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.ask("GET", path, "").await
    }

    /// Sends a POST of this JSON to this path, with its query. Returns the JSON of a 2xx response.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        self.ask("POST", path, &body.to_string()).await
    }

    async fn ask(&self, method: &str, path: &str, body: &str) -> Result<Value, ApiError> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let (server, key, length) = (self.server, &self.key, body.len());
        let request = format!(
            "{method} /api/v2{path}{separator}token={key} HTTP/1.0\r\nhost: {server}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
        let answer = timeout(PATIENCE, self.exchange(&request)).await.map_err(late)??;
        let (status, body) =
            parts(&answer).ok_or(io::ErrorKind::InvalidData).map_err(io::Error::from)?;
        let body: Value = serde_json::from_slice(body)?;
        if (200..300).contains(&status) {
            return Ok(body);
        }
        let detail = body.get("detail").and_then(Value::as_str).unwrap_or_default().to_owned();
        Err(ApiError::Refused { status, detail })
    }

    async fn exchange(&self, request: &str) -> io::Result<Vec<u8>> {
        exchange(TcpStream::connect(self.server).await?, request).await
    }
}

/// Sends a request, and reads the response to the end of the connection.
pub(super) async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: &str,
) -> io::Result<Vec<u8>> {
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer).await?;
    Ok(answer)
}

/// The status and body of a response; None if it is not HTTP.
pub(super) fn parts(answer: &[u8]) -> Option<(u16, &[u8])> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(answer.get(..end)?).ok()?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    Some((status, answer.get(end + 4..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_taken_apart() {
        let answer = b"HTTP/1.0 201 Created\r\ncontent-type: application/json\r\n\r\n{}";
        assert_eq!(parts(answer), Some((201, &b"{}"[..])));
        for broken in
            [&b""[..], b"HTTP/1.0 200 OK\r\n", b"SMTP 200\r\n\r\n", b"HTTP/1.0 ok\r\n\r\n"]
        {
            assert_eq!(parts(broken), None);
        }
    }

    #[test]
    fn the_key_is_not_shown() {
        let api = Api::new(SocketAddr::from(([127, 0, 0, 1], 1)), "gp_secret");
        assert!(!format!("{api:?}").contains("secret"));
    }
}
