//! Settings of an account: its relays, and the inbound keys of its providers.

use std::time::Duration;

use url::Url;

use super::sealed::{SecretKind, closed, known};
use super::verification::{self, SentFields};
use super::{RelayError, RelaySlot, Relays};
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
pub struct RelaySettings {
    pub kind: RelayType,
    pub relay: Option<Relay>,
    pub inbound_key: Option<InboundKey>,
    /// Made by this request: only its response may show it.
    pub made: Option<Secret>,
}

/// The URL that a provider posts to. Values that cannot be opened are None; they can be set again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundKey {
    /// Contains the inbound key: for its account only, never for a log.
    pub url: Option<Secret>,
    pub verification: Option<Verification>,
    pub created_at: Timestamp,
    pub rotated_at: Option<Timestamp>,
}

/// The relay before a change; None also if the change concerns no relay.
enum FormerRelay {
    None,
    /// Its secrets cannot be opened.
    Closed(SealedRelay),
    Opened(Relay),
}

impl Relays {
    /// Returns the types that this server offers, each with its description.
    pub fn types(&self) -> Vec<(RelayType, &str)> {
        let offered = |kind: &RelayType| {
            let rule = self.rules.of_type(*kind);
            rule.enabled.then_some((*kind, rule.description.as_str()))
        };
        RelayType::ALL.iter().filter_map(offered).collect()
    }

    pub async fn list(&self, account: AccountId) -> Result<Vec<RelaySettings>, RelayError> {
        let relays = self.store.relays(account).await?;
        let keys = self.store.inbound_ways(account).await?;
        let of_type = |kind: &RelayType| {
            let relay = relays.iter().find(|relay| relay.kind == *kind).cloned();
            let key = keys.iter().find(|key| key.kind == *kind);
            self.opened(*kind, relay, key).transpose()
        };
        RelayType::ALL.iter().filter_map(of_type).collect()
    }

    /// Returns the relay and inbound key of this type; fails if there is neither.
    pub async fn show(
        &self,
        account: AccountId,
        kind: RelayType,
    ) -> Result<RelaySettings, RelayError> {
        let relay = self.store.relay(account, kind).await?;
        let key = self.store.inbound_way(account, kind).await?;
        self.opened(kind, relay, key.as_ref())?.ok_or(RelayError::NoRelay)
    }

    fn opened(
        &self,
        kind: RelayType,
        relay: Option<SealedRelay>,
        key: Option<&SealedWay>,
    ) -> Result<Option<RelaySettings>, RelayError> {
        if relay.is_none() && key.is_none() {
            return Ok(None);
        }
        let relay = relay.map(|relay| self.relay_for_owner(relay)).transpose()?;
        let inbound_key = key.map(|key| self.open_inbound_key(key)).transpose()?;
        Ok(Some(RelaySettings { kind, relay, inbound_key, made: None }))
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
    ) -> Result<RelaySettings, RelayError> {
        self.check(kind, change)?;
        for _ in 0..TRIES {
            let (put, made) = self.prepare(RelaySlot { account, kind }, change).await?;
            if put.notes.is_empty() || self.store.put_relay(&put, self.act()).await? {
                return Ok(RelaySettings { made, ..self.show(account, kind).await? });
            }
        }
        Err(RelayError::Busy)
    }

    /// Removes the relay of this type, but no inbound key: messages are processed without the hop
    /// from now on.
    pub async fn remove(&self, account: AccountId, kind: RelayType) -> Result<(), RelayError> {
        let is_removed = self.store.remove_relay(account, kind, self.act()).await?;
        is_removed.then_some(()).ok_or(RelayError::NoRelay)
    }

    /// Ends the inbound key of this type for good; the relay stays. A later change of the settings
    /// makes a new key.
    pub async fn remove_inbound_key(
        &self,
        account: AccountId,
        kind: RelayType,
    ) -> Result<(), RelayError> {
        let is_removed = self.store.remove_inbound_way(account, kind, self.act()).await?;
        is_removed.then_some(()).ok_or(RelayError::NoInboundKey)
    }

    /// Checks a change without regard to the present settings.
    fn check(&self, kind: RelayType, change: &RelayChange) -> Result<(), RelayError> {
        if !self.rules.of_type(kind).enabled {
            return Err(RelayError::NotOffered(kind));
        }
        let of_key = change.rotate_key || change.verification.is_some();
        if of_key && !kind.has_way_in() {
            return Err(RelayError::NoWayIn);
        }
        let of_relay =
            change.timeout.is_some() || change.headers.is_some() || change.success.is_some();
        if !kind.asks_application() && (change.url.is_some() || of_relay || !of_key) {
            return Err(RelayError::NoApplication);
        }
        if change.url.is_none() && (of_relay || !of_key) {
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
        let wrong = codes.iter().find(|code| !(200..600).contains(*code));
        wrong.map_or(Ok(()), |code| Err(RelayError::CodeEndsNothing(*code)))
    }

    async fn prepare(
        &self,
        slot: RelaySlot,
        change: &RelayChange,
    ) -> Result<(RelayPut, Option<Secret>), RelayError> {
        let RelaySlot { account, kind } = slot;
        let relay = self.store.relay(account, kind).await?;
        let key = self.store.inbound_way(account, kind).await?;
        let relay_before = relay.as_ref().map(SealedRelay::relayed);
        let way_revision_before = key.as_ref().map(|key| key.revision);
        let mut notes = Vec::new();
        let fresh = Secret::new(self.mint.secret());
        let way = match kind.has_way_in() {
            true => self.new_inbound_key(slot, key, (change, &fresh), &mut notes)?,
            false => None,
        };
        let former = match (&change.url, relay) {
            (Some(_), Some(sealed)) => match known(self.open_relay(sealed.clone()))? {
                Some(relay) => FormerRelay::Opened(relay),
                None => FormerRelay::Closed(sealed),
            },
            _ => FormerRelay::None,
        };
        // A gateway without the key must not drop headers that other gateways can open.
        if matches!(former, FormerRelay::Closed(_)) && change.headers.is_none() {
            return Err(RelayError::Closed { what: "headers (an empty list for none)" });
        }
        let was_opened = matches!(former, FormerRelay::Opened(_));
        let relay = self.new_relay(slot, former, change, &mut notes)?;
        let made = match &relay {
            Some(relay) if !was_opened => Some(relay.secret.clone()),
            // The way in of an adapter changes only with its secret.
            None if kind == RelayType::Json && way.is_some() => Some(fresh),
            _ => None,
        };
        let relay = relay.map(|relay| self.seal_relay(&relay)).transpose()?;
        let put = RelayPut { account, kind, relay, way, relay_before, way_revision_before, notes };
        Ok((put, made))
    }

    /// Returns the relay to store, or None if nothing changes. One that could not be opened gets a
    /// new secret, and only the headers sent now.
    fn new_relay(
        &self,
        RelaySlot { account, kind }: RelaySlot,
        former: FormerRelay,
        change: &RelayChange,
        notes: &mut Vec<RelayNote>,
    ) -> Result<Option<Relay>, RelayError> {
        let Some(url) = &change.url else { return Ok(None) };
        let now = self.mint.clock().now();
        let secret = || Secret::new(self.mint.secret());
        let (deed, old) = match &former {
            FormerRelay::None => (Deed::RelayAdded, None),
            FormerRelay::Closed(_) => (Deed::RelayUpdated, None),
            FormerRelay::Opened(relay) => (Deed::RelayUpdated, Some(relay.clone())),
        };
        let mut new = match former {
            FormerRelay::Opened(relay) => relay,
            FormerRelay::Closed(sealed) => Relay { secret: secret(), ..closed(sealed) },
            FormerRelay::None => Relay {
                id: RelayId(self.mint.uuid()),
                account,
                kind,
                url: url.clone(),
                timeout: self.rules.forward.default_timeout(),
                headers: Vec::new(),
                success: Vec::new(),
                secret: secret(),
                revision: 0,
                created_at: now,
                updated_at: now,
            },
        };
        if let Some(sent) = change.headers.clone() {
            new.headers = custom_header::merged(sent, &new.headers, self.rules.header_bounds())?;
        }
        new.url = url.clone();
        new.timeout = change.timeout.unwrap_or(new.timeout);
        if let Some(codes) = &change.success {
            new.success.clone_from(codes);
            new.success.sort_unstable();
            new.success.dedup();
        }
        let changes = differences(old.as_ref(), &new);
        if changes.is_empty() {
            return Ok(None);
        }
        notes.push(RelayNote { deed, changes });
        Ok(Some(Relay { revision: new.revision + 1, updated_at: now, ..new }))
    }

    /// Returns the inbound key to store, or None if nothing changes. One whose verification cannot
    /// be opened admits nothing, so it is set up anew, with a new key. A new key of type json comes
    /// with the `fresh` secret.
    fn new_inbound_key(
        &self,
        slot: RelaySlot,
        old: Option<SealedWay>,
        (change, fresh): (&RelayChange, &Secret),
        notes: &mut Vec<RelayNote>,
    ) -> Result<Option<SealedWay>, RelayError> {
        let now = self.mint.clock().now();
        let is_new = old.is_none();
        let verified = match &old {
            Some(old) => known(self.open_verification(old))?,
            None => None,
        };
        let is_made = slot.kind == RelayType::Json;
        let anew = (change.verification.is_some() || is_made) && change.rotate_key;
        if !is_new && verified.is_none() && !anew {
            let what = match is_made {
                true => "rotateInboundKey: true",
                false => {
                    "verification (null for each value that is not used) and rotateInboundKey: true"
                }
            };
            return Err(RelayError::Closed { what });
        }
        let rotates = change.rotate_key || verified.is_none();
        let made = (is_made && rotates).then(|| Verification::Json { secret: fresh.clone() });
        let known = made.as_ref().or(verified.as_ref());
        let wanted = verification::merged(slot.kind, change.verification.as_ref(), known)?;
        let changed = verified.as_ref() != Some(&wanted);
        if !is_new && !changed && !rotates {
            return Ok(None);
        }
        let before = old.as_ref().map(|old| old.last_four.clone());
        let mut new = match old {
            Some(old) if !rotates => old,
            old => self.with_new_key(slot, old)?,
        };
        new.verification = self.seal_verification(slot, &wanted)?;
        new.revision += 1;
        if is_new || rotates {
            let deed = if is_new { Deed::InboundAdded } else { Deed::InboundRotated };
            let changes = vec![Change::new("keyLastFour", before, Some(&new.last_four))];
            new.rotated_at = (!is_new).then_some(now);
            notes.push(RelayNote { deed, changes });
        }
        if !is_new && changed {
            // The values are secret: the note says only that they changed.
            let changes = vec![Change::made("verification", "changed")];
            notes.push(RelayNote { deed: Deed::InboundUpdated, changes });
        }
        Ok(Some(new))
    }

    fn with_new_key(
        &self,
        slot: RelaySlot,
        old: Option<SealedWay>,
    ) -> Result<SealedWay, RelayError> {
        let (key, key_hash) = token::INBOUND.mint(&self.mint);
        let sealed = self.seal(slot, SecretKind::Key, key.as_bytes())?;
        let new = old.unwrap_or_else(|| SealedWay {
            id: WayId(self.mint.uuid()),
            account: slot.account,
            kind: slot.kind,
            key_hash,
            key: Vec::new(),
            last_four: String::new(),
            verification: Vec::new(),
            revision: 0,
            created_at: self.mint.clock().now(),
            rotated_at: None,
        });
        Ok(SealedWay { key_hash, key: sealed, last_four: token::last_four(&key), ..new })
    }

    fn open_inbound_key(&self, key: &SealedWay) -> Result<InboundKey, RelayError> {
        let base = self.public_url.as_ref().map(|url| url.as_str().trim_end_matches('/'));
        let url = |text: Secret| {
            let text = String::from_utf8_lossy(text.expose());
            // Mailgun posts whole messages only to a path with this end.
            let end = if key.kind == RelayType::Mailgun { "/mime" } else { "" };
            Secret::new(format!("{}/inbound/{}/{text}{end}", base.unwrap_or_default(), key.kind))
        };
        let slot = RelaySlot { account: key.account, kind: key.kind };
        Ok(InboundKey {
            url: known(self.unseal(slot, SecretKind::Key, &key.key))?.map(url),
            verification: known(self.open_verification(key))?,
            created_at: key.created_at,
            rotated_at: key.rotated_at,
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
    let mut note = |same: bool, field: &str, text: &dyn Fn(&Relay) -> String| {
        if !same {
            changes.push(Change::new(field, old.map(text), Some(text(new))));
        }
    };
    note(same(|old, new| old.url == new.url), "origin", &origin);
    note(same(|old, new| old.timeout == new.timeout), "timeout", &timeout);
    note(same(|old, new| old.headers == new.headers), "headers", &names);
    note(same(|old, new| old.success == new.success), "successStatusCodes", &codes);
    changes
}
