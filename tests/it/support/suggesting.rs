//! Adds RFC 9773 to pebble, in front of it: when certificates should be renewed, and which one an order
//! replaces.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, HOST, RETRY_AFTER, TRANSFER_ENCODING};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatepost::domain::clock::Clock;
use gatepost::run;
use gatepost::tls::{Acceptor, Certificates, Pair};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::PATIENCE;

const LARGEST: usize = 1 << 20;
/// How soon it wants to be asked again.
const SECOND: &str = "1";

#[derive(Clone)]
struct Shared {
    directory: SocketAddr,
    client: reqwest::Client,
    clock: Clock,
    said: Arc<Mutex<Said>>,
}

#[derive(Default)]
struct Said {
    /// Certificates that were asked about.
    asked: Vec<String>,
    /// Those that must be renewed now.
    overdue: Vec<String>,
    /// Those that an order named as replaced.
    replaced: Vec<String>,
}

/// Goes with its test.
pub struct Suggesting {
    pub address: SocketAddr,
    said: Arc<Mutex<Said>>,
    _accepting: JoinSet<()>,
}

impl Suggesting {
    /// Stands before pebble's directory, with the certificate in this folder.
    pub async fn before(directory: SocketAddr, folder: &Path) -> Self {
        let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
        let root = reqwest::Certificate::from_pem(&read("root.pem")).unwrap();
        // HTTP/2 has no Host, of which pebble makes its URLs.
        let client = reqwest::Client::builder().tls_certs_only([root]).http1_only();
        let client = client.build().unwrap();
        let clock = run::system_mint().clock().clone();
        let pair = Pair::from_pem(&read("server.pem"), &read("server.key")).unwrap();
        let certificates = Certificates::new(pair, None, clock.clone());
        let acceptor = Acceptor::new(&certificates, PATIENCE).unwrap();
        let said = Arc::new(Mutex::new(Said::default()));
        let shared = Shared { directory, client, clock, said: Arc::clone(&said) };
        let router = Router::new().fallback(answer).with_state(shared);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, service) =
                    (acceptor.clone(), TowerToHyperService::new(router.clone()));
                connections.spawn(async move {
                    let Ok((stream, _)) = acceptor.accept(stream).await else { return };
                    let serving =
                        http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                    let _either_hung_up = serving.await;
                });
            }
        });
        Self { address, said, _accepting: accepting }
    }

    /// Wants all certificates that it was asked about to be renewed now. Returns them.
    pub fn call_back(&self) -> Vec<String> {
        let mut said = self.said.lock().unwrap();
        said.overdue = said.asked.clone();
        said.overdue.clone()
    }

    /// The certificates that orders named as replaced.
    pub fn replaced(&self) -> Vec<String> {
        self.said.lock().unwrap().replaced.clone()
    }
}

async fn answer(State(shared): State<Shared>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, LARGEST).await.unwrap();
    let path = parts.uri.path();
    if let Some(id) = path.strip_prefix("/renewal-info/") {
        return shared.window(id);
    }
    let answered = shared.forward(&parts.method, path, &parts.headers, &body);
    let (status, headers, mut said) = answered.await;
    if path == "/dir" {
        let host = parts.headers[HOST].to_str().unwrap();
        said = with(&said, "renewalInfo", &format!("https://{host}/renewal-info"));
    } else if let Some(id) = replaced(&body).filter(|_| status == StatusCode::CREATED) {
        said = with(&said, "replaces", &id);
        shared.said.lock().unwrap().replaced.push(id);
    }
    (status, headers, said).into_response()
}

impl Shared {
    /// The window of a certificate: over, or in some hours.
    fn window(&self, id: &str) -> Response {
        let mut said = self.said.lock().unwrap();
        if !said.asked.iter().any(|one| one == id) {
            said.asked.push(id.to_owned());
        }
        let is_overdue = said.overdue.iter().any(|one| one == id);
        let (now, hour) = (self.clock.now(), Duration::from_secs(3600));
        let (start, end) = match is_overdue {
            true => (now.minus(hour * 2), now.minus(hour)),
            false => (now.plus(hour), now.plus(hour * 2)),
        };
        let window = json!({"start": start.to_string(), "end": end.to_string()});
        let window = json!({"suggestedWindow": window}).to_string();
        ([(RETRY_AFTER, SECOND)], window).into_response()
    }

    async fn forward(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> (StatusCode, HeaderMap, Bytes) {
        let url = format!("https://{}{path}", self.directory);
        let mut asked = headers.clone();
        asked.remove(CONTENT_LENGTH);
        let request = self.client.request(method.clone(), url).headers(asked);
        let answered = request.body(body.clone()).timeout(PATIENCE).send().await.unwrap();
        let (status, mut headers) = (answered.status(), answered.headers().clone());
        headers.remove(CONTENT_LENGTH);
        headers.remove(TRANSFER_ENCODING);
        let said = to_bytes(Body::new(reqwest::Body::from(answered)), LARGEST).await.unwrap();
        (status, headers, said)
    }
}

/// The certificate that a signed order names as replaced.
fn replaced(body: &[u8]) -> Option<String> {
    let signed: Value = serde_json::from_slice(body).ok()?;
    let payload = URL_SAFE_NO_PAD.decode(signed["payload"].as_str()?).ok()?;
    let order: Value = serde_json::from_slice(&payload).ok()?;
    Some(order["replaces"].as_str()?.to_owned())
}

/// The object with one more member.
fn with(object: &[u8], key: &str, text: &str) -> Bytes {
    let mut object: Value = serde_json::from_slice(object).unwrap();
    object[key] = json!(text);
    object.to_string().into()
}
