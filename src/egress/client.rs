//! One request to a stranger, within bounds of time, size and address.

use std::error::Error as StdError;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{DATE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::error::plain;
use super::guard::{Guard, Reach};
use crate::rules::{ForwardRules, WebhookRules};

pub use super::error::EgressError;
pub use super::lookup::Lookup;

/// Stands in every request whose URL a customer chose, so that a gateway that it comes back to
/// knows it for what it is, whatever names and proxies lie between (threats H10).
pub const LOOP: HeaderName = HeaderName::from_static("x-gatepost-loop");

/// Bounds of one request.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From look-up to the end of the answer.
    pub timeout: Duration,
    /// Look-up, connection and TLS.
    pub connect_timeout: Duration,
    /// Octets of the answer's body that are read; the rest is not.
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
    /// Of what applications answer nothing is read but the status.
    fn from(rules: &ForwardRules) -> Self {
        Self {
            timeout: rules.max_timeout(),
            connect_timeout: rules.connect_timeout(),
            max_response_bytes: 0,
        }
    }
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// From now (RFC 9110 §10.2.3).
    pub retry_after: Option<Duration>,
    /// As much of the body as came in time and within bounds.
    pub body: Vec<u8>,
}

/// What came back, whole.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    /// From now (RFC 9110 §10.2.3).
    pub retry_after: Option<Duration>,
    pub body: Vec<u8>,
}

/// Authorities that are trusted beside those of the system.
#[derive(Clone, Debug, Default)]
pub struct Roots(Vec<reqwest::Certificate>);

impl Roots {
    /// From PEM; `None` where there is no certificate in it.
    pub fn from_pem(text: &[u8]) -> Option<Self> {
        let roots = reqwest::Certificate::from_pem_bundle(text).ok()?;
        (!roots.is_empty()).then_some(Self(roots))
    }
}

/// Speaks to strangers. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    guard: Guard,
    limits: Limits,
    public: reqwest::Client,
    operator_only: reqwest::Client,
}

impl Client {
    /// Fails only where the machine lacks what TLS needs.
    pub fn new(guard: Guard, limits: Limits, lookup: Lookup) -> Result<Self, EgressError> {
        Self::trusting(guard, limits, lookup, &Roots::default())
    }

    /// The same; servers are verified by these authorities too.
    pub fn trusting(
        guard: Guard,
        limits: Limits,
        lookup: Lookup,
        roots: &Roots,
    ) -> Result<Self, EgressError> {
        let for_reach = |reach| {
            let resolver =
                Arc::new(Checked { lookup: lookup.clone(), guard: guard.clone(), reach });
            build(&limits, reach, resolver, roots)
        };
        let (public, operator_only) = (for_reach(Reach::Public)?, for_reach(Reach::OperatorOnly)?);
        Ok(Self { guard, limits, public, operator_only })
    }

    /// Sends `body` once, to whom a customer named: deliveries, tests and relays go out here. A
    /// status is an answer, whatever became of the body behind it: the receiver has decided, and
    /// what follows is for the log only.
    pub async fn post(
        &self,
        url: &Url,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response, EgressError> {
        headers.insert(LOOP, HeaderValue::from_static("1"));
        let deadline = Instant::now() + self.limits.timeout;
        let mut response = self.send(Method::POST, url, headers, body, deadline).await?;
        Ok(Response {
            status: response.status().as_u16(),
            retry_after: retry_after(response.headers()),
            body: self.read(&mut response, deadline).await,
        })
    }

    /// Passes a request of another on, to whom a customer named. It has this time until the answer
    /// begins: of that the status is all that counts, and nothing more of it is read.
    pub async fn pass_on(
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

    /// Sends one request. An answer that is cut short, or longer than one is read, is none.
    pub async fn exchange(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, EgressError> {
        let deadline = Instant::now() + self.limits.timeout;
        let mut response = self.send(method, url, headers, body, deadline).await?;
        let mut body = Vec::new();
        loop {
            let piece = timeout_at(deadline, response.chunk()).await;
            let piece = piece.map_err(|_| EgressError::Timeout)?.map_err(|error| plain(&error))?;
            let Some(piece) = piece else { break };
            if self.limits.max_response_bytes.saturating_sub(body.len()) < piece.len() {
                return Err(EgressError::TooLong);
            }
            body.extend_from_slice(&piece);
        }
        Ok(Answer {
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
        // A host that is an address never comes past the resolver: it is judged here.
        let client = match self.guard.reach(url)? {
            Reach::Public => &self.public,
            Reach::OperatorOnly => &self.operator_only,
        };
        let mut request = client.request(method, url.clone()).headers(headers);
        if !body.is_empty() {
            request = request.body(body);
        }
        match timeout_at(deadline, request.send()).await {
            Ok(sent) => sent.map_err(|error| plain(&error)),
            Err(_) => Err(EgressError::Timeout),
        }
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

fn build(
    limits: &Limits,
    reach: Reach,
    resolver: Arc<Checked>,
    Roots(roots): &Roots,
) -> Result<reqwest::Client, EgressError> {
    let builder = || {
        reqwest::Client::builder()
            .tls_certs_merge(roots.iter().cloned())
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            // The blob store's client brings HTTP/2 into the tree; strangers are not spoken to so.
            .http1_only()
            .referer(false)
            .retry(reqwest::retry::never())
            .https_only(reach == Reach::Public)
            // No idle connections: each attempt looks its host up and is checked (contract §5),
            // and the number of attempts bounds the number of open sockets.
            .pool_max_idle_per_host(0)
            .connect_timeout(limits.connect_timeout)
            .dns_resolver(Arc::clone(&resolver))
    };
    // A machine without root certificates can still serve the operator's own plain-http
    // receivers; every https handshake fails there, as it must.
    builder()
        .build()
        .or_else(|error| {
            let error = &error as &dyn StdError;
            tracing::warn!(
                error,
                "no root certificates: https reaches no server but of a root named to it"
            );
            builder().tls_certs_only(roots.iter().cloned()).build()
        })
        .map_err(|error| EgressError::Setup(error.to_string()))
}

/// Looks up, checks every address, and hands on exactly what was checked.
struct Checked {
    lookup: Lookup,
    guard: Guard,
    reach: Reach,
}

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let looking = self.lookup.look(name.as_str());
        let (guard, reach) = (self.guard.clone(), self.reach);
        Box::pin(async move {
            let addresses = looking.await.map_err(|_| EgressError::Lookup)?;
            if addresses.is_empty() {
                return Err(EgressError::Lookup.into());
            }
            // One bad address among good ones is an attack or a mistake; neither deserves a try.
            if !addresses.iter().all(|address| guard.admits(*address, reach)) {
                return Err(EgressError::PrivateAddress.into());
            }
            let checked = addresses.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(checked) as Addrs)
        })
    }
}

/// Seconds, or a date. A date counts from the answer's own `Date`, so that a receiver whose clock
/// is wrong still gets the pause that it asked for.
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
