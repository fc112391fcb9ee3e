//! Requests to the server, and their answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use serde_json::{Value, json};
use tokio::sync::Notify;
use url::Url;

use super::stream::Events;
use crate::cli::{Failure, print_read};
use crate::egress::client::{Client, EgressError, Limits, Lookup, Streamed};
use crate::egress::guard::Guard;
use crate::rules::Rules;

/// Longer than any wait of the server without a sign of life.
const PATIENCE: Duration = Duration::from_secs(90);
const CONNECTING: Duration = Duration::from_secs(10);
/// Longest answer in bytes: a file of 1 MiB in base64, many times over.
const MAX_ANSWER: usize = 16 << 20;
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// The field of `_meta` by which a request names its version itself.
const OWN_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The server could not be asked, or did not answer by the protocol.
const FAILED: i64 = -32_000;

/// A message from the input.
pub(super) enum Sent {
    Request(Value),
    /// The request with this id is not wanted any more.
    Cancelled(Value),
    /// A notification, or anything else.
    Other(Value),
}

impl Sent {
    pub(super) fn of(message: Value) -> Self {
        let method = message.get("method").and_then(Value::as_str);
        match (method, message.get("id")) {
            (Some(_), Some(_)) => Self::Request(message),
            (Some("notifications/cancelled"), None) => {
                let id = message.pointer("/params/requestId").cloned().unwrap_or_default();
                Self::Cancelled(id)
            }
            _ => Self::Other(message),
        }
    }
}

/// Asks one server with one key.
pub(super) struct Relay {
    url: Url,
    client: Client,
    /// With the key.
    headers: HeaderMap,
    /// The version that the client and the server agreed on.
    version: OnceLock<HeaderValue>,
    under_way: UnderWay,
}

/// Requests under way, by the text of their id.
type UnderWay = Arc<Mutex<HashMap<String, Arc<Notify>>>>;

/// The place of a request among those under way; freed when dropped.
pub(super) struct Place {
    id: String,
    cancelled: Arc<Notify>,
    under_way: UnderWay,
}

impl Place {
    /// Does the work until the request is cancelled: its connection closes then, and the server ends.
    pub(super) async fn unless_cancelled(self, work: impl Future<Output = ()>) {
        tokio::select! {
            () = work => {}
            () = self.cancelled.notified() => {}
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.remove(&self.id);
    }
}

impl Relay {
    /// Fails if the key cannot stand in a header, or TLS cannot be set up.
    pub(super) fn new(url: Url, key: &str) -> Result<Self, Failure> {
        let mut bearer = HeaderValue::try_from(format!("Bearer {key}"))
            .map_err(|_| "the key is not one: it begins with gp_, and has letters and digits")?;
        bearer.set_sensitive(true);
        let both = HeaderValue::from_static("application/json, text/event-stream");
        let agent = concat!("gatepost/", env!("CARGO_PKG_VERSION"));
        let headers = HeaderMap::from_iter([
            (AUTHORIZATION, bearer),
            (ACCEPT, both),
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (USER_AGENT, HeaderValue::from_static(agent)),
        ]);
        // The user of this program names the server: it is no stranger.
        let guard = Guard::of_operator(&Rules::defaults()?.webhooks);
        let limits = Limits {
            timeout: PATIENCE,
            connect_timeout: CONNECTING,
            max_response_bytes: MAX_ANSWER,
        };
        let client = Client::new(guard, limits, Lookup::with_servers(None, CONNECTING, 4)?)?;
        let (version, under_way) = (OnceLock::new(), UnderWay::default());
        Ok(Self { url, client, headers, version, under_way })
    }

    /// Notes a request, so that it can be cancelled.
    pub(super) fn begin(&self, request: &Value) -> Place {
        let id = request.get("id").map(Value::to_string).unwrap_or_default();
        let cancelled = Arc::new(Notify::new());
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.insert(id.clone(), Arc::clone(&cancelled));
        Place { id, cancelled, under_way: Arc::clone(&self.under_way) }
    }

    pub(super) fn cancel(&self, id: &Value) {
        let under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cancelled) = under_way.get(&id.to_string()) {
            cancelled.notify_one();
        }
    }

    /// Asks the server, and prints its answer: a request always gets one.
    pub(super) async fn ask(&self, request: &Value) {
        let id = request.get("id").cloned().unwrap_or_default();
        if let Err(failure) = self.carry(request).await {
            // A program that does not read the output has closed the input, too.
            let _unread = print(&refusal(&id, FAILED, &failure.to_string()));
        }
    }

    /// Sends what needs no answer.
    pub(super) async fn tell(&self, message: Value) {
        let posted = self.post(&message).await;
        match posted {
            Ok(answer) if answer.status < 300 => {}
            Ok(answer) => eprintln!("gatepost: the server answered {} to a message", answer.status),
            Err(error) => eprintln!("gatepost: {}: {error}", self.url),
        }
    }

    async fn post(&self, message: &Value) -> Result<Streamed, EgressError> {
        let mut headers = self.headers.clone();
        let text = |place: &str| message.pointer(place).and_then(Value::as_str);
        let own = message.pointer("/params/_meta").and_then(|meta| meta.get(OWN_VERSION)?.as_str());
        let is_first = text("/method") == Some("initialize");
        let own = own.and_then(|version| HeaderValue::try_from(version).ok());
        let version = own.or_else(|| self.version.get().filter(|_| !is_first).cloned());
        // The name of a tool, or the address of a resource.
        let name = text("/params/name").or(text("/params/uri"));
        let of = |text: Option<&str>| text.and_then(|text| HeaderValue::try_from(text).ok());
        for (header, value) in [(VERSION, version), (METHOD, of(text("/method"))), (NAME, of(name))]
        {
            if let Some(value) = value {
                headers.insert(header, value);
            }
        }
        let body = Bytes::from(message.to_string());
        self.client.begin(Method::POST, &self.url, headers, body).await
    }

    async fn carry(&self, request: &Value) -> Result<(), Failure> {
        let mut answer =
            self.post(request).await.map_err(|error| format!("{}: {error}", self.url))?;
        let kind = answer.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let is_stream = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
        if !is_stream {
            let body = answer.rest().await?;
            return self.print_answer(request, answer.status, &body);
        }
        let mut events = Events::new(MAX_ANSWER);
        while let Some(piece) = answer.piece().await? {
            for message in events.push(&piece)? {
                let message = serde_json::from_str::<Value>(&message)?;
                print(&message)?;
                if answers(&message, request) {
                    return Ok(());
                }
            }
        }
        Err("the server ended its answer early: try again".into())
    }

    /// Prints the one answer of a request: a message of the protocol, or an error of the server.
    fn print_answer(&self, request: &Value, status: u16, body: &[u8]) -> Result<(), Failure> {
        let message = serde_json::from_slice::<Value>(body).unwrap_or_default();
        if message.get("jsonrpc").is_some() {
            if request.get("method").and_then(Value::as_str) == Some("initialize")
                && let Some(version) = message.pointer("/result/protocolVersion")
                && let Some(Ok(version)) = version.as_str().map(HeaderValue::try_from)
            {
                self.version.get_or_init(|| version);
            }
            return print(&message);
        }
        let said = message.get("detail").and_then(Value::as_str).map(str::to_owned);
        let said =
            said.unwrap_or_else(|| String::from_utf8_lossy(body).chars().take(200).collect());
        Err(format!("{} answered {status}: {said}", self.url).into())
    }
}

/// Whether this message is the one that a request waits for.
fn answers(message: &Value, request: &Value) -> bool {
    let is_end = message.get("result").or(message.get("error")).is_some();
    is_end && message.get("id") == request.get("id")
}

/// An error as the answer to a request.
pub(super) fn refusal(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

/// Prints one message. Fails if nobody reads any more.
pub(super) fn print(message: &Value) -> Result<(), Failure> {
    match print_read(format!("{message}\n").as_bytes())? {
        true => Ok(()),
        false => Err("nobody reads the output".into()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let of = |message: Value| match Sent::of(message) {
            Sent::Request(_) => "request".to_owned(),
            Sent::Cancelled(id) => format!("cancelled {id}"),
            Sent::Other(_) => "other".to_owned(),
        };
        assert_eq!(of(json!({ "id": 1, "method": "tools/list" })), "request");
        let cancelled =
            json!({ "method": "notifications/cancelled", "params": { "requestId": "a" } });
        assert_eq!(of(cancelled), "cancelled \"a\"");
        for other in
            [json!({ "method": "notifications/initialized" }), json!({ "id": 1 }), json!(7)]
        {
            assert_eq!(of(other), "other");
        }
    }

    /// A server that answers each request with this stream.
    async fn server(stream: &'static str) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut request = Vec::new();
                while !request.ends_with(b"}") {
                    client.read_buf(&mut request).await.unwrap();
                }
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                            Connection: close\r\n\r\n";
                client.write_all(format!("{head}{stream}").as_bytes()).await.unwrap();
            }
        });
        Relay::new(Url::parse(&url).unwrap(), "gp_x").unwrap()
    }

    #[tokio::test]
    async fn a_stream_without_the_answer_is_a_failure() {
        let request = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call" });
        for stream in [
            "",
            ": alive\n\ndata: {\"method\":\"notifications/progress\",\"params\":{}}\n\n",
            "data: {\"id\":8,\"result\":{}}\n\n",
            "data: {\"id\":7,\"result\":{}}\n",
        ] {
            let failed = server(stream).await.carry(&request).await.unwrap_err().to_string();
            assert!(failed.contains("ended its answer early"), "{stream:?}: {failed}");
        }
        for stream in
            ["data: {\"id\":7,\"result\":{}}\n\n", "data: {\"id\":7,\"error\":{}}\n\ndata: no"]
        {
            server(stream).await.carry(&request).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_request_that_is_cancelled_ends_and_no_other() {
        let url = Url::parse("http://127.0.0.1:1/mcp").unwrap();
        let relay = Relay::new(url, "gp_x").unwrap();
        let (one, two) = (relay.begin(&json!({ "id": 1 })), relay.begin(&json!({ "id": 2 })));
        relay.cancel(&json!(1));
        relay.cancel(&json!(3));
        one.unless_cancelled(std::future::pending()).await;
        two.unless_cancelled(async {}).await;
        assert!(relay.under_way.lock().unwrap().is_empty());
    }
}
