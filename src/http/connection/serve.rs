//! Accepts connections and serves the router on them, until the soft stop.
//!
//! Limits are in `policies/access.toml`. While all places are taken, new connections wait to be
//! accepted; beyond its network's share a connection is closed at once. A slow header section (idle
//! time between requests included), a stalled write or a slow TLS handshake closes it, too. At the
//! soft stop or at its age limit, a connection finishes the request under way, within the request's
//! deadline. Its places are free when it ends or is dropped by the hard stop.
//!
//! HTTP/1.1 only. hyper itself refuses contradictory framing (RFC 9112 §6.3), and answers 431
//! above 100 fields and 414 above 65,534 bytes of target, without a body or any of our headers.

use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::{HttpService, Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::domain::network::Network;
use crate::domain::repeats::LogCause;
use crate::domain::shares::{Share, Shares};
use crate::http::connection::endless::Endless;
use crate::http::connection::write_timeout::WriteTimeout;
use crate::http::remote::{ConnectionEnd, Peer};
use crate::http::state::Http;
use crate::rules::AccessRules;
use crate::shutdown::Shutdown;
use crate::tls::Acceptor;

/// Pause after a failed accept, so that the loop does not spin when descriptors run out.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves `router` on `listener`, over https if there is an acceptor, within the rules of `http`.
/// Returns at the soft stop; tasks of `shutdown` finish the requests under way.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    http: Arc<Http>,
    shutdown: Shutdown,
    tls: Option<Acceptor>,
) {
    let places = Arc::new(Semaphore::new(http.rules.connections.max_connections));
    // No stranger alone may take all connections (threats C16 is the same for SMTP).
    let each = Shares::default();
    let most = http.rules.connections.max_per_address;
    let server = server(&http.rules);
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.soft() => return,
            accepted = accept(&listener, &places) => accepted,
        };
        match accepted {
            Ok((stream, peer, place)) => {
                // Connections of a trusted proxy are not counted: all its clients share its
                // address.
                let client = [(Network::of_client(peer), most)];
                let client = if http.proxies.contain(peer) { &[][..] } else { &client };
                let Some(own) = each.take(client) else {
                    // At debug only: a line for each would let a stranger fill the log.
                    tracing::debug!(client.address = %peer, "connection refused: too many");
                    continue;
                };
                let connection = Connection {
                    server: server.clone(),
                    router: router.clone(),
                    rules: Arc::clone(&http.rules),
                    streams: http.streams.clone(),
                    shutdown: shutdown.clone(),
                    tls: tls.clone(),
                    peer,
                    places: (place, own),
                };
                shutdown.spawn(connection.run(stream));
            }
            Err(error) => {
                if let Some(left_out) = http.repeats.due(LogCause::HttpAccept) {
                    tracing::warn!(error = %error, left_out, "cannot accept a connection");
                }
                sleep(PAUSE).await;
            }
        }
    }
}

/// Gives hyper a timer, without which the header deadline does nothing (axum's `serve` has none).
fn server(rules: &AccessRules) -> http1::Builder {
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(rules.connections.header())
        .max_buf_size(rules.connections.max_header_bytes);
    server
}

/// Waits for a place before it accepts.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, IpAddr, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer.ip().to_canonical(), place))
}

struct Connection {
    server: http1::Builder,
    router: Router,
    rules: Arc<AccessRules>,
    streams: Option<Handle>,
    shutdown: Shutdown,
    tls: Option<Acceptor>,
    peer: IpAddr,
    /// Its place among all connections, and among those of its network.
    places: (OwnedSemaphorePermit, Share<Network>),
}

impl Connection {
    /// Serves the connection, behind a TLS handshake if there is an acceptor. The soft stop ends
    /// the handshake.
    async fn run(self, stream: TcpStream) {
        // A response is one write: waiting to fill a segment would only delay it. If the client is
        // gone, the read below reports it.
        let _ = stream.set_nodelay(true);
        let Some(acceptor) = self.tls.clone() else { return self.converse(stream).await };
        let accepted = tokio::select! {
            accepted = acceptor.accept(stream) => accepted,
            () = self.shutdown.soft() => return,
        };
        match accepted {
            Ok((stream, _)) => self.converse(stream).await,
            Err(error) => tracing::debug!(error = %error, "TLS handshake failed"),
        }
    }

    /// Serves requests until an end, or until the first `Endless` response moves the rest to the
    /// threads for streams.
    async fn converse(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let (router, peer) = (TowerToHyperService::new(self.router.clone()), Peer(self.peer));
        let until = Instant::now() + self.rules.connections.lifetime();
        let end = ConnectionEnd(until + self.rules.limits.request());
        let begins = Arc::new(Notify::new());
        let streams = Arc::clone(&begins);
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            request.extensions_mut().insert(end);
            let (answering, begins) = (router.call(request), Arc::clone(&begins));
            async move {
                let answer = answering.await;
                if answer
                    .as_ref()
                    .is_ok_and(|answer| answer.extensions().get::<Endless>().is_some())
                {
                    begins.notify_one();
                }
                answer
            }
        });
        let stream = TokioIo::new(WriteTimeout::new(stream, self.rules.connections.write()));
        let mut connection = Box::pin(self.server.serve_connection(stream, service));
        let moves = match &self.streams {
            None => None,
            Some(threads) => tokio::select! {
                ended = connection.as_mut() => return log_end(ended),
                () = self.shutdown.soft() => None,
                () = sleep_until(until) => None,
                () = streams.notified() => Some(threads.clone()),
            },
        };
        let shutdown = self.shutdown.clone();
        let rest = self.finish(connection, until);
        match moves {
            Some(threads) => shutdown.spawn_on(&threads, rest),
            None => rest.await,
        }
    }

    /// Serves until the soft stop or the instant `until`, then only the request under way.
    async fn finish<C>(self, mut connection: Pin<Box<C>>, until: Instant)
    where
        C: Graceful,
    {
        let ended = tokio::select! {
            ended = connection.as_mut() => Some(ended),
            () = self.shutdown.soft() => None,
            () = sleep_until(until) => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                connection.as_mut().end();
                let last = timeout(self.rules.limits.request(), connection).await;
                last.unwrap_or(Ok(()))
            }
        };
        log_end(ended);
        drop(self.places);
    }
}

trait Graceful: Future<Output = hyper::Result<()>> + Send {
    fn end(self: Pin<&mut Self>);
}

impl<I, S> Graceful for http1::Connection<I, S>
where
    S: HttpService<Incoming, ResBody = Body> + Send,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    S::Future: Send,
    I: Read + Write + Unpin + Send + 'static,
{
    fn end(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

fn log_end(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        // hyper's error texts never contain the client's input.
        tracing::debug!(error = %error, "connection lost");
    }
}
