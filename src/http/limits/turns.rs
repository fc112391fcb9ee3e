//! Places for expensive work, at most one per key: messages sent by clients (each is held in memory
//! several times over while it is examined), and the log (each statement walks many rows and
//! occupies a reader of the store).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::domain::id::{AccountId, KeyId};
use crate::domain::shares::{Share, Shares};
use crate::http::error::{Code, Problem};

/// All places, and the keys that hold or wait for one.
#[derive(Debug)]
pub(crate) struct Turns {
    pub(in crate::http) places: Arc<Semaphore>,
    shares: Shares<Holder>,
    patience: Duration,
    errors: TurnErrors,
}

/// Those among whom the places are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::http) enum Holder {
    Key(KeyId),
    Account(AccountId),
}

/// The texts of refusals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnErrors {
    /// The key, or the account, has all its turns already.
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
pub(in crate::http) type Turn = Share<Holder>;

impl Turns {
    /// `most` places, each waited for up to `patience`.
    pub(crate) fn new(most: usize, patience: Duration, errors: TurnErrors) -> Self {
        let places = Arc::new(Semaphore::new(most));
        Self { places, shares: Shares::default(), patience, errors }
    }

    /// Takes the key's turn, then waits for a place. Fails with 429 if the key has a turn, with 503
    /// if no place is free in time.
    pub(in crate::http) async fn place(&self, key: KeyId) -> Result<TurnPlace, Problem> {
        let turn = self.turn(key)?;
        Ok(TurnPlace { _permit: self.permit().await?, _turn: turn })
    }

    /// Like [`Self::place`], with so many places at most for all keys of this account.
    pub(in crate::http) async fn place_of(
        &self,
        key: KeyId,
        (account, most): (AccountId, usize),
    ) -> Result<TurnPlace, Problem> {
        let turn = self.take(&[(Holder::Key(key), 1), (Holder::Account(account), most)])?;
        Ok(TurnPlace { _permit: self.permit().await?, _turn: turn })
    }

    /// Takes the turn of a key, for work that needs a place now and then. Fails with 429 if the key
    /// has a turn.
    pub(in crate::http) fn turn(&self, key: KeyId) -> Result<Turn, Problem> {
        self.take(&[(Holder::Key(key), 1)])
    }

    fn take(&self, wanted: &[(Holder, usize)]) -> Result<Turn, Problem> {
        let refused = || Problem::new(Code::RateLimited, self.errors.busy);
        self.shares.take(wanted).ok_or_else(refused)
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
    use uuid::Uuid;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn no_account_takes_all_places_with_many_keys() {
        let places = Turns::new(4, PATIENCE, TurnErrors { busy: "busy", full: "full" });
        let place = |key: u128, account: i64| {
            places.place_of(KeyId(Uuid::from_u128(key)), (AccountId::new(account).unwrap(), 2))
        };
        let (first, _second) = (place(1, 7).await.unwrap(), place(2, 7).await.unwrap());
        assert!(place(3, 7).await.is_err());
        let _other = place(4, 8).await.unwrap();
        drop(first);
        let _third = place(3, 7).await.unwrap();
        assert!(place(3, 7).await.is_err(), "and no key takes two");
    }

    #[tokio::test]
    async fn a_place_is_taken_until_the_work_ends_though_nobody_waits() {
        let places = Turns::new(1, PATIENCE, TurnErrors { busy: "busy", full: "full" });
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
