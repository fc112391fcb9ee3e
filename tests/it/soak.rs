//! Takes minutes to hours, so only `scripts/soak` runs it.

use crate::{cluster, failover, upgrade};

/// Plays what `GATEPOST_TEST_SOAK` names, as scripts/soak explains it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes long: scripts/soak"]
async fn soak() {
    let wanted = std::env::var("GATEPOST_TEST_SOAK").unwrap();
    match wanted.split_once(' ').expect("a play and what it is given") {
        ("cluster", messages) => cluster::soak(messages.parse().unwrap()).await,
        ("failover", rounds) => failover::soak(rounds.parse().unwrap()).await,
        ("upgrade", old) => upgrade::soak(old).await,
        other => panic!("no such play: {other:?}"),
    }
}
