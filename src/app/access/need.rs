//! What an operation needs of a key and of its target: declared in the table of operations,
//! decided on by `Access::target` alone.

use crate::domain::account::AccountType;
use crate::domain::feature::Feature;

use super::identity::Level;

/// Whether an operation changes anything; a POST that does not is a question too long for a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    Read,
    Write,
}

impl Effect {
    /// As it stands in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// What a target must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetType {
    /// An account of any level.
    Any,
    /// An account of any level, or a member; without a target, the caller itself.
    Identity,
    /// An account of this level.
    Level(AccountType),
    /// A partner, a reseller or an organization: what has others below it.
    Parent,
    /// A partner or a reseller: what has organizations below it.
    Provider,
}

impl TargetType {
    /// In words, after "this operation needs".
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

    /// Whether an account of this level will do.
    pub const fn takes(self, level: AccountType) -> bool {
        match self {
            Self::Any | Self::Identity => true,
            Self::Level(wanted) => wanted as u8 == level as u8,
            Self::Parent => !matches!(level, AccountType::Agent),
            Self::Provider => matches!(level, AccountType::Partner | AccountType::Reseller),
        }
    }
}

/// What an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The scope that a key must have at least.
    pub scope: Level,
    pub target: TargetType,
    pub effect: Effect,
    /// Members of role `member` may not, unless they act on themselves.
    pub administrators: bool,
    /// What it reads of an account above Agents are Agents' rows: a caller that is restricted to
    /// some of them sees those. Of anything else of such an account it sees nothing.
    pub narrows: bool,
    /// Creates something, so that a request with an `Idempotency-Key` is carried out once.
    pub once: bool,
    /// It is about what hangs on an account above Agents, whichever the target is: a caller that is
    /// restricted to some Agents may not.
    pub unrestricted: bool,
    /// What the target must have beside being in reach.
    pub feature: Option<Feature>,
}

impl Need {
    const fn new(target: TargetType, effect: Effect) -> Self {
        let (administrators, narrows, unrestricted, once) = (false, false, false, false);
        let scope = Level::Agent;
        let feature = None;
        Self { scope, target, effect, administrators, narrows, unrestricted, once, feature }
    }

    /// Reads something of its target.
    pub const fn read(target: TargetType) -> Self {
        Self::new(target, Effect::Read)
    }

    /// Changes something of its target.
    pub const fn write(target: TargetType) -> Self {
        Self::new(target, Effect::Write)
    }

    /// Only for keys of this scope and wider ones.
    #[must_use]
    pub const fn at_least(self, scope: Level) -> Self {
        Self { scope, ..self }
    }

    /// Only for administrators, accounts' own keys among them.
    #[must_use]
    pub const fn administrators(self) -> Self {
        Self { administrators: true, ..self }
    }

    /// A POST that creates something (contract §4, `Idempotency-Key`).
    #[must_use]
    pub const fn once(self) -> Self {
        Self { once: true, ..self }
    }

    /// A reading of Agents' rows.
    #[must_use]
    pub const fn narrows(self) -> Self {
        Self { narrows: true, ..self }
    }

    /// Only for targets that have this feature. Of an operation about accounts: a member that acts on
    /// itself is asked for none.
    #[must_use]
    pub const fn with(self, feature: Feature) -> Self {
        Self { feature: Some(feature), ..self }
    }

    /// Not for members that are restricted to some Agents, whatever the target is.
    #[must_use]
    pub const fn unrestricted(self) -> Self {
        Self { unrestricted: true, ..self }
    }
}
