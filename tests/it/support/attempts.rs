//! Results of deliveries, read from the embedded store.

use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Row as _};
use tokio::time::timeout;

use super::PATIENCE;

/// One attempt, by the label of its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub label: String,
    pub status: Option<u16>,
    pub error: Option<String>,
    pub response: Vec<u8>,
    /// Where its delivery stands now.
    pub state: String,
}

async fn open(store: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(store.join("gatepost.db"));
    options.busy_timeout(PATIENCE).connect().await.unwrap()
}

/// All attempts, the oldest first, once at least `wanted` have been made.
pub async fn ended(store: &Path, wanted: usize) -> Vec<Ended> {
    let mut connection = open(store).await;
    let mut made = Vec::new();
    let waiting = async {
        loop {
            made = attempts(&mut connection).await;
            if made.len() >= wanted {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    let came = timeout(PATIENCE, waiting).await;
    assert!(came.is_ok(), "{} of {wanted} attempts were made: {made:?}", made.len());
    made
}

async fn attempts(connection: &mut SqliteConnection) -> Vec<Ended> {
    let rows = sqlx::query(
        "SELECT label, status, error, response, state
         FROM attempts JOIN deliveries ON deliveries.id = delivery_id
         JOIN destinations ON destinations.id = destination_id ORDER BY attempts.id",
    )
    .fetch_all(connection)
    .await
    .unwrap();
    let ended = rows.iter().map(|row| Ended {
        label: row.get("label"),
        status: row.get::<Option<i64>, _>("status").map(|status| status.try_into().unwrap()),
        error: row.get("error"),
        response: row.get("response"),
        state: row.get("state"),
    });
    ended.collect()
}

/// Makes these the URLs of the destinations with these labels, past every check.
pub async fn readdress(store: &Path, urls: &[(String, String)]) {
    let mut connection = open(store).await;
    for (label, url) in urls {
        let changed = sqlx::query("UPDATE destinations SET url = $1 WHERE label = $2")
            .bind(url)
            .bind(label)
            .execute(&mut connection)
            .await
            .unwrap();
        assert_eq!(changed.rows_affected(), 1, "{label}");
    }
}

/// Lets the time pass in which former secrets sign.
pub async fn end_overlaps(store: &Path) {
    let mut connection = open(store).await;
    let ended = sqlx::query(
        "UPDATE destinations SET former_secrets = json_replace(former_secrets, '$[0][1]', 1)
         WHERE json_array_length(former_secrets) = 1",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    assert_eq!(ended.rows_affected(), 1);
}
