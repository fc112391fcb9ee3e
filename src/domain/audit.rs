//! The audit log: actor, account, action, changed fields, time and remote address. It never holds a
//! secret.

use std::net::IpAddr;

use uuid::Uuid;

use super::account::Lineage;
use super::clock::Timestamp;
use super::id::{AccountId, AuditId, KeyId, MemberId};
use super::words::words;

/// The kind of actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// The command line, on the machine of the store.
    Operator,
    /// This program itself, for example when a receiver answers 410.
    Gateway,
    /// A key, and the account or member that owns it.
    Key { key: KeyId, account: AccountId, member: Option<MemberId> },
}

/// The author of a change, with the remote address and the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    pub who: Who,
    pub remote: Option<IpAddr>,
    /// The id in `X-Request-Id`.
    pub request: Option<Uuid>,
    /// Set if the request carries an `Idempotency-Key`.
    pub once: Option<Once>,
}

impl Actor {
    pub const OPERATOR: Self = Self::of(Who::Operator);
    pub const GATEWAY: Self = Self::of(Who::Gateway);

    /// Returns an actor without a request.
    pub const fn of(who: Who) -> Self {
        Self { who, remote: None, request: None, once: None }
    }

    pub const fn at(&self, at: Timestamp) -> Act<'_> {
        Act { by: self, at }
    }
}

/// The author and the time of a change; every change in the store takes one.
#[derive(Clone, Copy, Debug)]
pub struct Act<'a> {
    pub by: &'a Actor,
    pub at: Timestamp,
}

/// The identity of a request with an `Idempotency-Key`. Its changes are committed at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Once {
    /// SHA-256 of the API key's id, the operation and the `Idempotency-Key`.
    pub digest: [u8; 32],
    /// SHA-256 of the request's content.
    pub request: [u8; 32],
    /// The digest is remembered until then.
    pub until: Timestamp,
}

/// Filter of the audit log by actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doer {
    Operator,
    Gateway,
    Key(KeyId),
    /// An account with its members, or one member: their ids come from one sequence.
    User(AccountId),
}

words! {
    /// The action in an audit entry.
    Deed {
        AccountCreated = "account.created",
        AccountUpdated = "account.updated",
        AccountDeleted = "account.deleted",
        KeyCreated = "key.created",
        KeyRevoked = "key.revoked",
        MemberInvited = "member.invited",
        MemberUpdated = "member.updated",
        MemberRemoved = "member.removed",
        DomainClaimed = "domain.claimed",
        DomainAdded = "domain.added",
        DomainRemoved = "domain.removed",
        AddressAdded = "address.added",
        AddressRemoved = "address.removed",
        PolicyChanged = "policy.changed",
        SendersAllowed = "senders.allowed",
        SendersRemoved = "senders.removed",
        WebhookAdded = "webhook.added",
        WebhookUpdated = "webhook.updated",
        WebhookRotated = "webhook.rotated",
        WebhookTested = "webhook.tested",
        WebhookReplayed = "webhook.replayed",
        WebhookDisabled = "webhook.disabled",
        WebhookEnabled = "webhook.enabled",
        WebhookRemoved = "webhook.removed",
        DeliveryReplayed = "delivery.replayed",
        RelayAdded = "relay.added",
        RelayUpdated = "relay.updated",
        RelayRemoved = "relay.removed",
        InboundAdded = "inbound.added",
        InboundUpdated = "inbound.updated",
        InboundRotated = "inbound.rotated",
        InboundRemoved = "inbound.removed",
        MessageErased = "message.erased",
        ContactErased = "contact.erased",
        OutcomeRecorded = "outcome.recorded",
        AppInstalled = "app.installed",
        AppUpdated = "app.updated",
        AppRemoved = "app.removed",
        IntegrationUpdated = "integration.updated",
        FeaturesAssigned = "features.assigned",
        SessionReset = "session.reset",
        ComputerCreated = "computer.created",
        ComputerUpdated = "computer.updated",
        ComputerProvisioned = "computer.provisioned",
        ComputerDeprovisioned = "computer.deprovisioned",
        ComputerRemoved = "computer.removed",
        SecretsReleased = "secrets.released",
        AccessDenied = "access.denied",
        ConsoleLinkCreated = "consoleLink.created",
        ConsoleLinkWithdrawn = "consoleLink.withdrawn",
        ConsoleSessionBegun = "consoleSession.begun",
        ConsoleSessionEnded = "consoleSession.ended",
        AgentStaged = "agent.staged",
        AgentPublished = "agent.published",
        AgentReverted = "agent.reverted",
        VersionCreated = "version.created",
        VersionReplaced = "version.replaced",
        VersionRestored = "version.restored",
        VersionRenamed = "version.renamed",
        VersionDeleted = "version.deleted",
        TemplateCreated = "template.created",
        TemplateUpdated = "template.updated",
        TemplateDeleted = "template.deleted",
        TemplateApplied = "template.applied",
        TemplateDetached = "template.detached",
        TemplateMigrationAsked = "template.migrationAsked",
        TemplateMigrated = "template.migrated",
    }
}

/// One changed field; None where it had or has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub field: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

impl Change {
    pub fn new(field: &str, before: Option<impl ToString>, after: Option<impl ToString>) -> Self {
        Self {
            field: field.to_owned(),
            before: before.map(|value| value.to_string()),
            after: after.map(|value| value.to_string()),
        }
    }

    /// A field of a new object.
    pub fn made(field: &str, after: impl ToString) -> Self {
        Self::new(field, None::<String>, Some(after))
    }

    /// A field of a removed object.
    pub fn gone(field: &str, before: impl ToString) -> Self {
        Self::new(field, Some(before), None::<String>)
    }
}

/// One row of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub id: AuditId,
    pub at: Timestamp,
    /// The account concerned, with its ancestors.
    pub lineage: Lineage,
    pub deed: Deed,
    /// The object of the action within the account: an address, the id of a key …; never a secret.
    pub object: String,
    pub changes: Vec<Change>,
    pub actor: Actor,
    /// Number of actions that this row stands for.
    pub count: u64,
}
