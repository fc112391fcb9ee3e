//! Fetches the certificates that sign for Amazon SNS, and confirms subscriptions: only from pinned
//! URLs, by the guarded client.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::HeaderMap;
use tokio::sync::Semaphore;
use url::Url;

use super::providers::{Certificate, CertificateError};
use crate::app::locked::locked;
use crate::egress::client::{Client, EgressError};

/// Requests under way at a time; others wait. A certificate is fetched once in months, a
/// subscription confirmed once per topic.
const AT_ONCE: usize = 4;

/// How long a failure is remembered: less than the 20 seconds after which SNS retries, so that each
/// retry fetches again.
const FAILURE_REMEMBERED: Duration = Duration::from_secs(15);

pub type Fetching = Pin<Box<dyn Future<Output = Result<Vec<u8>, FetchError>> + Send>>;

/// Fetches certificates and remembers them. Clones share one memory, whose lock is never held
/// across an await.
#[derive(Clone)]
pub struct SnsCertificates {
    ask: Arc<dyn Fn(Url) -> Fetching + Send + Sync>,
    memory: Arc<Mutex<Memory>>,
    most: usize,
    places: Arc<Semaphore>,
}

/// Certificates and failures, the newest last.
#[derive(Debug, Default)]
struct Memory {
    known: VecDeque<(Url, Certificate)>,
    failed: VecDeque<(Url, Instant, SnsCertificateError)>,
}

/// Why a request brought no usable response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    #[error(transparent)]
    Egress(#[from] EgressError),
    #[error("status {0}")]
    Status(u16),
    #[error("the server is shutting down")]
    Ending,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnsCertificateError {
    /// The request failed: the provider may retry.
    #[error(transparent)]
    Unreachable(#[from] FetchError),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

impl fmt::Debug for SnsCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SnsCertificates")
    }
}

impl SnsCertificates {
    pub fn over(client: Client, most: usize) -> Self {
        Self::new(most, move |url| {
            let client = client.clone();
            async move {
                let headers = HeaderMap::new();
                let answer = client.exchange(Method::GET, &url, headers, Bytes::new()).await?;
                let fine = answer.status == 200;
                fine.then_some(answer.body).ok_or(FetchError::Status(answer.status))
            }
        })
    }

    /// Fetches with `ask`, which returns the body of a response of status 200, or an error.
    pub fn new<F, A>(most: usize, ask: F) -> Self
    where
        F: Fn(Url) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Vec<u8>, FetchError>> + Send + 'static,
    {
        let places = Arc::new(Semaphore::new(AT_ONCE));
        Self { ask: Arc::new(move |url| Box::pin(ask(url))), memory: Arc::default(), most, places }
    }

    /// Returns the certificate at this URL, which the caller has pinned. A fresh failure is
    /// returned without another request.
    pub async fn certificate(&self, url: &Url) -> Result<Certificate, SnsCertificateError> {
        if let Some(remembered) = locked(&self.memory).of(url) {
            return remembered;
        }
        let fetched = self.fetch(url).await;
        let mut memory = locked(&self.memory);
        match &fetched {
            // Another request may have fetched it meanwhile.
            Ok(_) if memory.known.iter().any(|(known, _)| known == url) => {}
            Ok(certificate) => {
                bound(&mut memory.known, self.most);
                memory.known.push_back((url.clone(), certificate.clone()));
            }
            Err(error) => {
                memory.failed.retain(|(failed, ..)| failed != url);
                bound(&mut memory.failed, self.most);
                memory.failed.push_back((url.clone(), Instant::now(), error.clone()));
            }
        }
        fetched
    }

    async fn fetch(&self, url: &Url) -> Result<Certificate, SnsCertificateError> {
        let pem = self.ask(url).await?;
        Ok(Certificate::from_pem(&pem, url.host_str().unwrap_or_default())?)
    }

    pub async fn confirm(&self, url: &Url) -> Result<(), FetchError> {
        self.ask(url).await.map(|_| ())
    }

    async fn ask(&self, url: &Url) -> Result<Vec<u8>, FetchError> {
        let _place = self.places.acquire().await.map_err(|_| FetchError::Ending)?;
        (self.ask)(url.clone()).await
    }
}

impl Memory {
    fn of(&self, url: &Url) -> Option<Result<Certificate, SnsCertificateError>> {
        if let Some((_, known)) = self.known.iter().find(|(known, _)| known == url) {
            return Some(Ok(known.clone()));
        }
        let failed = self.failed.iter().find(|(failed, ..)| failed == url);
        let fresh = failed.filter(|(_, at, _)| at.elapsed() < FAILURE_REMEMBERED);
        fresh.map(|(.., error)| Err(error.clone()))
    }
}

fn bound<T>(list: &mut VecDeque<T>, most: usize) {
    while list.len() >= most && list.pop_front().is_some() {}
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_failure_is_remembered_for_a_while_and_bounded() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counting = Arc::clone(&asked);
        let signers = SnsCertificates::new(2, move |_| {
            counting.fetch_add(1, Ordering::SeqCst);
            async { Ok(b"<html>log in</html>".to_vec()) }
        });
        let url = |n: u8| Url::parse(&format!("https://sns.eu-west-1.amazonaws.com/{n}")).unwrap();
        let unreadable = SnsCertificateError::Certificate(CertificateError::Unreadable);
        for _ in 0..3 {
            assert_eq!(signers.certificate(&url(1)).await.unwrap_err(), unreadable);
        }
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        for (_, at, _) in &mut locked(&signers.memory).failed {
            *at = at.checked_sub(FAILURE_REMEMBERED).unwrap();
        }
        assert_eq!(signers.certificate(&url(1)).await.unwrap_err(), unreadable);
        assert_eq!(asked.load(Ordering::SeqCst), 2, "asked again");
        for n in 2..10 {
            assert_eq!(signers.certificate(&url(n)).await.unwrap_err(), unreadable);
        }
        assert_eq!(locked(&signers.memory).failed.len(), 2);
    }

    #[tokio::test]
    async fn one_that_several_ask_for_at_once_is_kept_once() {
        let sns = crate::testkit::provider::Sns::new(
            &std::fs::read_to_string(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/fixtures/keys/s1._domainkey.good.example.pem"
            ))
            .unwrap(),
            "sns.amazonaws.com",
        )
        .unwrap();
        let pem = sns.certificate().as_bytes().to_vec();
        let signers = SnsCertificates::new(8, move |_| {
            let pem = pem.clone();
            async move {
                tokio::task::yield_now().await;
                Ok(pem)
            }
        });
        let url = Url::parse("https://sns.eu-west-1.amazonaws.com/x").unwrap();
        let (one, two) = tokio::join!(signers.certificate(&url), signers.certificate(&url));
        assert!(one.is_ok() && two.is_ok());
        assert_eq!(locked(&signers.memory).known.len(), 1);
    }
}
