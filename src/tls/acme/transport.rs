//! Sends the requests of the ACME client through `egress`.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Body as _;
use hyper::http::header::RETRY_AFTER;
use hyper::http::{HeaderValue, Method, Request, Response};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use url::Url;

use crate::egress::client::{Client, WholeResponse};

/// No authority needs a longer wait; the ACME client adds it to the clock unchecked.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(86_400);

/// Clones share the wait that the authority asked for.
#[derive(Clone)]
pub(super) struct Transport {
    client: Client,
    /// When to ask for what an authority dates by `Retry-After`, if it does not.
    later: Duration,
    wait: Arc<Mutex<Option<Duration>>>,
}

/// Errors that the ACME client has no variant for.
#[derive(Debug, thiserror::Error)]
pub(super) enum TransportError {
    #[error("the directory names {0}, which is not https")]
    NotHttps(String),
    #[error("the authority answered {0} without an ACME error")]
    Status(u16),
}

impl Transport {
    pub(super) fn new(client: Client, later: Duration) -> Self {
        Self { client, later, wait: Arc::default() }
    }

    /// Takes the wait that the authority asked for in its last refusal.
    pub(super) fn asked_to_wait(&self) -> Option<Duration> {
        self.wait.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    async fn exchange(self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Error> {
        let (parts, mut body) = request.into_parts();
        // The body has one frame.
        let frame = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
        let data = frame.and_then(|Ok(frame)| frame.into_data().ok());
        let body = data.unwrap_or_default();
        let not_https = || Error::Other(TransportError::NotHttps(parts.uri.to_string()).into());
        let url = Url::parse(&parts.uri.to_string()).map_err(|_| not_https())?;
        // RFC 8555 §6.1: requests carry keys and tokens.
        if url.scheme() != "https" {
            return Err(not_https());
        }
        let is_get = parts.method == Method::GET;
        let answer = self.client.exchange(parts.method, &url, parts.headers, body).await;
        let mut response = self.response(answer.map_err(|error| Error::Other(error.into()))?)?;
        // The ACME client takes no renewal window without one, which RFC 9773 §4.3 only recommends.
        if is_get {
            let later = HeaderValue::from(self.later.as_secs());
            response.parts.headers.entry(RETRY_AFTER).or_insert(later);
        }
        Ok(response)
    }

    pub(super) fn response(&self, answer: WholeResponse) -> Result<BytesResponse, Error> {
        let wait = answer.retry_after.map(|wait| wait.min(LONGEST_WAIT));
        let refused = answer.status >= 400;
        if refused {
            *self.wait.lock().unwrap_or_else(PoisonError::into_inner) = wait;
        }
        // An error of a proxy in between has no problem document (RFC 7807).
        let is_problem = serde_json::from_slice::<serde_json::Map<_, _>>(&answer.body).is_ok();
        if refused && !is_problem {
            return Err(Error::Other(TransportError::Status(answer.status).into()));
        }
        let mut response = Response::builder().status(answer.status).body(())?;
        *response.headers_mut() = answer.headers;
        response.headers_mut().remove(RETRY_AFTER);
        if let Some(wait) = wait {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_secs()));
        }
        let (parts, ()) = response.into_parts();
        Ok(BytesResponse { parts, body: Box::new(Bytes::from(answer.body)) })
    }
}

impl HttpClient for Transport {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        Box::pin(self.clone().exchange(request))
    }
}
