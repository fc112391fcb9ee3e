//! The servers of one PostgreSQL database, of which one at a time can be written to.
//!
//! A URL may name several (`postgres_url.rs`). All are asked at once: the one that can be written
//! to is taken; of two, the one with the later timeline, because a promotion begins a new one and
//! the former server may not know yet that it was replaced. From then on, a server of an earlier
//! timeline is refused. When an answer fails, or is late, the servers are asked again in the
//! background; if another one is found, all pools go there, and who still waits for the former
//! server fails at once. A former server may go on answering: where a URL names several, the others
//! are asked every few seconds all the same, and one of a later timeline is followed.
//!
//! For a URL of one server without `target_session_attrs`, nothing is asked: whatever stands there
//! (one server, an address that moves) decides.

use std::fmt;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool};
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use super::deadline::in_time;
use super::error::is_read_only;
use crate::domain::repeats::{LogCause, Repeats};

/// Pause between two rounds of asking all servers.
const PAUSE: Duration = Duration::from_millis(200);
/// Time that servers have to answer once one was found: it may be the former one, and quicker.
const GRACE: Duration = Duration::from_millis(500);
/// Pause between two rounds of asking the others while the server that is written to answers.
const WATCH: Duration = Duration::from_secs(3);
/// A server that is alone in a URL is left at most this often because it cannot be written to.
const RENEWED_AT_MOST: Duration = Duration::from_secs(1);

const IS_READ_ONLY: &str =
    "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'";
/// The timeline is the first eight digits of the name of the log file that is being written.
const TIMELINE: &str = "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)";

/// Clones share what was found.
#[derive(Clone)]
pub struct Servers(Arc<State>);

struct State {
    servers: Vec<PgConnectOptions>,
    is_sought: bool,
    /// For the answer of a server that is asked whether it can be written to. An answer of another
    /// kind that is later than this makes all servers be asked.
    patience: Duration,
    found: Mutex<Found>,
    /// Counts the moves from server to server.
    moves: watch::Sender<u64>,
    /// Wakes the task that asks the servers.
    wanted: Arc<Notify>,
    /// Whether that task runs; changes while `pools` is locked.
    is_followed: AtomicBool,
    pools: Mutex<Vec<PgPool>>,
    repeats: Repeats,
}

/// Where the server is that can be written to.
#[derive(Clone, Copy, Debug)]
struct Found {
    place: usize,
    timeline: u32,
    /// Connections made before are to another server.
    since: Instant,
}

impl Found {
    fn is_at(&self, place: usize, timeline: u32) -> bool {
        (self.place, self.timeline) == (place, timeline)
    }
}

/// A server that can be written to, and a connection to it.
pub struct Writable {
    place: usize,
    timeline: u32,
    pub connection: PgConnection,
}

impl Servers {
    pub fn new(servers: Vec<PgConnectOptions>, is_sought: bool, patience: Duration) -> Self {
        Self(Arc::new(State {
            servers,
            is_sought,
            patience,
            found: Mutex::new(Found { place: 0, timeline: 0, since: Instant::now() }),
            moves: watch::Sender::new(0),
            wanted: Arc::default(),
            is_followed: AtomicBool::new(false),
            pools: Mutex::new(Vec::new()),
            repeats: Repeats::default(),
        }))
    }

    /// Connects to the server that can be written to; fails with what each server said. One server
    /// that is not asked is waited for without limit.
    pub(in crate::store) async fn find(&self) -> Result<Writable, sqlx::Error> {
        let state = &self.0;
        match state.servers.as_slice() {
            [one] if !state.is_sought => {
                let connection = one.connect().await?;
                Ok(Writable { place: 0, timeline: 0, connection })
            }
            _ => self.ask(None, GRACE).await,
        }
    }

    /// Asks all servers but `present`; those that have not answered `grace` after one was found are
    /// left out.
    async fn ask(&self, present: Option<usize>, grace: Duration) -> Result<Writable, sqlx::Error> {
        let mut asking = JoinSet::new();
        for (place, options) in self.0.servers.iter().enumerate() {
            if present == Some(place) {
                continue;
            }
            let (options, limit) = (options.clone(), self.0.patience);
            asking.spawn(async move { (place, in_time(limit, look(&options)).await) });
        }
        let (mut best, mut refusals): (Option<Writable>, Vec<(String, sqlx::Error)>) =
            (None, Vec::new());
        let mut until = None;
        loop {
            let next = match until {
                None => asking.join_next().await,
                // The others must not be waited for as long as it takes to see that one is gone.
                Some(until) => timeout_at(until, asking.join_next()).await.unwrap_or(None),
            };
            let Some(answer) = next else { break };
            let Ok((place, answer)) = answer else { continue };
            match answer.and_then(|(timeline, connection)| {
                self.accept(place, timeline)?;
                Ok(Writable { place, timeline, connection })
            }) {
                Ok(seen) => {
                    until.get_or_insert_with(|| tokio::time::Instant::now() + grace);
                    let ahead = best.as_ref().map(|best| best.timeline);
                    if self.prefers(place, seen.timeline, ahead) {
                        best = Some(seen);
                    }
                }
                Err(error) => {
                    refusals
                        .push((self.0.servers.get(place).map_or_else(String::new, name), error));
                }
            }
        }
        best.ok_or_else(|| none_of(refusals))
    }

    /// Whether a server at this place is better than the best one so far, of timeline `ahead`: it
    /// was promoted later, or it is the present one; two addresses may lead to one server.
    fn prefers(&self, place: usize, timeline: u32, ahead: Option<u32>) -> bool {
        let is_present = self.moves() > 0 && self.found().place == place;
        ahead.is_none_or(|ahead| ahead < timeline || ahead == timeline && is_present)
    }

    /// Refuses a server of an earlier timeline than what was found by now, and says so.
    fn accept(&self, place: usize, timeline: u32) -> Result<(), sqlx::Error> {
        let known = self.found().timeline;
        if timeline >= known {
            return Ok(());
        }
        if let Some(left_out) = self.0.repeats.due(LogCause::Replaced) {
            tracing::warn!(
                server = self.0.servers.get(place).map(name),
                timeline,
                known,
                left_out,
                "PostgreSQL: this server can be written to, but another one was promoted later, so \
                 nothing is written here; stop it, or, after pg_upgrade or a restore, restart the \
                 gateways"
            );
        }
        Err(replaced())
    }

    /// Returns how to connect to the server that was found last.
    pub fn options(&self) -> Option<PgConnectOptions> {
        self.0.servers.get(self.found().place).cloned()
    }

    /// Notes where the server is that can be written to. Pools follow, if it is another one.
    pub fn settle(&self, seen: &Writable) {
        self.settle_at(seen.place, seen.timeline);
    }

    fn settle_at(&self, place: usize, timeline: u32) {
        // Held to the end, so that of two moves the later one has the last word on every pool.
        let pools = self.pools();
        let (before, is_known) = (*self.found(), self.moves() > 0);
        if is_known && (timeline < before.timeline || before.is_at(place, timeline)) {
            return;
        }
        *self.found() = Found { place, timeline, since: Instant::now() };
        let Some(options) = self.0.servers.get(place) else { return };
        for pool in pools.iter() {
            pool.set_connect_options(options.clone());
        }
        // A pool may have connected to the former server until it had the new options.
        self.found().since = Instant::now();
        self.0.moves.send_modify(|moves| *moves += 1);
        if is_known {
            tracing::warn!(
                server = name(options),
                timeline,
                "PostgreSQL: writes go here from now on"
            );
        }
    }

    /// Lets a pool follow to the server that can be written to.
    pub fn lead(&self, pool: &PgPool) {
        let mut pools = self.pools();
        pools.retain(|pool| !pool.is_closed());
        pools.push(pool.clone());
        // It may have been opened before the last move.
        if let Some(options) = self.options() {
            pool.set_connect_options(options);
        }
        if self.0.is_sought && !self.0.is_followed.swap(true, Ordering::SeqCst) {
            tokio::spawn(self.weak().follow(Arc::clone(&self.0.wanted)));
        }
    }

    /// Whether all pools are closed: then nobody follows any more.
    fn end(&self) -> bool {
        let pools = self.pools();
        let is_over = pools.iter().all(PgPool::is_closed);
        if is_over {
            self.0.is_followed.store(false, Ordering::SeqCst);
        }
        is_over
    }

    /// Moves to one of the other servers if it has a later timeline: the one that is written to may
    /// have been replaced, and still answer.
    async fn look_beside(&self) {
        let present = self.found().place;
        // All may take their time: the slow one may be the later one, and nobody waits for this.
        let Ok(seen) = self.ask(Some(present), self.0.patience).await else { return };
        if seen.timeline > self.found().timeline {
            self.settle(&seen);
        }
        let _closed = in_time(self.0.patience, seen.connection.close()).await;
    }

    /// Moves to the server that can be written to; returns whether one was found.
    async fn search(&self) -> bool {
        match self.find().await {
            Ok(seen) => {
                self.settle(&seen);
                let _closed = in_time(self.0.patience, seen.connection.close()).await;
                true
            }
            Err(error) => {
                if let Some(left_out) = self.0.repeats.due(LogCause::Leaderless) {
                    tracing::warn!(%error, left_out, "looking for a PostgreSQL server to write to");
                }
                false
            }
        }
    }

    /// Checks a new connection of a pool: it may lead to a server that is not written to any more.
    pub(in crate::store) async fn check(
        &self,
        connection: &mut PgConnection,
    ) -> Result<(), sqlx::Error> {
        if !self.0.is_sought {
            return Ok(());
        }
        let answer = timeline(connection).await;
        let known = self.found().timeline;
        let checked = match answer {
            Ok(timeline) if timeline < known => Err(replaced()),
            Ok(timeline) => {
                // A server was promoted behind the same address.
                if timeline > known {
                    self.seek();
                }
                Ok(())
            }
            Err(error) => Err(error),
        };
        checked.inspect_err(|_| self.seek())
    }

    /// Whether a connection of this age leads to the server that is written to now.
    pub fn is_current(&self, age: Duration) -> bool {
        age <= self.found().since.elapsed()
    }

    /// How many moves there were.
    pub fn moves(&self) -> u64 {
        *self.0.moves.borrow()
    }

    /// Waits for an answer of the server after so many moves: fails when there is one more. While the
    /// answer is late, asks all servers, again and again.
    pub(in crate::store) async fn answer<T>(
        &self,
        moves: u64,
        work: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, sqlx::Error> {
        if !self.0.is_sought {
            return work.await;
        }
        let mut now = self.0.moves.subscribe();
        let moved = async {
            let _never_closed = now.wait_for(|now| *now != moves).await.map(drop);
            Err(sqlx::Error::Io(io::Error::new(
                io::ErrorKind::ConnectionReset,
                "another PostgreSQL server is written to now",
            )))
        };
        let late = async {
            loop {
                tokio::time::sleep(self.0.patience).await;
                self.seek();
            }
        };
        let (work, moved, late) = (pin!(work), pin!(moved), pin!(late));
        tokio::select! {
            biased;
            answer = work => answer,
            answer = moved => answer,
            answer = late => answer,
        }
    }

    /// Draws conclusions from an error of a connection: the server may be gone, or replaced.
    pub fn note(&self, error: &sqlx::Error) {
        match error {
            error if is_read_only(error) => self.leave(),
            sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::Protocol(_) => {
                self.seek();
            }
            // A server that stops, crashed or starts: admin_shutdown, crash_shutdown,
            // cannot_connect_now; or a connection that it lost.
            sqlx::Error::Database(error) => {
                let code = error.code().unwrap_or_default();
                if code.starts_with("57P") || code.starts_with("08") {
                    self.seek();
                }
            }
            _ => {}
        }
    }

    /// Leaves a server that cannot be written to: looks for the other one; where only an address is
    /// known, connects to it anew.
    pub fn leave(&self) {
        if self.0.is_sought {
            return self.seek();
        }
        let mut found = self.found();
        if found.since.elapsed() > RENEWED_AT_MOST {
            found.since = Instant::now();
        }
    }

    /// Asks all servers in the background, until one can be written to. One search at a time; what
    /// is sought during one is sought once more behind it.
    pub fn seek(&self) {
        if self.0.is_sought {
            self.0.wanted.notify_one();
        }
    }

    /// For callbacks of a pool, which live as long as the pool that this value holds.
    pub fn weak(&self) -> WeakServers {
        WeakServers(Arc::downgrade(&self.0))
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.0.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pools(&self) -> MutexGuard<'_, Vec<PgPool>> {
        self.0.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Servers {
    /// Without the passwords that the options hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.servers.iter().map(name)).finish()
    }
}

/// Servers, without keeping them.
#[derive(Clone, Debug)]
pub struct WeakServers(Weak<State>);

impl WeakServers {
    pub fn get(&self) -> Option<Servers> {
        self.0.upgrade().map(Servers)
    }

    /// Searches when it is woken, until a server is found; beside that, looks at the others
    /// steadily, since a slow one must be heard, too, while one search follows the other. Ends with
    /// the pools.
    async fn follow(self, wanted: Arc<Notify>) {
        let searching = async {
            loop {
                wanted.notified().await;
                while let Some(servers) = self.get()
                    && !servers.search().await
                {
                    tokio::time::sleep(PAUSE).await;
                }
            }
        };
        let looking = async {
            loop {
                tokio::time::sleep(WATCH).await;
                let Some(servers) = self.get() else { return };
                if servers.end() {
                    return;
                }
                servers.look_beside().await;
            }
        };
        tokio::select! {
            () = searching => {}
            () = looking => {}
        }
    }
}

/// Connects to a server that can be written to; returns its timeline.
async fn look(options: &PgConnectOptions) -> Result<(u32, PgConnection), sqlx::Error> {
    let mut connection = options.connect().await?;
    let timeline = timeline(&mut connection).await?;
    Ok((timeline, connection))
}

/// Returns the timeline of a server that can be written to; fails if it cannot.
async fn timeline(connection: &mut PgConnection) -> Result<u32, sqlx::Error> {
    if sqlx::query_scalar(IS_READ_ONLY).persistent(false).fetch_one(&mut *connection).await? {
        return Err(refusal("it cannot be written to"));
    }
    let name: Result<String, _> =
        sqlx::query_scalar(TIMELINE).persistent(false).fetch_one(connection).await;
    match name {
        Ok(digits) => Ok(u32::from_str_radix(&digits, 16).unwrap_or(0)),
        // Services that call themselves PostgreSQL may have no log: then nothing can be compared.
        Err(sqlx::Error::Database(_)) => Ok(0),
        Err(error) => Err(error),
    }
}

fn refusal(text: &'static str) -> sqlx::Error {
    sqlx::Error::Io(io::Error::other(text))
}

fn replaced() -> sqlx::Error {
    refusal("it was replaced by another server, and does not know")
}

/// Names a server without its login.
fn name(options: &PgConnectOptions) -> String {
    match options.get_socket() {
        Some(folder) => format!("{}:{}", folder.display(), options.get_port()),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    }
}

/// Returns the error of servers of which none can be written to. If each has refused the login, so
/// that waiting is in vain, it is the refusal of one.
fn none_of(mut refusals: Vec<(String, sqlx::Error)>) -> sqlx::Error {
    let is_final = |(_, error): &(String, sqlx::Error)| {
        matches!(error, sqlx::Error::Database(error)
            if !matches!(error.code().as_deref(), Some("53300" | "57P03")))
    };
    if refusals.iter().all(is_final)
        && let Some((_, error)) = refusals.pop()
    {
        return error;
    }
    let said = refusals.iter().map(|(name, error)| match error {
        sqlx::Error::Io(error) => format!("{name}: {error}"),
        error => format!("{name}: {error}"),
    });
    let said = said.collect::<Vec<_>>().join("; ");
    sqlx::Error::Io(io::Error::other(format!("no server can be written to: {said}")))
}

#[cfg(test)]
mod tests;
