//! Places for work that few may do at the same time, of which a key has one: messages that clients
//! send (each is held in memory a few times over until it has been looked at), and the log (each
//! statement walks many rows, and has a reader of the store to itself).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::domain::id::KeyId;
use crate::domain::shares::{Share, Shares};
use crate::http::error::{Code, Problem};

/// All places, and the keys that have or wait for one.
#[derive(Debug)]
pub(crate) struct Turns {
    pub(in crate::http) places: Arc<Semaphore>,
    keys: Shares<KeyId>,
    patience: Duration,
    busy: &'static str,
    full: &'static str,
}

/// Given back when it is dropped.
#[derive(Debug)]
pub(in crate::http) struct Place {
    _permit: OwnedSemaphorePermit,
    _turn: Turn,
}

/// That it is a key's turn, until it is dropped.
pub(in crate::http) type Turn = Share<KeyId>;

impl Turns {
    /// So many, each waited for as long as `patience`; `busy` is said to a key that has one, `full`
    /// to a client for which none came free.
    pub(crate) fn new(
        most: usize,
        patience: Duration,
        (busy, full): (&'static str, &'static str),
    ) -> Self {
        let places = Arc::new(Semaphore::new(most));
        Self { places, keys: Shares::default(), patience, busy, full }
    }

    /// A place for this key, which has none: 429 if it has, 503 if none comes free in time.
    pub(in crate::http) async fn place(&self, key: KeyId) -> Result<Place, Problem> {
        let turn = self.turn(key)?;
        Ok(Place { _permit: self.permit().await?, _turn: turn })
    }

    /// The turn of a key for work that needs a place now and then: 429 if it has one.
    pub(in crate::http) fn turn(&self, key: KeyId) -> Result<Turn, Problem> {
        self.keys.take(&[(key, 1)]).ok_or_else(|| Problem::new(Code::RateLimited, self.busy))
    }

    /// A place for whoever has a turn: 503 if none comes free in time.
    pub(in crate::http) async fn permit(&self) -> Result<OwnedSemaphorePermit, Problem> {
        match timeout(self.patience, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(Problem::busy(self.full)),
        }
    }
}

/// Does work to its end, whoever stops to wait for it, and gives back what it `holds` then: SQLite
/// works on a statement that nobody waits for any more.
pub(in crate::http) async fn to_the_end<T: Send + 'static>(
    holds: impl Send + 'static,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Problem> {
    let working = tokio::spawn(async move {
        let done = work.await;
        drop(holds);
        done
    });
    working.await.map_err(|error| Problem::internal(error.to_string()))
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_place_is_taken_until_the_work_ends_though_nobody_waits() {
        let places = Turns::new(1, Duration::from_secs(20), ("busy", "full"));
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
