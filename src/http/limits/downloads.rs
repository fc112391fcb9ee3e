//! Places for responses held whole in memory: originals, attachments, large lists, pages with texts
//! of messages. A
//! response holds its place until the client has taken it, so a slow reader holds one for long. A
//! key, or a network that opens links, may hold a quarter of all places at a time, an account half.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::domain::id::{AccountId, KeyId};
use crate::domain::network::Network;
use crate::domain::shares::{Share, Shares};
use crate::http::error::{Code, Problem};

/// All places, and how many each reader holds or waits for.
#[derive(Debug)]
pub(crate) struct Downloads {
    pub(crate) places: Arc<Semaphore>,
    taken: Shares<Holder>,
    most: usize,
}

/// The reader of a response.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) enum Reader {
    /// With a key of this account, or of one of its members.
    Key(KeyId, AccountId),
    /// With a signed link, from this network.
    Link(Network),
}

/// Freed when it is dropped.
#[derive(Debug)]
pub(in crate::http) struct DownloadPlace {
    _permit: OwnedSemaphorePermit,
    _share: Share<Holder>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Holder {
    Key(KeyId),
    Account(AccountId),
    Link(Network),
}

impl Downloads {
    /// Shares of all readers, those that wait for a place among them.
    #[cfg(test)]
    pub(crate) fn shares(&self) -> usize {
        self.taken.total()
    }

    pub(in crate::http) fn new(most: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(most)), taken: Shares::default(), most }
    }

    /// Takes the reader's share, then waits for a place as long as the request may; call it before
    /// reading the data. Fails with 429 if the reader holds or waits for its maximum already.
    pub(in crate::http) async fn place(&self, reader: Reader) -> Result<DownloadPlace, Problem> {
        // At least two, because a response may still hold its place when the client requests the
        // next.
        let (quarter, half) = (self.most.div_ceil(4).max(2), self.most.div_ceil(2).max(2));
        let wanted = match reader {
            Reader::Key(key, account) => {
                vec![(Holder::Key(key), quarter), (Holder::Account(account), half)]
            }
            Reader::Link(network) => vec![(Holder::Link(network), quarter)],
        };
        let share = self.taken.take(&wanted).ok_or_else(|| {
            let detail =
                "too many downloads at once for this key, account or address: finish one first";
            Problem::new(Code::RateLimited, detail)
        })?;
        let permit = Arc::clone(&self.places).acquire_owned().await;
        let permit = permit.map_err(|_| Problem::busy("too many downloads are under way"))?;
        Ok(DownloadPlace { _permit: permit, _share: share })
    }
}

impl DownloadPlace {
    /// Runs `work` to its end while holding the place, even if the request is dropped: the data
    /// counts as held until then. Frees the place if `work` fails, or panics (500).
    pub(in crate::http) async fn during<T: Send + 'static>(
        self,
        work: impl Future<Output = Result<T, Problem>> + Send + 'static,
    ) -> Result<(T, Self), Problem> {
        let done = tokio::spawn(async move { (work.await, self) }).await;
        let (done, place) =
            done.map_err(|error| Problem::internal(format!("not read: {error}")))?;
        Ok((done?, place))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;
    use uuid::Uuid;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn key(key: u128, account: i64) -> Reader {
        Reader::Key(KeyId(Uuid::from_u128(key)), AccountId::new(account).unwrap())
    }

    fn link(address: &str) -> Reader {
        Reader::Link(Network::of_client(address.parse().unwrap()))
    }

    #[tokio::test]
    async fn nobody_has_all_places() {
        let downloads = Downloads::new(8);
        let mut held = Vec::new();
        for (reader, fits) in [
            (key(1, 1), true),
            (key(1, 1), true),
            (key(1, 1), false),
            (key(2, 1), true),
            (key(3, 1), true),
            // The account now holds half of the places.
            (key(3, 1), false),
            (key(4, 1), false),
            (key(5, 2), true),
            (link("192.0.2.1"), true),
            (link("::ffff:192.0.2.1"), true),
            (link("192.0.2.1"), false),
            (link("192.0.2.2"), true),
        ] {
            match downloads.place(reader).await {
                Ok(place) => held.push(place),
                Err(problem) => assert_eq!((problem.code, fits), (Code::RateLimited, false)),
            }
        }
        assert_eq!((held.len(), downloads.places.available_permits()), (8, 0));
        // A waiting reader already counts, and gives its share back when it is dropped.
        let mut waiting = Box::pin(downloads.place(key(5, 2)));
        assert!(timeout(Duration::from_millis(50), &mut waiting).await.is_err());
        assert!(downloads.place(key(5, 2)).await.is_err());
        drop(waiting);
        held.clear();
        assert_eq!(downloads.taken.holders(), 0);
        assert!(downloads.place(key(1, 1)).await.is_ok());
    }

    #[tokio::test]
    async fn a_place_is_kept_until_the_work_is_done_though_nobody_waits() {
        let downloads = Downloads::new(1);
        let (go, gate) = std::sync::mpsc::channel::<()>();
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let place = downloads.place(key(1, 1)).await.unwrap();
        let mut asking = Box::pin(place.during(async move {
            let large = vec![0_u8; 1 << 20];
            let work = tokio::task::spawn_blocking(move || {
                begun.send(()).unwrap();
                gate.recv().unwrap();
                large.len()
            });
            work.await.map_err(Problem::internal)
        }));
        tokio::select! {
            _ = &mut asking => panic!("it is not done"),
            found = has_begun => found.unwrap(),
        }
        // The client is gone, but the work goes on.
        drop(asking);
        assert_eq!(downloads.places.available_permits(), 0);
        go.send(()).unwrap();
        let free = Arc::clone(&downloads.places).acquire_owned();
        drop(timeout(PATIENCE, free).await.expect("the place comes back"));
    }
}
