//! Who did what to which account: the audit log (on whose behalf, before and after, when,
//! from where). Nothing secret is ever put into it.

use std::net::IpAddr;

use uuid::Uuid;

use super::account::Lineage;
use super::clock::Timestamp;
use super::id::{AccountId, AuditId, KeyId, MemberId};
use super::words::words;

/// Whoever changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// The command line, on the machine of the store.
    Operator,
    /// This program by itself, as when a receiver answers 410.
    Gateway,
    /// A key, and the account or the member that owns it.
    Key { key: KeyId, account: AccountId, member: Option<MemberId> },
}

/// Whoever changes something, from where, and in which request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    pub who: Who,
    pub remote: Option<IpAddr>,
    /// As in `X-Request-Id`.
    pub request: Option<Uuid>,
    /// The request may be carried out once only.
    pub once: Option<Once>,
}

impl Actor {
    /// The command line.
    pub const OPERATOR: Self = Self::of(Who::Operator);
    /// This program by itself.
    pub const GATEWAY: Self = Self::of(Who::Gateway);

    /// Without a request.
    pub const fn of(who: Who) -> Self {
        Self { who, remote: None, request: None, once: None }
    }

    /// What is done at this moment.
    pub const fn at(&self, at: Timestamp) -> Act<'_> {
        Act { by: self, at }
    }
}

/// Whoever changes something, and when: what every change of the store wants to know.
#[derive(Clone, Copy, Debug)]
pub struct Act<'a> {
    pub by: &'a Actor,
    pub at: Timestamp,
}

/// A request that carries an `Idempotency-Key`: whatever it changes is changed once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Once {
    /// SHA-256 of the API key's id, the operation and the `Idempotency-Key`.
    pub digest: [u8; 32],
    /// SHA-256 of what was asked for.
    pub request: [u8; 32],
    /// Until when it is remembered.
    pub until: Timestamp,
}

/// Whose doing a list of entries is narrowed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doer {
    Operator,
    Gateway,
    Key(KeyId),
    /// An account, with the members that belong to it, or one member: their ids are of one sequence.
    User(AccountId),
}

words! {
    /// What was done.
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
        MessageErased = "message.erased",
        ContactErased = "contact.erased",
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
        AccessDenied = "access.denied",
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

/// One field, before and after; `None` where it had or has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub field: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

impl Change {
    /// A field that changed, in words fit to be shown.
    pub fn new(field: &str, before: Option<impl ToString>, after: Option<impl ToString>) -> Self {
        Self {
            field: field.to_owned(),
            before: before.map(|value| value.to_string()),
            after: after.map(|value| value.to_string()),
        }
    }

    /// A field of something new.
    pub fn made(field: &str, after: impl ToString) -> Self {
        Self::new(field, None::<String>, Some(after))
    }

    /// A field of something that is gone.
    pub fn gone(field: &str, before: impl ToString) -> Self {
        Self::new(field, Some(before), None::<String>)
    }
}

/// One row of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub id: AuditId,
    pub at: Timestamp,
    /// The account that it was done to, with its ancestors.
    pub lineage: Lineage,
    pub deed: Deed,
    /// What it was done to, in that account: an address, the id of a key …; never a secret.
    pub object: String,
    pub changes: Vec<Change>,
    pub actor: Actor,
    /// How often, where one row stands for several.
    pub count: u64,
}
