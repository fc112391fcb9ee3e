//! Seals and opens the secrets of relays. Each has its own place in the vault, so that a secret
//! sealed for one account, type or purpose opens nowhere else.

use serde_json::{Value, json};

use super::verification::{self, as_text};
use super::{RelayError, RelaySlot, Relays};
use crate::app::vault::VaultError;
use crate::domain::relay::{CustomHeader, Relay, Verification};
use crate::domain::secret::Secret;
use crate::domain::words::words;
use crate::store::{SealedRelay, SealedWay};

words! {
    SecretKind {
        Headers = "headers",
        Secret = "secret",
        Key = "key",
        Verification = "verification",
    }
}

fn place(RelaySlot { account, kind }: RelaySlot, secret: SecretKind) -> String {
    format!("relay/{account}/{kind}/{secret}")
}

/// Returns None for a value that the configured keys do not open; other errors are kept.
pub(super) fn known<T, E: Into<RelayError>>(opened: Result<T, E>) -> Result<Option<T>, RelayError> {
    match opened.map_err(Into::into) {
        Ok(value) => Ok(Some(value)),
        Err(RelayError::Vault(VaultError::NotOurs)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns a relay without its sealed values.
pub(super) fn closed(sealed: SealedRelay) -> Relay {
    Relay {
        id: sealed.id,
        account: sealed.account,
        kind: sealed.kind,
        url: sealed.url,
        timeout: sealed.timeout,
        headers: Vec::new(),
        success: sealed.success,
        secret: Secret::new(""),
        revision: sealed.revision,
        created_at: sealed.created_at,
        updated_at: sealed.updated_at,
    }
}

impl Relays {
    pub(super) fn seal(
        &self,
        slot: RelaySlot,
        kind: SecretKind,
        open: &[u8],
    ) -> Result<Vec<u8>, VaultError> {
        self.vault.seal(&place(slot, kind), open)
    }

    pub(super) fn unseal(
        &self,
        slot: RelaySlot,
        kind: SecretKind,
        sealed: &[u8],
    ) -> Result<Secret, VaultError> {
        self.vault.open(&place(slot, kind), sealed)
    }

    pub(super) fn open_relay(&self, sealed: SealedRelay) -> Result<Relay, RelayError> {
        let slot = RelaySlot { account: sealed.account, kind: sealed.kind };
        let headers = self.unseal(slot, SecretKind::Headers, &sealed.headers)?;
        let pairs: Vec<(String, String)> =
            serde_json::from_slice(headers.expose()).map_err(|_| VaultError::NotOurs)?;
        let header =
            |(name, value): (String, String)| CustomHeader { name, value: Secret::new(value) };
        let headers = pairs.into_iter().map(header).collect();
        let secret = self.unseal(slot, SecretKind::Secret, &sealed.secret)?;
        Ok(Relay { headers, secret, ..closed(sealed) })
    }

    /// Returns the relay for its account to see; without the sealed values if they cannot be
    /// opened.
    pub(super) fn relay_for_owner(&self, sealed: SealedRelay) -> Result<Relay, RelayError> {
        let opened = known(self.open_relay(sealed.clone()))?;
        Ok(opened.unwrap_or_else(|| closed(sealed)))
    }

    pub(super) fn seal_relay(&self, relay: &Relay) -> Result<SealedRelay, RelayError> {
        let slot = RelaySlot { account: relay.account, kind: relay.kind };
        // Values of headers are text by their rules.
        let pair = |header: &CustomHeader| json!([header.name, as_text(&header.value)]);
        let headers = relay.headers.iter().map(pair).collect::<Value>().to_string();
        Ok(SealedRelay {
            id: relay.id,
            account: relay.account,
            kind: relay.kind,
            url: relay.url.clone(),
            timeout: relay.timeout,
            headers: self.seal(slot, SecretKind::Headers, headers.as_bytes())?,
            secret: self.seal(slot, SecretKind::Secret, relay.secret.expose())?,
            success: relay.success.clone(),
            revision: relay.revision,
            created_at: relay.created_at,
            updated_at: relay.updated_at,
        })
    }

    pub(super) fn open_verification(&self, key: &SealedWay) -> Result<Verification, VaultError> {
        let slot = RelaySlot { account: key.account, kind: key.kind };
        let open = self.unseal(slot, SecretKind::Verification, &key.verification)?;
        let fields: Value =
            serde_json::from_slice(open.expose()).map_err(|_| VaultError::NotOurs)?;
        let field = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
        verification::from_fields(slot.kind, field).ok_or(VaultError::NotOurs)
    }

    pub(super) fn seal_verification(
        &self,
        slot: RelaySlot,
        verification: &Verification,
    ) -> Result<Vec<u8>, VaultError> {
        let fields: Value = verification::fields(verification).collect();
        self.seal(slot, SecretKind::Verification, fields.to_string().as_bytes())
    }
}
