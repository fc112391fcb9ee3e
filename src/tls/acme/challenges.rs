//! Serves `/.well-known/acme-challenge/TOKEN` on port 80 to the authority (RFC 8555 §8.3).
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
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::rules::ChallengeRules;
use crate::shutdown::Shutdown;

const PATH: &str = "/.well-known/acme-challenge/";
/// The pause when no file descriptor is left, so that the loop does not spin.
const PAUSE: Duration = Duration::from_millis(100);

/// The expected tokens and their answers, one for each name of an order. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Challenges(Arc<Mutex<HashMap<String, String>>>);

/// The tokens of one order; dropping it removes them.
pub(super) struct ShownTokens {
    challenges: Challenges,
    tokens: Vec<String>,
}

impl Challenges {
    pub(super) fn show(&self) -> ShownTokens {
        ShownTokens { challenges: self.clone(), tokens: Vec::new() }
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
        let Some(answer) = token.and_then(|token| self.lock().get(token).cloned()) else {
            let mut nothing = Response::new(String::new());
            *nothing.status_mut() = StatusCode::NOT_FOUND;
            return nothing;
        };
        let mut response = Response::new(answer);
        let kind = HeaderValue::from_static("application/octet-stream");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ShownTokens {
    /// Serves `authorization` for `token` from now on (RFC 8555 §8.1).
    pub(super) fn add(&mut self, token: &str, authorization: &str) {
        self.challenges.lock().insert(token.to_owned(), authorization.to_owned());
        self.tokens.push(token.to_owned());
    }
}

impl Drop for ShownTokens {
    fn drop(&mut self) {
        let mut answers = self.challenges.lock();
        for token in &self.tokens {
            answers.remove(token);
        }
    }
}
