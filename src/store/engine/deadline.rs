//! Deadlines: a database server that has fallen silent is not waited for.

use std::time::Duration;

/// Returns the result of `work`, or the I/O error `TimedOut` at the deadline.
pub async fn in_time<T>(
    deadline: Duration,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    tokio::time::timeout(deadline, work)
        .await
        .unwrap_or_else(|_| Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())))
}
