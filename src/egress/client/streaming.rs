//! A response that is read as it comes.

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::HeaderMap;
use tokio::time::{Instant, timeout};
use url::Url;

use super::{Client, Limits};
use crate::egress::error::{EgressError, of_request};

/// A response whose body still comes.
#[derive(Debug)]
pub struct Streamed {
    pub status: u16,
    pub headers: HeaderMap,
    response: reqwest::Response,
    limits: Limits,
}

impl Client {
    /// Sends one request, and returns its response as it begins. The time of a request bounds the
    /// wait until then, and for each piece of the body.
    pub async fn begin(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Streamed, EgressError> {
        let deadline = Instant::now() + self.limits.timeout;
        let mut response = self.send(method, url, headers, body, deadline).await?;
        Ok(Streamed {
            status: response.status().as_u16(),
            headers: std::mem::take(response.headers_mut()),
            response,
            limits: self.limits,
        })
    }
}

impl Streamed {
    /// Returns the next piece of the body; None at its end.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, EgressError> {
        let piece = timeout(self.limits.timeout, self.response.chunk()).await;
        piece.map_err(|_| EgressError::Timeout)?.map_err(|error| of_request(&error))
    }

    /// Returns the rest of the body; fails if it is longer than the limit.
    pub async fn rest(&mut self) -> Result<Vec<u8>, EgressError> {
        let mut body = Vec::new();
        while let Some(piece) = self.piece().await? {
            if self.limits.max_response_bytes.saturating_sub(body.len()) < piece.len() {
                return Err(EgressError::TooLong);
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }
}
