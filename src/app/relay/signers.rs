//! The certificates of those who sign for Amazon SNS, and the one other thing that it wants asked for:
//! each once, from where it is pinned to be, through the guarded way out.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::HeaderMap;
use tokio::sync::Semaphore;
use url::Url;

use super::providers::{Certificate, CertificateError};
use crate::egress::client::Client;

/// Questions under way at the same time: there is a certificate for some months, and a confirmation
/// for a topic.
const AT_ONCE: usize = 4;

/// A question under way.
pub type Asking = Pin<Box<dyn Future<Output = Result<Vec<u8>, String>> + Send>>;

/// Asks for certificates, and remembers so many. Cheap to clone.
#[derive(Clone)]
pub struct Signers {
    ask: Arc<dyn Fn(Url) -> Asking + Send + Sync>,
    /// The one that was asked for last stands last.
    known: Arc<Mutex<VecDeque<(Url, Certificate)>>>,
    most: usize,
    places: Arc<Semaphore>,
}

/// Why there is no certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignerError {
    /// It could not be asked for: the sender of the message may try again.
    #[error("{0}")]
    Unreachable(String),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

impl fmt::Debug for Signers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signers")
    }
}

impl Signers {
    /// Asks by this client; `most` certificates are remembered.
    pub fn over(client: Client, most: usize) -> Self {
        Self::new(most, move |url| {
            let client = client.clone();
            async move {
                let headers = HeaderMap::new();
                let asked = client.exchange(Method::GET, &url, headers, Bytes::new()).await;
                let answer = asked.map_err(|error| error.to_string())?;
                let fine = answer.status == 200;
                fine.then_some(answer.body).ok_or_else(|| format!("status {}", answer.status))
            }
        })
    }

    /// Asks in this way: a body where the status was 200, else why not.
    pub fn new<F, A>(most: usize, ask: F) -> Self
    where
        F: Fn(Url) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Vec<u8>, String>> + Send + 'static,
    {
        let places = Arc::new(Semaphore::new(AT_ONCE));
        Self { ask: Arc::new(move |url| Box::pin(ask(url))), known: Arc::default(), most, places }
    }

    /// The certificate at this URL, which must be one that is pinned.
    pub async fn certificate(&self, url: &Url) -> Result<Certificate, SignerError> {
        if let Some((_, known)) = self.known().iter().find(|(known, _)| known == url) {
            return Ok(known.clone());
        }
        let pem = self.ask(url).await.map_err(SignerError::Unreachable)?;
        let certificate = Certificate::from_pem(&pem, url.host_str().unwrap_or_default())?;
        let mut known = self.known();
        while known.len() >= self.most {
            known.pop_front();
        }
        known.push_back((url.clone(), certificate.clone()));
        Ok(certificate)
    }

    /// Says that a topic is wanted.
    pub async fn confirm(&self, url: &Url) -> Result<(), String> {
        self.ask(url).await.map(|_| ())
    }

    async fn ask(&self, url: &Url) -> Result<Vec<u8>, String> {
        let _place = self.places.acquire().await.map_err(|error| error.to_string())?;
        (self.ask)(url.clone()).await
    }

    /// Nothing panics while it holds the lock; if something did, the list would be whole.
    fn known(&self) -> MutexGuard<'_, VecDeque<(Url, Certificate)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
