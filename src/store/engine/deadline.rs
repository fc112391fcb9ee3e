//! Answers in time: a server that has fallen silent is not waited for.

use std::time::Duration;

/// What a PostgreSQL answers in time, or an error.
pub async fn in_time<T>(
    deadline: Duration,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    tokio::time::timeout(deadline, work)
        .await
        .unwrap_or_else(|_| Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())))
}
