//! Settings of an account: its relays, and the inbound keys of its providers.

use std::time::Duration;

use url::Url;

use super::sealed::{SecretKind, closed, known};
use super::verification::{self, SentFields};
use super::{RelayError, Relays};
use crate::app::access::token;
use crate::domain::audit::{Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::custom_header;
use crate::domain::id::{AccountId, RelayId, WayId};
use crate::domain::relay::{REFUSES, Relay, RelayAttempt, RelayType, Verification};
use crate::domain::secret::Secret;
use crate::rules::ForwardRules;
use crate::store::{RelayNote, RelayPut, SealedRelay, SealedWay};

/// Attempts at a change while other changes come first.
const TRIES: usize = 8;

/// A change of a relay or an inbound key. Absent fields keep their values, or get defaults in a new
/// relay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelayChange {
    /// Sets the relay; if absent, only the inbound key changes.
    pub url: Option<Url>,
    pub timeout: Option<Duration>,
    /// Names and values as sent.
    pub headers: Option<Vec<(String, String)>>,
    pub success: Option<Vec<u16>>,
    /// The fields of `verification` as sent.
    pub verification: Option<SentFields>,
    pub rotate_key: bool,
}

/// The relay and the inbound key that an account has of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configured {
    pub kind: RelayType,
    pub relay: Option<Relay>,
    pub way: Option<InboundWay>,
    /// Made by this request: only its response may show the relay's secret.
    pub is_new: bool,
}

/// The URL that a provider posts to. Values that cannot be opened are None; they can be set again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundWay {
    /// Contains the inbound key: for its account only, never for a log.
    pub url: Option<Secret>,
    pub verification: Option<Verification>,
    pub created_at: Timestamp,
    pub rotated_at: Option<Timestamp>,
}

impl Relays {
    pub fn types(&self) -> Vec<(RelayType, &str)> {
        let told = |kind: &RelayType| {
            let rule = self.rules.of_type(*kind);
            rule.enabled.then_some((*kind, rule.description.as_str()))
        };
        RelayType::ALL.iter().filter_map(told).collect()
    }

    pub async fn list(&self, account: AccountId) -> Result<Vec<Configured>, RelayError> {
        let mut relays = self.store.relays(account).await?;
        let mut ways = self.store.inbound_ways(account).await?;
        let mut configured = Vec::new();
        for kind in RelayType::ALL.iter().copied() {
            let relay = relays.iter().position(|one| one.kind == kind);
            let way = ways.iter().position(|one| one.kind == kind);
            if relay.is_none() && way.is_none() {
                continue;
            }
            let relay = relay.map(|at| self.shown_relay(relays.swap_remove(at))).transpose()?;
            let way = way.map(|at| self.open_way(&ways.swap_remove(at))).transpose()?;
            configured.push(Configured { kind, relay, way, is_new: false });
        }
        Ok(configured)
    }

    /// Returns the relay and inbound key of this type; fails if there is neither.
    pub async fn show(
        &self,
        account: AccountId,
        kind: RelayType,
    ) -> Result<Configured, RelayError> {
        let relay = self.store.relay(account, kind).await?;
        let way = self.store.inbound_way(account, kind).await?;
        if relay.is_none() && way.is_none() {
            return Err(RelayError::NoRelay);
        }
        let relay = relay.map(|relay| self.shown_relay(relay)).transpose()?;
        let way = way.map(|way| self.open_way(&way)).transpose()?;
        Ok(Configured { kind, relay, way, is_new: false })
    }

    /// Returns the last attempts of a relay, the newest first.
    pub async fn attempts(&self, relay: RelayId) -> Result<Vec<RelayAttempt>, RelayError> {
        Ok(self.store.relay_attempts(relay, self.rules.attempts.kept).await?)
    }

    /// Sets a relay, and creates or changes the inbound key of its provider. Decides anew if
    /// another change comes first; fails with `Busy` after `TRIES`.
    pub async fn set(
        &self,
        account: AccountId,
        kind: RelayType,
        change: &RelayChange,
    ) -> Result<Configured, RelayError> {
        self.check(kind, change)?;
        for _ in 0..TRIES {
            let (put, is_new) = self.prepare(account, kind, change).await?;
            if put.notes.is_empty() || self.store.put_relay(&put, self.act()).await? {
                return Ok(Configured { is_new, ..self.show(account, kind).await? });
            }
        }
        Err(RelayError::Busy)
    }

    /// Removes the relay of this type, but no inbound key: messages are processed without the hop
    /// from now on.
    pub async fn remove(&self, account: AccountId, kind: RelayType) -> Result<(), RelayError> {
        match self.store.remove_relay(account, kind, self.act()).await? {
            true => Ok(()),
            false => Err(RelayError::NoRelay),
        }
    }

    /// Checks a change without regard to the present settings.
    fn check(&self, kind: RelayType, change: &RelayChange) -> Result<(), RelayError> {
        if !self.rules.of_type(kind).enabled {
            return Err(RelayError::NotOffered(kind));
        }
        let of_way = change.rotate_key || change.verification.is_some();
        if of_way && !kind.has_way_in() {
            return Err(RelayError::NoWayIn);
        }
        let of_relay =
            change.timeout.is_some() || change.headers.is_some() || change.success.is_some();
        if change.url.is_none() && (of_relay || !of_way) {
            return Err(RelayError::NoUrl);
        }
        let (shortest, longest) = (ForwardRules::SHORTEST, self.rules.forward.max_timeout());
        if change.timeout.is_some_and(|timeout| timeout < shortest || timeout > longest) {
            return Err(RelayError::Timeout { longest });
        }
        let codes = change.success.as_deref().unwrap_or_default();
        if codes.len() > self.rules.max_status_codes() {
            return Err(RelayError::TooManyCodes { most: self.rules.max_status_codes() });
        }
        if codes.contains(&REFUSES) {
            return Err(RelayError::CodeRefuses);
        }
        match codes.iter().find(|code| !(200..600).contains(*code)) {
            Some(code) => Err(RelayError::CodeEndsNothing(*code)),
            None => Ok(()),
        }
    }

    async fn prepare(
        &self,
        account: AccountId,
        kind: RelayType,
        change: &RelayChange,
    ) -> Result<(RelayPut, bool), RelayError> {
        let old = self.store.relay(account, kind).await?;
        let old_way = self.store.inbound_way(account, kind).await?;
        let relay_before = old.as_ref().map(SealedRelay::relayed);
        let way_revision_before = old_way.as_ref().map(|way| way.revision);
        let mut notes = Vec::new();
        let way = match kind.has_way_in() {
            true => self.new_way((account, kind), old_way, change, &mut notes)?,
            false => None,
        };
        let opened = match (&change.url, &old) {
            (Some(_), Some(old)) => known(self.open_relay(old.clone()))?,
            _ => None,
        };
        let was_closed = opened.is_none();
        // A gateway without the key must not drop headers that other gateways can open.
        if change.url.is_some() && old.is_some() && was_closed && change.headers.is_none() {
            return Err(RelayError::Closed { what: "headers (an empty list for none)" });
        }
        let relay = match &change.url {
            Some(url) => self.new_relay((account, kind), url, (old, opened), change, &mut notes)?,
            None => None,
        };
        let relay = relay.map(|relay| self.seal_relay(&relay)).transpose()?;
        let is_new = relay.is_some() && was_closed;
        let put = RelayPut { account, kind, relay, way, relay_before, way_revision_before, notes };
        Ok((put, is_new))
    }

    /// Returns the relay to store, or None if nothing changes. `old` is None if there was none, or
    /// if it could not be opened: then the relay gets a new secret, and only the headers sent now.
    fn new_relay(
        &self,
        (account, kind): (AccountId, RelayType),
        url: &Url,
        (sealed, old): (Option<SealedRelay>, Option<Relay>),
        change: &RelayChange,
        notes: &mut Vec<RelayNote>,
    ) -> Result<Option<Relay>, RelayError> {
        let now = self.mint.clock().now();
        let (is_new, old) = (sealed.is_none(), old.as_ref());
        let known = old.map(|old| old.headers.as_slice()).unwrap_or_default();
        let bounds = self.rules.header_bounds();
        let headers = change.headers.clone();
        let headers = headers.map(|fields| custom_header::merged(fields, known, bounds));
        let base = || Relay {
            id: RelayId(self.mint.uuid()),
            account,
            kind,
            url: url.clone(),
            timeout: self.rules.forward.default_timeout(),
            headers: Vec::new(),
            success: Vec::new(),
            secret: Secret::new(self.mint.secret()),
            revision: 0,
            created_at: now,
            updated_at: now,
        };
        let again = |sealed| Relay { secret: Secret::new(self.mint.secret()), ..closed(sealed) };
        let mut new = match (old, sealed) {
            (Some(old), _) => old.clone(),
            (None, Some(sealed)) => again(sealed),
            (None, None) => base(),
        };
        new.url = url.clone();
        new.timeout = change.timeout.unwrap_or(new.timeout);
        new.headers = headers.transpose()?.unwrap_or(new.headers);
        if let Some(codes) = &change.success {
            new.success.clone_from(codes);
            new.success.sort_unstable();
            new.success.dedup();
        }
        let changes = differences(old, &new);
        if changes.is_empty() {
            return Ok(None);
        }
        let deed = if is_new { Deed::RelayAdded } else { Deed::RelayUpdated };
        notes.push(RelayNote { deed, changes });
        Ok(Some(Relay { revision: new.revision + 1, updated_at: now, ..new }))
    }

    /// Returns the inbound key to store, or None if nothing changes. One whose verification cannot
    /// be opened admits nothing, so it is set up anew, with a new key.
    fn new_way(
        &self,
        (account, kind): (AccountId, RelayType),
        old: Option<SealedWay>,
        change: &RelayChange,
        notes: &mut Vec<RelayNote>,
    ) -> Result<Option<SealedWay>, RelayError> {
        let now = self.mint.clock().now();
        let is_new = old.is_none();
        let verified = match &old {
            Some(old) => known(self.open_verification(old))?,
            None => None,
        };
        let anew = change.verification.is_some() && change.rotate_key;
        if !is_new && verified.is_none() && !anew {
            let what = "verification (null for each value that is not used) and rotateInboundKey: \
                        true";
            return Err(RelayError::Closed { what });
        }
        let wanted = verification::wanted(kind, change.verification.as_ref(), verified.as_ref())?;
        let changed = verified.as_ref() != Some(&wanted);
        let rotates = change.rotate_key || verified.is_none();
        if !is_new && !changed && !rotates {
            return Ok(None);
        }
        let before = old.as_ref().map(|old| old.last_four.clone());
        let mut way = match old {
            Some(old) if !rotates => old,
            old => self.with_new_key((account, kind), old)?,
        };
        way.verification = self.seal_verification(account, &wanted)?;
        way.revision += 1;
        if is_new || rotates {
            let deed = if is_new { Deed::InboundAdded } else { Deed::InboundRotated };
            let changes = vec![Change::new("keyLastFour", before, Some(&way.last_four))];
            way.rotated_at = (!is_new).then_some(now);
            notes.push(RelayNote { deed, changes });
        }
        if !is_new && changed {
            // The values are secret: the note says only that they changed.
            let changes = vec![Change::made("verification", "changed")];
            notes.push(RelayNote { deed: Deed::InboundUpdated, changes });
        }
        Ok(Some(way))
    }

    fn with_new_key(
        &self,
        (account, kind): (AccountId, RelayType),
        old: Option<SealedWay>,
    ) -> Result<SealedWay, RelayError> {
        let (key, key_hash) = token::INBOUND.mint(&self.mint);
        let sealed = self.seal((account, kind), SecretKind::Key, key.as_bytes())?;
        let way = old.unwrap_or_else(|| SealedWay {
            id: WayId(self.mint.uuid()),
            account,
            kind,
            key_hash,
            key: Vec::new(),
            last_four: String::new(),
            verification: Vec::new(),
            revision: 0,
            created_at: self.mint.clock().now(),
            rotated_at: None,
        });
        Ok(SealedWay { key_hash, key: sealed, last_four: token::last_four(&key), ..way })
    }

    fn open_way(&self, way: &SealedWay) -> Result<InboundWay, RelayError> {
        let base = self.public_url.as_ref().map(|url| url.as_str().trim_end_matches('/'));
        let url = |key: Secret| {
            let key = String::from_utf8_lossy(key.expose());
            // Mailgun posts whole messages only to a path with this end.
            let end = if way.kind == RelayType::Mailgun { "/mime" } else { "" };
            Secret::new(format!("{}/inbound/{}/{key}{end}", base.unwrap_or_default(), way.kind))
        };
        Ok(InboundWay {
            url: known(self.open_key(way))?.map(url),
            verification: known(self.open_verification(way))?,
            created_at: way.created_at,
            rotated_at: way.rotated_at,
        })
    }
}

/// Returns the changes for the audit log. URLs are noted by origin, headers by name: the rest may
/// be secret.
fn differences(old: Option<&Relay>, new: &Relay) -> Vec<Change> {
    let names = |one: &Relay| {
        let names = one.headers.iter().map(|header| header.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    let codes = |one: &Relay| {
        let codes = one.success.iter().map(ToString::to_string);
        codes.collect::<Vec<_>>().join(", ")
    };
    let origin = |one: &Relay| one.url.origin().ascii_serialization();
    let timeout = |one: &Relay| one.timeout.as_millis().to_string();
    let same = |equal: fn(&Relay, &Relay) -> bool| old.is_some_and(|old| equal(old, new));
    let mut changes = Vec::new();
    let mut note = |same: bool, field: &str, told: &dyn Fn(&Relay) -> String| {
        if !same {
            changes.push(Change::new(field, old.map(told), Some(told(new))));
        }
    };
    note(same(|old, new| old.url == new.url), "origin", &origin);
    note(same(|old, new| old.timeout == new.timeout), "timeout", &timeout);
    note(same(|old, new| old.headers == new.headers), "headers", &names);
    note(same(|old, new| old.success == new.success), "successStatusCodes", &codes);
    changes
}
