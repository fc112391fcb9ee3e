//! One certificate by ACME: shown from its folder at the start, then ordered and renewed for ever.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, SemaphorePermit};
use tokio::time::{sleep, timeout};
use tracing::field;

use super::authority::Authority;
use super::failure::AcmeError;
use super::folder::{AcmeFolder, AttemptRecord};
use super::order::Issued;
use super::transport::Transport;
use super::window::Suggestion;
use crate::domain::clock::Timestamp;
use crate::domain::domain_name::DomainName;
use crate::shutdown::Shutdown;
use crate::tls::pair::Pair;

/// Most attempts at one order, and with the name of the certificate that it replaces.
pub(super) const ORDER_TRIES: u32 = 3;

/// Keeps the certificate of one name.
pub(super) struct Keeper {
    pub(super) authority: Arc<Authority>,
    pub(super) name: DomainName,
    pub(super) folder: AcmeFolder,
    pub(super) transport: Transport,
}

/// The next step for a certificate.
#[derive(Debug)]
pub(super) struct Next {
    /// The authority is asked for no certificate before.
    pub(super) soonest: Timestamp,
    /// In a row.
    pub(super) failures: u32,
    /// The certificate that is renewed; None where another one is needed.
    pub(super) held: Option<Held>,
    /// Held by a policy host from when it leads here or has a certificate.
    pub(super) room: Option<OwnedSemaphorePermit>,
    /// Why nothing is ordered, as the log has it.
    pub(super) told: Option<&'static str>,
}

/// A certificate of the authority that is shown.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) pair: Pair,
    /// When a part of its life is over.
    by_rule: Timestamp,
    /// The authority's word counts from here on.
    soonest: Timestamp,
    suggestion: Suggestion,
}

impl Held {
    /// When it is renewed, and by whose word.
    fn renewal(&self) -> (Timestamp, &'static str) {
        match self.suggestion.window {
            Some(window) => (window.moment.max(self.soonest), "the authority"),
            None => (self.by_rule, "its life"),
        }
    }
}

impl Next {
    /// When the authority is asked for a certificate.
    pub(super) fn due(&self) -> Timestamp {
        self.held.as_ref().map_or(self.soonest, |held| held.renewal().0.max(self.soonest))
    }

    /// When the authority is asked for its window before that; None after a failure, which only
    /// another attempt mends.
    fn ask(&self) -> Option<Timestamp> {
        let ask = self.held.as_ref()?.suggestion.ask;
        (self.failures == 0 && ask < self.due()).then_some(ask)
    }
}

impl Keeper {
    pub(super) fn new(authority: &Arc<Authority>, name: DomainName) -> Self {
        let folder = AcmeFolder::of(&authority.settings, &name);
        // Not shared: it remembers the wait that the authority asked for.
        let transport = Transport::new(authority.client.clone(), authority.rules.renewal.ask());
        Self { authority: Arc::clone(authority), name, folder, transport }
    }

    /// Never ends. Dropped in an attempt, it leaves the order and the note of the attempt on disk.
    pub(super) async fn keep(&self, mut next: Next, shutdown: &Shutdown) {
        if next.due() > self.now() {
            tracing::info!(
                acme.name = %self.name,
                acme.due = %next.due(),
                acme.by = next.held.as_ref().map(|held| held.renewal().1),
                "next ACME request scheduled"
            );
        }
        loop {
            if let Some(ask) = next.ask() {
                self.until(ask).await;
                Box::pin(self.ask(&mut next)).await;
                continue;
            }
            self.until(next.due()).await;
            // Boxed, as a policy host that leads elsewhere waits here for ever.
            match Box::pin(self.next_attempt(&mut next, shutdown)).await {
                Ok(None) => {}
                Ok(Some(held)) => {
                    // Even if the certificate's life is short.
                    let wait = self.wait(0);
                    let soonest = self.now().plus(wait);
                    next = Next { soonest, failures: 0, held: Some(held), told: None, ..next };
                    self.note_end(0, wait).await;
                }
                Err(error) => self.put_off(&error, &mut next).await,
            }
        }
    }

    /// Makes an attempt. Returns None, and asks nobody, while a policy host does not lead here: its
    /// domain is a customer's, and authorities count failures.
    pub(super) async fn next_attempt(
        &self,
        next: &mut Next,
        shutdown: &Shutdown,
    ) -> Result<Option<Held>, AcmeError> {
        if self.is_own() {
            self.authority.listen(shutdown).await?;
            return self.attempt(next).await.map(Some);
        }
        if !self.may_order(next).await {
            return Ok(None);
        }
        // Before an order is counted: without the port it would fail.
        self.authority.listen(shutdown).await?;
        self.authority.budget.take().await;
        // Given back before the wait after a failure.
        let _place = self.authority.places.acquire().await;
        // The wait may have taken hours.
        if !self.may_order(next).await {
            self.authority.budget.give_back();
            return Ok(None);
        }
        self.attempt(next).await.map(Some)
    }

    /// Whether a policy host leads here, and there is room for its certificate; otherwise puts it off.
    async fn may_order(&self, next: &mut Next) -> bool {
        let (told, error) = match self.authority.leading.leads_here(&self.name).await {
            Ok(true) => {
                next.room = next.room.take().or_else(|| self.authority.make_room());
                if next.room.is_some() {
                    return true;
                }
                ("no certificate by ACME is ordered: there are too many policy hosts", None)
            }
            Ok(false) if next.held.is_some() => (
                "a certificate by ACME is not renewed: not all addresses of this name are the \
                 gateway's, or it has none; it is renewed when its CNAME leads here",
                None,
            ),
            Ok(false) => (
                "no certificate by ACME: not all addresses of this name are the gateway's, or it \
                 has none; it gets one when its CNAME leads here",
                None,
            ),
            Err(error) => (
                "no certificate by ACME is ordered: it is not known whether this name leads here",
                Some(error),
            ),
        };
        if next.told.replace(told) != Some(told) {
            let error = error.as_ref().map(|error| error as &dyn std::error::Error);
            let until = next.held.as_ref().map(|held| field::display(held.pair.until()));
            tracing::info!(error, acme.name = %self.name, tls.until = until, "{told}");
        }
        if next.held.as_ref().is_none_or(|held| held.pair.until() < self.now()) {
            self.leave(next).await;
        }
        next.soonest = self.now().plus(self.authority.rules.policy_hosts.look());
        false
    }

    /// Gives its room to another host, and forgets a certificate that has ended: its name may lead
    /// elsewhere for good, and nobody should have to look after it.
    async fn leave(&self, next: &mut Next) {
        next.room = None;
        if next.held.take().is_none() {
            return;
        }
        self.authority.certificates.others().forget(&self.name);
        tracing::info!(acme.name = %self.name, "a certificate by ACME has ended, and is forgotten");
        if let Err(error) = self.folder.on_disk(AcmeFolder::forget_chain).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "cannot remove the file of a certificate that has ended");
        }
    }

    /// Waits until the authority may be asked about a policy host; the gateway's own names need no
    /// place.
    async fn place(&self) -> Option<SemaphorePermit<'_>> {
        let places = (!self.is_own()).then_some(&self.authority.places)?;
        places.acquire().await.ok()
    }

    /// Whether the name is the operator's, not a customer's.
    fn is_own(&self) -> bool {
        self.authority.settings.names.contains(&self.name)
    }

    /// Reports a failure, and waits as long as it asks for.
    async fn put_off(&self, error: &AcmeError, next: &mut Next) {
        // Asking again does not mend a clock: take the longest wait.
        let is_clock = matches!(error, AcmeError::Clock { .. });
        let wait = self.wait(if is_clock { u32::MAX } else { next.failures });
        next.failures = next.failures.saturating_add(1);
        next.soonest = self.now();
        if !error.is_our_own() {
            self.note_end(next.failures, wait).await;
        }
        let settings = &self.authority.settings;
        tracing::warn!(
            error = error as &dyn std::error::Error,
            advice = error.advice(settings.challenge, self.is_own()),
            acme.name = %self.name,
            acme.directory = %settings.directory,
            retry.seconds = wait.as_secs(),
            "no certificate by ACME: the certificate in use stays in use"
        );
        sleep(wait).await;
    }

    /// Asks the authority again when it wants the certificate to be renewed.
    async fn ask(&self, next: &mut Next) {
        let Some(held) = &mut next.held else { return };
        let _place = self.place().await;
        let account = self.authority.account(&self.folder, &self.transport, None).await;
        let (pair, before) = (held.pair.clone(), held.suggestion.window);
        held.suggestion = self.suggestion(account, &pair, before).await;
        if held.suggestion.window != before {
            let (due, by) = held.renewal();
            tracing::info!(
                acme.name = %self.name,
                acme.renewal = %due,
                acme.by = by,
                tls.until = %pair.until(),
                "the renewal of a certificate by ACME is scheduled anew"
            );
        }
    }

    /// Stores that the authority is asked now, and not again before `wait` is over.
    async fn note(&self, failures: u32, wait: Duration) -> Result<(), AcmeError> {
        let at = self.now();
        let tried = AttemptRecord { at, not_before: at.plus(wait), failures };
        self.folder.on_disk(move |folder| folder.note(tried)).await
    }

    async fn note_end(&self, failures: u32, wait: Duration) {
        // On failure, the note from before the attempt stays valid.
        if let Err(error) = self.note(failures, wait).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(
                error,
                "cannot save when the next ACME request is allowed: a restart may ask too early"
            );
        }
    }

    /// Returns the wait after this many failures and one more.
    pub(super) fn wait(&self, failures: u32) -> Duration {
        let retries = &self.authority.rules.retries;
        let last = u32::try_from(retries.count()).unwrap_or(u32::MAX).saturating_sub(1);
        let (asked, luck) = (self.transport.asked_to_wait(), self.authority.mint.luck());
        retries.schedule().wait(failures.min(last), asked, luck).unwrap_or_default()
    }

    /// Shows the stored certificate, if there is one. Returns what comes next.
    pub(super) async fn begin(&self) -> Next {
        let now = self.now();
        let (soonest, failures) = match self.folder.on_disk(AcmeFolder::tried).await {
            // A file cannot make the wait longer than the longest.
            Ok(Some(tried)) if tried.at <= now => {
                (tried.not_before.min(now.plus(self.wait(u32::MAX))), tried.failures)
            }
            // The authority was never asked, or the clock was wrong then.
            Ok(_) => (now, 0),
            Err(_) => (now.plus(self.wait(0)), 0),
        };
        let held = self.show_stored().await;
        let is_counted = held.is_some() && !self.is_own();
        let room = is_counted.then(|| self.authority.make_room()).flatten();
        Next { soonest, failures, held, room, told: None }
    }

    /// Shows the stored certificate, if it can be used. Returns it, if it has the name.
    async fn show_stored(&self) -> Option<Held> {
        // The next attempt reports faults of the folder.
        let stored = self.folder.on_disk(|folder| Ok((folder.key()?, folder.chain()?))).await;
        let (key, Some(chain)) = stored.ok()? else { return None };
        match Pair::from_pem(chain.as_bytes(), key.serialize_pem().as_bytes()) {
            Ok(pair) => {
                // Even an expired one: it encrypts, and DANE ignores the date (RFC 7672 §3.1.1).
                self.show(&pair);
                if !pair.names(&self.name) {
                    return None;
                }
                let suggestion = self.kept_suggestion(&pair).await;
                let by_rule = self.renewal(&pair);
                Some(self.held(pair, by_rule, suggestion))
            }
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    acme.name = %self.name,
                    "cannot use the stored certificate: asking for a new one"
                );
                None
            }
        }
    }

    fn show(&self, pair: &Pair) {
        let certificates = &self.authority.certificates;
        match self.authority.settings.names.first() == Some(&self.name) {
            true => certificates.show(pair.clone()),
            false => certificates.others().show(&self.name, pair.clone()),
        }
    }

    /// Notes the attempt; then obtains, stores and shows a certificate.
    pub(super) async fn attempt(&self, next: &Next) -> Result<Held, AcmeError> {
        let stored = self.stored_parts().await?;
        let (key, failures) = (stored.key.serialize_pem(), next.failures);
        // Noted first: an attempt that a restart cuts short counts as a failure.
        self.note(failures.saturating_add(1), self.wait(failures)).await?;
        // An order that never succeeds must not block others, whatever the authority says.
        if failures >= ORDER_TRIES {
            self.folder.on_disk(AcmeFolder::forget_order).await?;
        }
        let replaced = next.held.as_ref().filter(|_| failures < ORDER_TRIES);
        let obtaining = self.obtain(stored, replaced.map(|held| &held.pair));
        let obtaining = timeout(self.authority.rules.attempt.timeout(), obtaining);
        let Issued { chain, account } = obtaining.await.map_err(|_| AcmeError::Late)??;
        let pair = match Pair::from_pem(chain.as_bytes(), key.as_bytes()) {
            Ok(pair) => pair,
            Err(error) => {
                // The order may be for a key that was removed.
                self.folder.on_disk(AcmeFolder::forget_order).await?;
                return Err(AcmeError::Unusable(error));
            }
        };
        self.folder.on_disk(move |folder| folder.keep_chain(&chain)).await?;
        self.show(&pair);
        let by_rule = self.renewal(&pair);
        // The clock is wrong; without this, the authority would be asked again and again.
        if by_rule <= self.now() {
            return Err(AcmeError::Clock { from: pair.from(), until: pair.until() });
        }
        let suggestion = self.suggestion(Ok(account), &pair, None).await;
        let held = self.held(pair, by_rule, suggestion);
        let (due, by) = held.renewal();
        tracing::info!(
            acme.name = %self.name,
            acme.directory = %self.authority.settings.directory,
            acme.renewal = %due,
            acme.by = by,
            tls.until = %held.pair.until(),
            "new certificate by ACME"
        );
        Ok(held)
    }

    fn held(&self, pair: Pair, by_rule: Timestamp, suggestion: Suggestion) -> Held {
        let soonest = pair.from().plus(self.authority.rules.renewal.least_age()).min(by_rule);
        Held { pair, by_rule, soonest, suggestion }
    }

    /// Returns when the part of the certificate's life in `renewal` of `acme.toml` is over.
    pub(super) fn renewal(&self, pair: &Pair) -> Timestamp {
        let life = u64::try_from(pair.until().millis().saturating_sub(pair.from().millis()));
        let life = Duration::from_millis(life.unwrap_or(0));
        let (rules, luck) = (&self.authority.rules.renewal, self.authority.mint.luck());
        let early = life / 100 * rules.jitter_percent * u32::from(luck) / u32::from(u16::MAX);
        pair.from().plus(life / 100 * rules.after_percent).minus(early)
    }

    /// Waits by the wall clock, which dates certificates, but no longer than it takes from now on,
    /// in case that clock is set back.
    pub(super) async fn until(&self, due: Timestamp) {
        let clock = self.authority.clock();
        let end = clock.steady_of(due);
        let ahead = |due: Timestamp, now: Timestamp| due.millis().saturating_sub(now.millis());
        while let Ok(left @ 1..) =
            u64::try_from(ahead(due, clock.now()).min(ahead(end, clock.steady())))
        {
            let look = self.authority.rules.renewal.check();
            sleep(Duration::from_millis(left).min(look)).await;
        }
    }

    fn now(&self) -> Timestamp {
        self.authority.clock().now()
    }
}
