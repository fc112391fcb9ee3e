//! Maps errors of the use cases and of the store to problems: code, and text for the client.

use std::error::Error as _;

use crate::app::access::Denied;
use crate::app::agents::AgentError;
use crate::app::apps::AppsError;
use crate::app::computers::ComputerError;
use crate::app::delivery::{DestinationError, TooManyReaders};
use crate::app::intake::reception::ReceptionError;
use crate::app::mailbox::outcomes::OutcomeError;
use crate::app::relay::RelayError;
use crate::app::relay::inbound::InboundError;
use crate::app::relay::providers::Unavailable;
use crate::app::tenancy::TenancyError;
use crate::app::tenancy::details::DetailError;
use crate::app::tls_reports::TlsReportError;
use crate::domain::causes::with_causes;
use crate::domain::fault::{Fault, join};
use crate::http::error::{Code, Problem};
use crate::store::StoreError;

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Corrupt { .. } => Self::internal(with_causes(&error)),
            StoreError::Lost { .. } => {
                const DETAIL: &str = "the message is here, but its original is missing from the \
                    blob store or damaged there: quote requestId when you report it";
                Self { cause: Some(with_causes(&error)), ..Self::new(Code::OriginalLost, DETAIL) }
            }
            StoreError::Repeated => {
                const DETAIL: &str = "a request with this Idempotency-Key (webhook-id at /inbound) \
                                      is under way, or was carried out and its answer was not \
                                      stored (lost, or too large): check the result before you \
                                      send another request";
                Self { may_be_done: true, ..Self::new(Code::Conflict, DETAIL) }
            }
            // As if the account had never existed.
            StoreError::NoAccount => Denied::OutOfScope.into(),
            _ => Self::unavailable(with_causes(&error)),
        }
    }
}

impl From<TlsReportError> for Problem {
    fn from(error: TlsReportError) -> Self {
        use TlsReportError as E;
        let code = match error {
            E::Store(error) => return error.into(),
            E::Busy => return Self::busy("too many reports are being read"),
            E::TooLarge { .. } | E::UnpackedTooLarge { .. } => Code::PayloadTooLarge,
            E::TooManyPolicies { .. } | E::Broken(_) => Code::InvalidRequest,
            E::Foreign(_) => Code::NotFound,
            E::Full { .. } => {
                let retry_after = Some(86_400);
                return Self { retry_after, ..Self::new(Code::RateLimited, error.to_string()) };
            }
        };
        Self::new(code, error.to_string())
    }
}

impl From<Vec<DetailError>> for Problem {
    fn from(errors: Vec<DetailError>) -> Self {
        let fault = |error: DetailError| Fault {
            pointer: join("", &error.name),
            detail: error.fault.to_string(),
        };
        let faults: Vec<_> = errors.into_iter().map(fault).collect();
        Self::mistaken(faults)
    }
}

impl From<Denied> for Problem {
    fn from(error: Denied) -> Self {
        match error {
            Denied::NoKey => Self::new(
                Code::Unauthorized,
                format!("{error}: send a valid key once, as the query parameter token"),
            ),
            Denied::OutOfScope
            | Denied::TooNarrow(_)
            | Denied::NotAdministrator
            | Denied::Restricted
            | Denied::OwnFeatures
            | Denied::NotWorker
            | Denied::Outlives(_) => Self::new(Code::Forbidden, error.to_string()),
            Denied::NoFeature(_) | Denied::NotHeld(_) | Denied::NoApi | Denied::ReleasesNothing => {
                Self::new(Code::FeatureRequired, error.to_string())
            }
            Denied::WrongTarget(_) => Self::invalid(error.to_string()),
            Denied::Store(error) => error.into(),
        }
    }
}

#[rustfmt::skip]
impl From<TenancyError> for Problem {
    fn from(error: TenancyError) -> Self {
        use TenancyError as E;
        let code = match error {
            E::Store(error) => return error.into(),
            E::Dns { .. } => {
                let cause = error.source().map(with_causes);
                return Self { cause, ..Self::new(Code::Unavailable, error.to_string()) };
            }
            E::Name | E::ExternalId | E::AccountTooLarge { .. } | E::Root(_) | E::Parent { .. }
            | E::Purpose | E::Expired | E::InvitedBeyond(_) | E::TooManyPermitted { .. }
            | E::PermittedElsewhere(_) | E::Redirect | E::NoAddressesOf { .. } | E::NoAgent { .. }
            | E::NoAddress(_) | E::Tagged(_) | E::DomainOfAgent | E::Unprovable { .. }
            => Code::InvalidRequest,
            E::MakerRevoked | E::ActsOnMore { .. } | E::DomainNotOurs { .. } => Code::Forbidden,
            E::NoAccount(_) | E::NoExternalId | E::NoOwner(_) | E::NoKey(_) | E::NoMember
            | E::NoAccountOfMember | E::AddressElsewhere(_) | E::NoPolicyOf(_)
            | E::DomainElsewhere { .. } => Code::NotFound,
            E::ExternalIdTaken | E::SeveralExternalIds | E::HasPartner | E::IsPartner
            | E::HasBelow { .. } | E::HasManyBelow { .. } | E::TooManyKeys { .. } | E::NoWorker(_)
            | E::EmailTaken | E::TooManyMembers { .. } | E::LastAdministrator | E::AddressInUse(_)
            | E::CatchAllInUse(_) | E::TooManyAddresses { .. } | E::AllowlistFull { .. }
            | E::DomainTaken(_) | E::TooManyClaims { .. } | E::TooManyDomains { .. }
            | E::ClaimGone(_) | E::DomainInUse { .. } => Code::Conflict,
        };
        Self::new(code, error.to_string())
    }
}

#[rustfmt::skip]
impl From<AppsError> for Problem {
    fn from(error: AppsError) -> Self {
        use AppsError as E;
        let code = match error {
            E::Store(error) => return error.into(),
            E::Feature(feature) => return Denied::NoFeature(feature).into(),
            E::Setting(_) | E::TooManyFields { .. } | E::TooLarge { .. } | E::TooManySent { .. }
            | E::Twice(_) => Code::InvalidRequest,
            E::NotOffered | E::NotInstalled | E::NoIntegration => Code::NotFound,
            E::Withdrawn(_) | E::Installed(_) | E::TooManyApps { .. } | E::Assigned { .. }
            | E::TooManyIntegrations { .. } | E::Busy | E::Vault(_) => Code::Conflict,
        };
        Self::new(code, error.to_string())
    }
}

impl From<ReceptionError> for Problem {
    fn from(error: ReceptionError) -> Self {
        match error {
            // As for an id out of reach.
            ReceptionError::Nobody => Denied::OutOfScope.into(),
            ReceptionError::Several | ReceptionError::Inactive => {
                Self::new(Code::Conflict, error.to_string())
            }
            ReceptionError::TooMany { wait, .. } => {
                let retry_after = Some(wait.as_secs().saturating_add(1));
                Self { retry_after, ..Self::new(Code::RateLimited, error.to_string()) }
            }
            ReceptionError::Store(error) => error.into(),
        }
    }
}

impl From<OutcomeError> for Problem {
    fn from(error: OutcomeError) -> Self {
        match error {
            OutcomeError::NoMessage => Self::not_found("message"),
            OutcomeError::Conflict(error) => Self::new(Code::Conflict, error.to_string()),
            OutcomeError::Store(error) => error.into(),
        }
    }
}

#[rustfmt::skip]
impl From<AgentError> for Problem {
    fn from(error: AgentError) -> Self {
        use AgentError as E;
        let detail = error.to_string();
        let code = match error {
            E::Store(error) => return error.into(),
            E::Invalid(faults) => return Self::mistaken(faults),
            E::Incomplete(faults) => return Self { faults, ..Self::new(Code::Conflict, detail) },
            E::NoConfig | E::NothingPublished | E::StagedId { .. } | E::NoTemplate
            | E::TemplateOf(_) | E::NotLinked => Code::NotFound,
            E::NothingStaged | E::NothingToRevertTo | E::Stale { .. } | E::Busy(_)
            | E::NotInstalled(_) | E::Locked(_) | E::TooLarge { .. } | E::NothingToKeep(_)
            | E::TooManyVersions { .. } | E::TooManyTemplates { .. } | E::Draft | E::InUse
            | E::LinkedWith(_) | E::TargetNotLinked(_) | E::MigrationUnderWay => Code::Conflict,
        };
        Self::new(code, detail)
    }
}

#[rustfmt::skip]
impl From<ComputerError> for Problem {
    fn from(error: ComputerError) -> Self {
        use ComputerError as E;
        let code = match error {
            E::Store(error) => return error.into(),
            E::Configuration(faults) => return Self::mistaken(faults),
            E::Name | E::Named | E::Patch(_) | E::Reason | E::NoPlace => Code::InvalidRequest,
            E::NoComputer | E::NotProvisioned | E::NoSecret(_) | E::NoApp(_) | E::NoRoom
            | E::NoSession | E::NothingCame => Code::NotFound,
            E::NotWorker | E::NoRight => Code::Forbidden,
            // A vault without its key is a state of this server that conflicts with the request.
            E::Exists | E::Stale { .. } | E::Busy | E::Vault(_) => Code::Conflict,
        };
        Self::new(code, error.to_string())
    }
}

#[rustfmt::skip]
impl From<DestinationError> for Problem {
    fn from(error: DestinationError) -> Self {
        use DestinationError as E;
        let code = match error {
            E::Store(error) => return error.into(),
            E::Label | E::Header(_) | E::Future => Code::InvalidRequest,
            E::NoWebhook | E::NoDelivery => Code::NotFound,
            E::TooMany { .. } | E::Disabled | E::TooManySecrets { .. } | E::TooManyReplays { .. }
            | E::Pending | E::Removed => Code::Conflict,
        };
        Self::new(code, error.to_string())
    }
}

#[rustfmt::skip]
impl From<RelayError> for Problem {
    fn from(error: RelayError) -> Self {
        use RelayError as E;
        let code = match error {
            E::Store(error) => return error.into(),
            E::NoWayIn | E::NoApplication | E::NoUrl | E::Timeout { .. } | E::TooManyCodes { .. } | E::CodeRefuses
            | E::CodeEndsNothing(_) | E::Header(_) | E::Verification(_) => Code::InvalidRequest,
            E::NoRelay | E::NoInboundKey => Code::NotFound,
            E::NotOffered(_) | E::Closed { .. } | E::Busy | E::Vault(_) => Code::Conflict,
        };
        Self::new(code, error.to_string())
    }
}

impl From<InboundError> for Problem {
    fn from(error: InboundError) -> Self {
        match error {
            InboundError::Forged(error) => Self::new(Code::Unauthorized, error.to_string()),
            InboundError::Broken(error) => Self::invalid(error),
            // Its signature was verified: its sender can mend a clock.
            InboundError::Unavailable(Unavailable::Early) => Self::busy(
                "the signature is dated in the future: the clock of its sender is ahead, or that of \
                 this server is behind",
            ),
            InboundError::Unavailable(_) | InboundError::Relays(_) => {
                Self::unavailable(with_causes(&error))
            }
        }
    }
}

impl From<TooManyReaders> for Problem {
    fn from(error: TooManyReaders) -> Self {
        Self::new(Code::RateLimited, error.to_string())
    }
}
