//! One request to a stranger, bounded in time, size and addresses.

mod streaming;

use std::collections::HashMap;
use std::error::Error as StdError;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{CONNECTION, DATE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tokio::time::{Instant, timeout_at};
use url::{Host, Url};

use super::error::{of_request, of_url};
use super::guard::{Guard, Reach};
use crate::rules::{ForwardRules, TraceRules, WebhookRules};

pub use self::streaming::Streamed;
pub use super::error::EgressError;
pub use super::lookup::Lookup;

/// Set in every request to a URL that a customer chose. A gateway that receives such a request can
/// detect the loop, whatever names and proxies are in between (threats H10).
pub const LOOP: HeaderName = HeaderName::from_static("x-gatepost-loop");

/// How long an idle connection is kept; receivers keep theirs longer.
const KEPT: Duration = Duration::from_secs(1);
/// Each time so many requests went to a host, the connection is closed, so that a host that has
/// moved is followed.
const REQUESTS_PER_CONNECTION: u32 = 64;
/// Most connections kept per host, and most hosts with kept connections: together they bound the
/// idle sockets.
const KEPT_PER_HOST: usize = 8;
const KEPT_HOSTS: usize = 128;

/// Closes or keeps the connection after the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterResponse {
    Close,
    /// Keep it for a moment: more requests to this host follow.
    Keep,
}

/// Bounds of one request.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From look-up to the end of the response.
    pub timeout: Duration,
    /// Look-up, connection and TLS.
    pub connect_timeout: Duration,
    /// Bytes of the response body that are read; the rest is ignored.
    pub max_response_bytes: usize,
}

impl From<&WebhookRules> for Limits {
    fn from(rules: &WebhookRules) -> Self {
        Self {
            timeout: rules.attempt.timeout(),
            connect_timeout: rules.attempt.connect_timeout(),
            max_response_bytes: rules.attempt.max_response_bytes,
        }
    }
}

impl From<&ForwardRules> for Limits {
    /// Bounds for relays: of an application's response only the status is read.
    fn from(rules: &ForwardRules) -> Self {
        Self {
            timeout: rules.max_timeout(),
            connect_timeout: rules.connect_timeout(),
            max_response_bytes: 0,
        }
    }
}

impl From<&TraceRules> for Limits {
    fn from(rules: &TraceRules) -> Self {
        Self {
            timeout: rules.request.timeout(),
            connect_timeout: rules.request.connect(),
            max_response_bytes: rules.request.max_response_bytes,
        }
    }
}

/// A response whose body may be cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// Counted from now (RFC 9110 §10.2.3).
    pub retry_after: Option<Duration>,
    /// The part of the body that came in time and within bounds.
    pub body: Vec<u8>,
}

/// A complete response.
#[derive(Clone, Debug)]
pub struct WholeResponse {
    pub status: u16,
    pub headers: HeaderMap,
    /// Counted from now (RFC 9110 §10.2.3).
    pub retry_after: Option<Duration>,
    pub body: Vec<u8>,
}

/// Certificate authorities trusted in addition to the system's.
#[derive(Clone, Debug, Default)]
pub struct Roots(Vec<reqwest::Certificate>);

impl Roots {
    /// Reads PEM; returns None if it has no certificate.
    pub fn from_pem(text: &[u8]) -> Option<Self> {
        let roots = reqwest::Certificate::from_pem_bundle(text).ok()?;
        (!roots.is_empty()).then_some(Self(roots))
    }
}

/// Sends requests to strangers. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    guard: Guard,
    limits: Limits,
    public: Connections,
    operator_only: Connections,
    kept_hosts: Arc<Mutex<KeptHosts>>,
}

/// Hosts with recently kept connections.
type KeptHosts = HashMap<String, KeptHost>;

#[derive(Clone, Copy)]
struct KeptHost {
    last_request: Instant,
    requests: u32,
}

/// Connections for one reach. The addresses are checked whenever a connection is made.
#[derive(Clone)]
struct Connections {
    resolver: Arc<GuardedResolver>,
    closing: reqwest::Client,
    keeping: reqwest::Client,
}

impl Client {
    /// Fails only if the machine lacks what TLS needs.
    pub fn new(guard: Guard, limits: Limits, lookup: Lookup) -> Result<Self, EgressError> {
        Self::trusting(guard, limits, lookup, &Roots::default())
    }

    /// Like [`Self::new`], but also trusts `roots`.
    pub fn trusting(
        guard: Guard,
        limits: Limits,
        lookup: Lookup,
        roots: &Roots,
    ) -> Result<Self, EgressError> {
        let for_reach = |reach| {
            let resolver =
                Arc::new(GuardedResolver { lookup: lookup.clone(), guard: guard.clone(), reach });
            let closing = build(&limits, &resolver, AfterResponse::Close, roots)?;
            let keeping = build(&limits, &resolver, AfterResponse::Keep, roots)?;
            Ok::<_, EgressError>(Connections { resolver, closing, keeping })
        };
        let (public, operator_only) = (for_reach(Reach::Public)?, for_reach(Reach::OperatorOnly)?);
        Ok(Self { guard, limits, public, operator_only, kept_hosts: Arc::default() })
    }

    /// Sends `body` to the URL of a webhook; once more if a kept connection breaks unanswered.
    /// A status is a result even if the body after it fails: the receiver has decided, and the body
    /// is only for the log.
    pub async fn post(
        &self,
        url: &Url,
        mut headers: HeaderMap,
        body: Bytes,
        behind: AfterResponse,
    ) -> Result<Response, EgressError> {
        headers.insert(LOOP, HeaderValue::from_static("1"));
        let deadline = Instant::now() + self.limits.timeout;
        let number = if behind == AfterResponse::Keep { self.next_number(url) } else { None };
        let sent = match number {
            None => self.send(Method::POST, url, headers, body, deadline).await,
            Some(number) => {
                let mut kept_headers = headers.clone();
                if number.is_multiple_of(REQUESTS_PER_CONNECTION) {
                    kept_headers.insert(CONNECTION, HeaderValue::from_static("close"));
                }
                match self.send_on_kept(url, kept_headers, body.clone(), deadline).await {
                    // Most likely closed while idle, which is no fault of the receiver. If it read
                    // the request, it gets a duplicate.
                    Err(EgressError::Broken) => {
                        self.send(Method::POST, url, headers, body, deadline).await
                    }
                    answered => answered,
                }
            }
        };
        let mut response = sent?;
        Ok(Response {
            status: response.status().as_u16(),
            retry_after: retry_after(response.headers()),
            body: self.read(&mut response, deadline).await,
        })
    }

    /// Forwards a request to a URL that a customer chose. `timeout` bounds the time until the
    /// response begins. Only its status is read.
    pub async fn forward(
        &self,
        method: Method,
        url: &Url,
        mut headers: HeaderMap,
        body: Bytes,
        timeout: Duration,
    ) -> Result<u16, EgressError> {
        headers.insert(LOOP, HeaderValue::from_static("1"));
        let deadline = Instant::now() + timeout.min(self.limits.timeout);
        let response = self.send(method, url, headers, body, deadline).await?;
        Ok(response.status().as_u16())
    }

    /// Sends one request. Fails if the response is late, cut short or longer than the limit.
    pub async fn exchange(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<WholeResponse, EgressError> {
        let deadline = Instant::now() + self.limits.timeout;
        let mut response = self.send(method, url, headers, body, deadline).await?;
        let mut body = Vec::new();
        loop {
            let piece = timeout_at(deadline, response.chunk()).await;
            let piece =
                piece.map_err(|_| EgressError::Timeout)?.map_err(|error| of_request(&error))?;
            let Some(piece) = piece else { break };
            if self.limits.max_response_bytes.saturating_sub(body.len()) < piece.len() {
                return Err(EgressError::TooLong);
            }
            body.extend_from_slice(&piece);
        }
        Ok(WholeResponse {
            status: response.status().as_u16(),
            retry_after: retry_after(response.headers()),
            headers: std::mem::take(response.headers_mut()),
            body,
        })
    }

    async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
        deadline: Instant,
    ) -> Result<reqwest::Response, EgressError> {
        let mut request =
            self.connections(url)?.closing.request(method, url.clone()).headers(headers);
        if !body.is_empty() {
            request = request.body(body);
        }
        send_by(deadline, request).await
    }

    /// Posts over a connection that is kept. Its address was checked when it was made; the host is
    /// looked up and checked again before each request (contract §5).
    async fn send_on_kept(
        &self,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
        deadline: Instant,
    ) -> Result<reqwest::Response, EgressError> {
        let connections = self.connections(url)?;
        if let Some(Host::Domain(name)) = url.host() {
            let checking = connections.resolver.addresses(name);
            let by = deadline.min(Instant::now() + self.limits.connect_timeout);
            timeout_at(by, checking).await.map_err(|_| EgressError::ConnectTimeout)??;
        }
        let request = connections.keeping.post(url.clone()).headers(headers).body(body);
        send_by(deadline, request).await
    }

    /// Returns the number of this request among those to its host over kept connections; None if no
    /// connection may be kept, because there are too many hosts.
    fn next_number(&self, url: &Url) -> Option<u32> {
        let (host, now) = (url.authority().to_owned(), Instant::now());
        // Ignores poisoning: no code panics under this lock, and the counts would still be
        // consistent.
        let mut hosts = self.kept_hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() >= KEPT_HOSTS && !hosts.contains_key(&host) {
            // Forgets idle hosts; their connections are closed after `KEPT`.
            hosts.retain(|_, host| now.duration_since(host.last_request) < 2 * KEPT);
            if hosts.len() >= KEPT_HOSTS {
                return None;
            }
        }
        let host = hosts.entry(host).or_insert(KeptHost { last_request: now, requests: 0 });
        host.last_request = now;
        host.requests = host.requests.wrapping_add(1);
        Some(host.requests)
    }

    /// Returns the connections for a URL. A host that is an IP address never reaches the resolver,
    /// so it is checked here.
    fn connections(&self, url: &Url) -> Result<&Connections, EgressError> {
        Ok(match self.guard.reach(url).map_err(|error| of_url(url, error))? {
            Reach::Public => &self.public,
            Reach::OperatorOnly => &self.operator_only,
        })
    }

    async fn read(&self, response: &mut reqwest::Response, deadline: Instant) -> Vec<u8> {
        let mut body = Vec::new();
        while body.len() < self.limits.max_response_bytes {
            let Ok(Ok(Some(chunk))) = timeout_at(deadline, response.chunk()).await else { break };
            let room = self.limits.max_response_bytes - body.len();
            body.extend(chunk.iter().take(room));
        }
        body
    }
}

async fn send_by(
    deadline: Instant,
    request: reqwest::RequestBuilder,
) -> Result<reqwest::Response, EgressError> {
    match timeout_at(deadline, request.send()).await {
        Ok(sent) => sent.map_err(|error| of_request(&error)),
        Err(_) => Err(EgressError::Timeout),
    }
}

fn build(
    limits: &Limits,
    resolver: &Arc<GuardedResolver>,
    behind: AfterResponse,
    Roots(roots): &Roots,
) -> Result<reqwest::Client, EgressError> {
    let builder = || {
        reqwest::Client::builder()
            .tls_certs_merge(roots.iter().cloned())
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            // The blob store's client brings HTTP/2 into the build; it is not used with strangers.
            .http1_only()
            .referer(false)
            .retry(reqwest::retry::never())
            .https_only(resolver.reach == Reach::Public)
            .pool_max_idle_per_host(if behind == AfterResponse::Keep { KEPT_PER_HOST } else { 0 })
            .pool_idle_timeout(KEPT)
            .connect_timeout(limits.connect_timeout)
            .dns_resolver(Arc::clone(resolver))
    };
    // A machine without root certificates can still reach the operator's own receivers over plain
    // http; every https handshake fails there, as it must.
    builder()
        .build()
        .or_else(|error| {
            let error = &error as &dyn StdError;
            tracing::warn!(
                error,
                "found no root certificates: https works only with the root certificates in the \
                 settings"
            );
            builder().tls_certs_only(roots.iter().cloned()).build()
        })
        .map_err(|error| EgressError::Setup(error.to_string()))
}

/// Looks up a host, checks every address, and returns exactly those.
struct GuardedResolver {
    lookup: Lookup,
    guard: Guard,
    reach: Reach,
}

impl GuardedResolver {
    fn addresses(
        &self,
        host: &str,
    ) -> impl Future<Output = Result<Vec<IpAddr>, EgressError>> + use<> {
        let looking = self.lookup.look(host);
        let (guard, reach) = (self.guard.clone(), self.reach);
        async move {
            let addresses = looking.await.map_err(|_| EgressError::Lookup)?;
            if addresses.is_empty() {
                return Err(EgressError::Lookup);
            }
            // One forbidden address among good ones is an attack or a mistake: refuse all.
            if let Some(address) = addresses.iter().find(|one| !guard.admits(**one, reach)) {
                return Err(EgressError::PrivateAddress {
                    address: *address,
                    reach,
                    of_name: true,
                });
            }
            Ok(addresses)
        }
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let checking = self.addresses(name.as_str());
        Box::pin(async move {
            let checked = checking.await?.into_iter();
            let checked = checked.map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(checked) as Addrs)
        })
    }
}

/// Parses Retry-After: seconds, or a date. A date is counted from the response's own `Date`, so
/// that a receiver with a wrong clock still gets the pause that it asked for.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
    let asked = text(RETRY_AFTER)?;
    if let Ok(seconds) = asked.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let seconds = |text| Some(mail_parser::DateTime::parse_rfc822(text)?.to_timestamp());
    let pause = seconds(asked)?.checked_sub(seconds(text(DATE)?)?)?;
    Some(Duration::from_secs(u64::try_from(pause).unwrap_or(0)))
}

#[cfg(test)]
mod tests;
