//! The need of an operation: the rights that its key must have, and the type of its target.
//! Declared in the table of operations, checked by `Access::target` alone.

use crate::domain::account::AccountType;
use crate::domain::feature::Feature;
use crate::domain::words::words;

use super::identity::Level;

words! {
    /// Whether an operation changes anything. A POST that only reads has a request too long for a
    /// query.
    Effect {
        Read = "read",
        Write = "write",
    }
}

/// The type that a target must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetType {
    Any,
    /// An account of any level, or a member; without a target, the caller itself.
    Identity,
    Level(AccountType),
    /// A partner, a reseller or an organization: accounts that have others below them.
    Parent,
    /// A partner or a reseller: accounts that have organizations below them.
    Provider,
}

impl TargetType {
    /// The words behind "this operation needs".
    pub const fn words(self) -> &'static str {
        match self {
            Self::Any => "an account",
            Self::Identity => "an account or a member",
            Self::Level(AccountType::Agent) => "an Agent (an account of type \"account\")",
            Self::Level(AccountType::Organization) => "an account of type \"organization\"",
            Self::Level(AccountType::Reseller) => "an account of type \"reseller\"",
            Self::Level(AccountType::Partner) => "an account of type \"partner\"",
            Self::Parent => "an account of type \"organization\", \"reseller\" or \"partner\"",
            Self::Provider => "an account of type \"reseller\" or \"partner\"",
        }
    }

    pub const fn takes(self, level: AccountType) -> bool {
        match self {
            Self::Any | Self::Identity => true,
            Self::Level(wanted) => wanted as u8 == level as u8,
            Self::Parent => !matches!(level, AccountType::Agent),
            Self::Provider => matches!(level, AccountType::Partner | AccountType::Reseller),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The lowest level that a key must have.
    pub scope: Level,
    pub target: TargetType,
    pub effect: Effect,
    /// Denied to members of role `member`, unless they act on themselves.
    pub administrators: bool,
    /// Reads rows of the Agents below the target. A caller that is restricted to some Agents then
    /// gets the rows of these; without this mark it is denied for accounts above Agents.
    pub narrows: bool,
    /// Creates something: a request with an `Idempotency-Key` is carried out once.
    pub once: bool,
    /// Denied to callers that are restricted to some Agents, whatever the target.
    pub unrestricted: bool,
    pub feature: Option<Feature>,
    /// Only for the key of the provisioned worker of the target; hands secrets out.
    pub worker: bool,
}

impl Need {
    const fn new(target: TargetType, effect: Effect) -> Self {
        Self {
            scope: Level::Agent,
            target,
            effect,
            administrators: false,
            narrows: false,
            once: false,
            unrestricted: false,
            feature: None,
            worker: false,
        }
    }

    pub const fn read(target: TargetType) -> Self {
        Self::new(target, Effect::Read)
    }

    pub const fn write(target: TargetType) -> Self {
        Self::new(target, Effect::Write)
    }

    #[must_use]
    pub const fn at_least(self, scope: Level) -> Self {
        Self { scope, ..self }
    }

    /// Only for administrators; keys that accounts own count as such.
    #[must_use]
    pub const fn administrators(self) -> Self {
        Self { administrators: true, ..self }
    }

    /// A POST that creates something (contract §4, `Idempotency-Key`).
    #[must_use]
    pub const fn once(self) -> Self {
        Self { once: true, ..self }
    }

    #[must_use]
    pub const fn narrows(self) -> Self {
        Self { narrows: true, ..self }
    }

    /// Only for targets that have this feature. A member that acts on itself is not checked.
    #[must_use]
    pub const fn with(self, feature: Feature) -> Self {
        Self { feature: Some(feature), ..self }
    }

    /// Only for the key of the target's provisioned worker, where the operator lets secrets go.
    #[must_use]
    pub const fn worker(self) -> Self {
        Self { worker: true, ..self }
    }

    #[must_use]
    pub const fn unrestricted(self) -> Self {
        Self { unrestricted: true, ..self }
    }
}
