//! Answers to the authority, and the server of `/.well-known/acme-challenge/TOKEN` on port 80 that
//! shows those of HTTP-01 (RFC 8555 §8.3).
//!
//! Anybody can connect here. Anything but an expected token gets an empty 404. A connection serves
//! one request; its time, its size and the number of connections are bounded. At the bound, the
//! oldest connection is dropped: the authority sends its request at once, so a silent one is not
//! its.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::http::header::CONTENT_TYPE;
use hyper::http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::sign::CertifiedKey;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::rules::ChallengeRules;
use crate::shutdown::Shutdown;

const PATH: &str = "/.well-known/acme-challenge/";
/// The pause when no file descriptor is left, so that the loop does not spin.
const PAUSE: Duration = Duration::from_millis(100);

/// The expected answers, one for each name of an order. Clones share them.
#[derive(Clone, Default)]
pub struct Challenges(Arc<Mutex<Answers>>);

#[derive(Default)]
struct Answers {
    /// Answers of HTTP-01, by their tokens.
    tokens: HashMap<String, String>,
    /// Answers of TLS-ALPN-01, by their names.
    certificates: HashMap<String, Arc<CertifiedKey>>,
}

/// The answers of one order; dropping it removes them.
pub(super) struct ShownAnswers {
    challenges: Challenges,
    tokens: Vec<String>,
    names: Vec<String>,
}

impl Challenges {
    pub(super) fn show(&self) -> ShownAnswers {
        ShownAnswers { challenges: self.clone(), tokens: Vec::new(), names: Vec::new() }
    }

    /// Returns the certificate that answers an authority that asks for this name.
    pub(super) fn answer_for(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        self.lock().certificates.get(&name.to_ascii_lowercase()).cloned()
    }

    /// Serves until the soft stop.
    pub(super) async fn serve(
        self,
        listener: TcpListener,
        rules: ChallengeRules,
        shutdown: Shutdown,
    ) {
        // One for each connection, oldest first; dropping one ends its connection.
        let mut places: VecDeque<oneshot::Sender<()>> = VecDeque::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.soft() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    places.retain(|place| !place.is_closed());
                    if places.len() >= rules.max_connections {
                        places.pop_front();
                    }
                    let (place, ended) = oneshot::channel();
                    places.push_back(place);
                    let (challenges, rules) = (self.clone(), rules.clone());
                    shutdown.spawn_until_soft_stop(async move {
                        tokio::select! {
                            () = challenges.answer(stream, &rules) => {}
                            _ = ended => {}
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(error = %error, "cannot accept an ACME challenge connection");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    async fn answer(&self, stream: TcpStream, rules: &ChallengeRules) {
        let service = service_fn(|request: Request<Incoming>| {
            let response = self.response(request.method(), request.uri().path());
            async move { Ok::<_, Infallible>(response) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .keep_alive(false)
            .header_read_timeout(rules.header())
            .max_buf_size(rules.max_header_bytes)
            .serve_connection(TokioIo::new(stream), service);
        // The timeout ends the connection, whatever a stranger does.
        if let Ok(Err(error)) = timeout(rules.connection(), connection).await {
            tracing::debug!(error = %error, "ACME challenge connection lost");
        }
    }

    fn response(&self, method: &Method, path: &str) -> Response<String> {
        let read = matches!(*method, Method::GET | Method::HEAD);
        let token = path.strip_prefix(PATH).filter(|_| read);
        let Some(answer) = token.and_then(|token| self.lock().tokens.get(token).cloned()) else {
            let mut nothing = Response::new(String::new());
            *nothing.status_mut() = StatusCode::NOT_FOUND;
            return nothing;
        };
        let mut response = Response::new(answer);
        let kind = HeaderValue::from_static("application/octet-stream");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ShownAnswers {
    /// Serves `authorization` for `token` from now on (RFC 8555 §8.1).
    pub(super) fn add(&mut self, token: &str, authorization: &str) {
        self.challenges.lock().tokens.insert(token.to_owned(), authorization.to_owned());
        self.tokens.push(token.to_owned());
    }

    /// Shows this certificate to an authority that asks for `name`, from now on (RFC 8737 §3).
    pub(super) fn add_certificate(&mut self, name: &str, certificate: Arc<CertifiedKey>) {
        let name = name.to_ascii_lowercase();
        self.challenges.lock().certificates.insert(name.clone(), certificate);
        self.names.push(name);
    }
}

impl Drop for ShownAnswers {
    fn drop(&mut self) {
        let mut answers = self.challenges.lock();
        for token in &self.tokens {
            answers.tokens.remove(token);
        }
        for name in &self.names {
            answers.certificates.remove(name);
        }
    }
}

impl std::fmt::Debug for Challenges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Challenges")
    }
}
