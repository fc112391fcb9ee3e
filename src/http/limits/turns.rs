//! Places for expensive work, at most one per key: messages sent by clients (each is held in memory
//! several times over while it is examined), and the log (each statement walks many rows and
//! occupies a reader of the store).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::domain::id::KeyId;
use crate::domain::shares::{Share, Shares};
use crate::http::error::{Code, Problem};

/// All places, and the keys that hold or wait for one.
#[derive(Debug)]
pub(crate) struct Turns {
    pub(in crate::http) places: Arc<Semaphore>,
    keys: Shares<KeyId>,
    patience: Duration,
    errors: TurnErrors,
}

/// The texts of refusals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnErrors {
    /// The key has a turn already.
    pub(crate) busy: &'static str,
    /// No place is free in time.
    pub(crate) full: &'static str,
}

/// Freed when it is dropped.
#[derive(Debug)]
pub(in crate::http) struct TurnPlace {
    _permit: OwnedSemaphorePermit,
    _turn: Turn,
}

/// A key's turn, until it is dropped.
pub(in crate::http) type Turn = Share<KeyId>;

impl Turns {
    /// `most` places, each waited for up to `patience`.
    pub(crate) fn new(most: usize, patience: Duration, errors: TurnErrors) -> Self {
        let places = Arc::new(Semaphore::new(most));
        Self { places, keys: Shares::default(), patience, errors }
    }

    /// Takes the key's turn, then waits for a place. Fails with 429 if the key has a turn, with 503
    /// if no place is free in time.
    pub(in crate::http) async fn place(&self, key: KeyId) -> Result<TurnPlace, Problem> {
        let turn = self.turn(key)?;
        Ok(TurnPlace { _permit: self.permit().await?, _turn: turn })
    }

    /// Takes the turn of a key, for work that needs a place now and then. Fails with 429 if the key
    /// has a turn.
    pub(in crate::http) fn turn(&self, key: KeyId) -> Result<Turn, Problem> {
        self.keys.take(&[(key, 1)]).ok_or_else(|| Problem::new(Code::RateLimited, self.errors.busy))
    }

    /// Waits for a place while holding a turn. Fails with 503 if none is free in time.
    pub(in crate::http) async fn permit(&self) -> Result<OwnedSemaphorePermit, Problem> {
        match timeout(self.patience, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(Problem::busy(self.errors.full)),
        }
    }
}

/// Runs work to its end even if the request is dropped, then frees `holds`: SQLite continues a
/// statement that nobody waits for. Fails with 500 if the work panics.
pub(in crate::http) async fn to_the_end<T: Send + 'static>(
    holds: impl Send + 'static,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Problem> {
    let working = tokio::spawn(async move {
        let done = work.await;
        drop(holds);
        done
    });
    working.await.map_err(Problem::internal)
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_place_is_taken_until_the_work_ends_though_nobody_waits() {
        let places =
            Turns::new(1, Duration::from_secs(20), TurnErrors { busy: "busy", full: "full" });
        let permit = places.permit().await.unwrap();
        let (end, ended) = oneshot::channel::<()>();
        let (begin, begun) = oneshot::channel();
        let work = async move {
            begin.send(()).unwrap();
            ended.await
        };
        let mut waiting = Box::pin(to_the_end(permit, work));
        tokio::select! {
            _ = &mut waiting => unreachable!("it is told to end below"),
            begun = begun => begun.unwrap(),
        }
        drop(waiting);
        assert_eq!(places.places.available_permits(), 0);
        end.send(()).unwrap();
        drop(places.permit().await.unwrap());
    }
}
