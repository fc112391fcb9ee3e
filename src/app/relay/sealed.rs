//! Seals and opens the secrets of relays. Each has its own place in the vault, so that a secret
//! sealed for one account, type or purpose opens nowhere else.

use serde_json::{Value, json};

use super::{RelayError, Relays};
use crate::app::vault::VaultError;
use crate::domain::id::AccountId;
use crate::domain::relay::{CustomHeader, Relay, RelayType, Verification};
use crate::domain::secret::Secret;
use crate::store::{SealedRelay, SealedWay};

#[derive(Clone, Copy, Debug)]
pub(super) enum SecretKind {
    Headers,
    Secret,
    Key,
    Verification,
}

fn place(account: AccountId, kind: RelayType, kept: SecretKind) -> String {
    let name = match kept {
        SecretKind::Headers => "headers",
        SecretKind::Secret => "secret",
        SecretKind::Key => "key",
        SecretKind::Verification => "verification",
    };
    format!("relay/{account}/{kind}/{name}")
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
        (account, kind): (AccountId, RelayType),
        kept: SecretKind,
        open: &[u8],
    ) -> Result<Vec<u8>, VaultError> {
        self.vault.seal(&place(account, kind, kept), open)
    }

    fn unseal(
        &self,
        (account, kind): (AccountId, RelayType),
        kept: SecretKind,
        sealed: &[u8],
    ) -> Result<Secret, VaultError> {
        self.vault.open(&place(account, kind, kept), sealed)
    }

    pub(super) fn open_relay(&self, sealed: SealedRelay) -> Result<Relay, RelayError> {
        let whose = (sealed.account, sealed.kind);
        let headers = self.unseal(whose, SecretKind::Headers, &sealed.headers)?;
        let pairs: Vec<(String, String)> =
            serde_json::from_slice(headers.expose()).map_err(|_| VaultError::NotOurs)?;
        let header =
            |(name, value): (String, String)| CustomHeader { name, value: Secret::new(value) };
        let headers = pairs.into_iter().map(header).collect();
        let secret = self.unseal(whose, SecretKind::Secret, &sealed.secret)?;
        Ok(Relay { headers, secret, ..closed(sealed) })
    }

    /// Returns the relay for its account to see; without the sealed values if they cannot be
    /// opened.
    pub(super) fn shown_relay(&self, sealed: SealedRelay) -> Result<Relay, RelayError> {
        let opened = known(self.open_relay(sealed.clone()))?;
        Ok(opened.unwrap_or_else(|| closed(sealed)))
    }

    pub(super) fn seal_relay(&self, relay: &Relay) -> Result<SealedRelay, RelayError> {
        let whose = (relay.account, relay.kind);
        let headers = seen(&relay.headers).to_string();
        Ok(SealedRelay {
            id: relay.id,
            account: relay.account,
            kind: relay.kind,
            url: relay.url.clone(),
            timeout: relay.timeout,
            headers: self.seal(whose, SecretKind::Headers, headers.as_bytes())?,
            secret: self.seal(whose, SecretKind::Secret, relay.secret.expose())?,
            success: relay.success.clone(),
            revision: relay.revision,
            created_at: relay.created_at,
            updated_at: relay.updated_at,
        })
    }

    pub(super) fn open_key(&self, way: &SealedWay) -> Result<Secret, VaultError> {
        self.unseal((way.account, way.kind), SecretKind::Key, &way.key)
    }

    pub(super) fn open_verification(&self, way: &SealedWay) -> Result<Verification, VaultError> {
        let open =
            self.unseal((way.account, way.kind), SecretKind::Verification, &way.verification)?;
        let value = serde_json::from_slice(open.expose()).map_err(|_| VaultError::NotOurs)?;
        verification(way.kind, &value).ok_or(VaultError::NotOurs)
    }

    pub(super) fn seal_verification(
        &self,
        account: AccountId,
        verification: &Verification,
    ) -> Result<Vec<u8>, VaultError> {
        let text = kept(verification).to_string();
        self.seal((account, verification.kind()), SecretKind::Verification, text.as_bytes())
    }
}

/// Values of headers are text by their rules.
fn seen(headers: &[CustomHeader]) -> Value {
    let pair = |header: &CustomHeader| json!([header.name, text(&header.value)]);
    headers.iter().map(pair).collect()
}

fn text(secret: &Secret) -> String {
    String::from_utf8_lossy(secret.expose()).into_owned()
}

fn kept(verification: &Verification) -> Value {
    match verification {
        Verification::Mailgun { signing_key } => json!({ "signingKey": text(signing_key) }),
        Verification::Sendgrid { public_key } => json!({ "publicKey": public_key }),
        Verification::Postmark { basic: None } => json!({}),
        Verification::Postmark { basic: Some((username, password)) } => {
            json!({ "username": username, "password": text(password) })
        }
        Verification::Ses { topic } => json!({ "topicArn": topic }),
    }
}

fn verification(kind: RelayType, value: &Value) -> Option<Verification> {
    let field = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let secret = |name: &str| field(name).map(Secret::new);
    Some(match kind {
        RelayType::Mailgun => Verification::Mailgun { signing_key: secret("signingKey")? },
        RelayType::Sendgrid => Verification::Sendgrid { public_key: field("publicKey") },
        RelayType::Postmark => {
            Verification::Postmark { basic: field("username").zip(secret("password")) }
        }
        RelayType::Ses => Verification::Ses { topic: field("topicArn") },
        RelayType::Smtp => return None,
    })
}
