//! Large raw messages in a bucket: durable once acknowledged, by the bucket's own promise.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::prefix::PrefixStore;
use object_store::{BackoffConfig, ClientOptions, Error, ObjectStore, RetryConfig};

use super::place::Bucket;
use crate::domain::secret::Secret;
use crate::rules::Objects;

/// A store that is up accepts a connection at once.
const CONNECT: Duration = Duration::from_secs(5);
/// Within the time limit of the whole put or read. No other put uses its name: a retry is harmless.
const RETRIES: usize = 3;

/// Opens the bucket, or the part of it below the prefix. Sends no request yet.
pub fn open(bucket: &Bucket, rules: &Objects) -> Result<Arc<dyn ObjectStore>, Error> {
    let limit = rules.put().max(rules.read());
    let plain = bucket.endpoint.as_ref().is_some_and(|url| url.scheme() == "http");
    let client = ClientOptions::new()
        .with_allow_http(plain)
        .with_connect_timeout(CONNECT)
        .with_timeout(limit);
    let retry = RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: RETRIES,
        retry_timeout: limit,
    };
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(&bucket.name)
        .with_region(&bucket.region)
        .with_access_key_id(text(&bucket.access_key))
        .with_secret_access_key(text(&bucket.secret_key))
        // Single deletions: the one request that every S3-compatible store supports.
        .with_disable_bulk_delete(true)
        .with_client_options(client)
        .with_retry(retry);
    if let Some(endpoint) = &bucket.endpoint {
        builder = builder.with_endpoint(endpoint.as_str().trim_end_matches('/'));
    }
    let objects = builder.build()?;
    if bucket.prefix.is_empty() {
        return Ok(Arc::new(objects));
    }
    Ok(Arc::new(PrefixStore::new(objects, bucket.prefix.as_str())))
}

fn text(secret: &Secret) -> String {
    String::from_utf8_lossy(secret.expose()).into_owned()
}
