//! The closed list of error codes, and the one shape of an error.

use std::error::Error as StdError;
use std::fmt::Display;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::app::access::Denied;
use crate::app::agents::AgentError;
use crate::app::agents::schema::Fault;
use crate::app::apps::AppsError;
use crate::app::computers::ComputerError;
use crate::app::delivery::DestinationError;
use crate::app::intake::reception::ReceptionError;
use crate::app::relay::RelayError;
use crate::app::tenancy::TenancyError;
use crate::app::tenancy::details::DetailError;
use crate::domain::words::Words;
use crate::store::StoreError;
use crate::wire::{Id, Word};

/// For unmatched paths, and for links and inbound keys that open nothing.
pub(super) const NOTHING_HERE: &str = "there is nothing at this path: GET / says where to look";

macro_rules! codes {
    ($($variant:ident = $word:literal, $status:ident, $title:literal, $about:literal;)*) => {
        /// What kind of error: `code` in every error's body (contract §4, Rules).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $(#[doc = $about] $variant,)*
        }

        impl Code {
            /// The whole list.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The word shown.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// The status that it is answered with.
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status,)* }
            }

            const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }

            /// What it means to whoever reads it.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => $about,)* }
            }
        }

        impl Words for Code {
            fn all() -> &'static [Self] {
                Self::ALL
            }

            fn word(self) -> &'static str {
                self.as_str()
            }
        }
    };
}

codes! {
    InvalidRequest = "invalid_request", BAD_REQUEST, "The request cannot be understood",
        "The request is malformed or contradicts itself: detail says where.";
    Unauthorized = "unauthorized", UNAUTHORIZED, "No valid key",
        "The key is missing, unknown, revoked, or of an inactive account.";
    Forbidden = "forbidden", FORBIDDEN, "Not allowed",
        "Outside the reach of the key, whether it exists or not.";
    FeatureRequired = "feature_required", FORBIDDEN, "A feature is missing",
        "The target does not have the feature that this needs.";
    NotFound = "not_found", NOT_FOUND, "Not found",
        "Nothing of this kind and name is in the target's scope.";
    MailRefused = "mail_refused", NOT_ACCEPTABLE, "The mail is refused",
        "No recipient here accepts this mail; the provider must not retry.";
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, "Method not allowed",
        "This path does not take this method.";
    RequestTimeout = "request_timeout", REQUEST_TIMEOUT, "The request took too long",
        "The body did not come in time.";
    Conflict = "conflict", CONFLICT, "Conflict",
        "The state of the target does not allow it, or the Idempotency-Key was used for something else.";
    PayloadTooLarge = "payload_too_large", PAYLOAD_TOO_LARGE, "The body is too large",
        "The body is too long.";
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "Unsupported Content-Type",
        "Send the body as application/json.";
    LinkExpired = "link_expired", GONE, "The link has expired",
        "The time of the signed link is over.";
    RangeNotSatisfiable = "range_not_satisfiable", RANGE_NOT_SATISFIABLE, "Range not satisfiable",
        "Nothing of the file lies where the request asks for it.";
    RateLimited = "rate_limited", TOO_MANY_REQUESTS, "Too many requests",
        "Too many requests: Retry-After says when to go on.";
    Internal = "internal", INTERNAL_SERVER_ERROR, "Something went wrong here",
        "A mistake of ours, which was logged.";
    OriginalLost = "original_lost", INTERNAL_SERVER_ERROR, "The original is lost",
        "The original of the message is missing, or damaged.";
    LoopDetected = "loop_detected", LOOP_DETECTED, "A delivery came back",
        "A webhook or a relay leads back to this gateway.";
    Unavailable = "unavailable", SERVICE_UNAVAILABLE, "Not available for the moment",
        "The store is down, or too much is under way: try again later.";
}

/// An error on its way to the client. `detail` is for the client and says what to do; `cause` is
/// for the log only.
#[derive(Clone, Debug)]
pub struct Problem {
    pub code: Code,
    pub detail: String,
    pub cause: Option<String>,
    /// What `Retry-After` says, seconds; without it what the rules say.
    pub retry_after: Option<u64>,
    /// The mistakes one by one, where there may be several (RFC 9457 §3, `errors`).
    pub faults: Vec<Fault>,
    /// What `/readyz` found, check by check.
    pub checks: Vec<Value>,
}

impl Problem {
    /// A problem that the client is told in these words.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let (faults, checks) = (Vec::new(), Vec::new());
        Self { code, detail: detail.into(), cause: None, retry_after: None, faults, checks }
    }

    /// 400.
    pub fn invalid(detail: impl Display) -> Self {
        Self::new(Code::InvalidRequest, detail.to_string())
    }

    /// 404: nothing of this kind and name in the target's scope.
    pub fn not_found(what: &str) -> Self {
        Self::new(Code::NotFound, format!("there is no such {what} in the scope of this request"))
    }

    /// 500; the cause goes to the log.
    pub fn internal(cause: impl Into<String>) -> Self {
        const DETAIL: &str =
            "the error is on our side and was logged: quote requestId when you report it";
        Self { cause: Some(cause.into()), ..Self::new(Code::Internal, DETAIL) }
    }

    /// 503; the cause goes to the log.
    pub fn unavailable(cause: impl Into<String>) -> Self {
        const DETAIL: &str = "try again after the time in Retry-After";
        Self { cause: Some(cause.into()), ..Self::new(Code::Unavailable, DETAIL) }
    }

    /// The body.
    pub(super) fn body(&self, request: Uuid) -> Shown {
        let detail = masked(&self.detail);
        let fault = |fault: &Fault| Mistake {
            pointer: masked(&fault.pointer),
            detail: masked(&fault.detail),
        };
        Shown {
            r#type: "about:blank",
            title: self.code.title(),
            status: self.code.status().as_u16(),
            message: detail.clone(),
            detail,
            success: false,
            code: Word(self.code),
            request_id: Id(request),
            errors: self.faults.iter().map(fault).collect(),
            checks: self.checks.clone(),
        }
    }
}

/// An error (RFC 9457), with the fields that v2 clients read.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Problem")]
pub struct Shown {
    /// Always about:blank: the status and code say what it is (RFC 9457 §4.2.1).
    r#type: &'static str,
    /// What kind of error, in a few words.
    title: &'static str,
    /// The HTTP status once more.
    status: u16,
    /// What is wrong, and what to do.
    detail: String,
    /// Always false.
    #[schemars(extend("const" = false))]
    success: bool,
    /// The same as detail, as v2 has it.
    message: String,
    /// What kind of error, for programs.
    code: Word<Code>,
    /// Of the request, as in X-Request-Id.
    request_id: Id,
    /// The mistakes one by one, where there may be several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Mistake>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    checks: Vec<Value>,
}

/// A mistake in what was sent, or in what would be published.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Mistake {
    /// Where it is, as a JSON Pointer (RFC 6901).
    pointer: String,
    /// What to do about it.
    detail: String,
}

/// The body follows in `observe`, which knows the request's id.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.code.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Details may quote what the client sent: a key pasted into the wrong place stays out of them.
fn masked(detail: &str) -> String {
    const PREFIX: &str = "gp_";
    let mut pieces = detail.split(PREFIX);
    let mut shown = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let secret = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        shown.push_str(PREFIX);
        shown.push('…');
        shown.push_str(piece.trim_start_matches(secret));
    }
    shown
}

/// An error and all its causes in one line.
pub(super) fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Corrupt { .. } => Self::internal(chain(&error)),
            StoreError::Lost { .. } => {
                const DETAIL: &str = "the message is here, but its original is missing from the \
                    blob store or damaged there: quote requestId when you report it";
                Self { cause: Some(chain(&error)), ..Self::new(Code::OriginalLost, DETAIL) }
            }
            StoreError::Repeated => {
                const DETAIL: &str = "a request with this Idempotency-Key is being carried out, or \
                    was, and its answer is not there (lost, or too large to be kept): read what \
                    there is before you send another";
                Self::new(Code::Conflict, DETAIL)
            }
            // As if it had never been there.
            StoreError::NoAccount => Denied::OutOfScope.into(),
            _ => Self::unavailable(chain(&error)),
        }
    }
}

impl From<DetailError> for Problem {
    fn from(error: DetailError) -> Self {
        Self::invalid(error)
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
            | Denied::Outlives(_) => Self::new(Code::Forbidden, error.to_string()),
            Denied::NoFeature(_) | Denied::NotHeld(_) => {
                Self::new(Code::FeatureRequired, error.to_string())
            }
            Denied::WrongTarget(_) => Self::invalid(error.to_string()),
            Denied::Store(error) => error.into(),
        }
    }
}

impl From<TenancyError> for Problem {
    fn from(error: TenancyError) -> Self {
        use TenancyError as E;
        let code = match error {
            E::Store(error) => return error.into(),
            E::Dns { .. } => {
                let cause = error.source().map(chain);
                return Self { cause, ..Self::new(Code::Unavailable, error.to_string()) };
            }
            E::Name
            | E::ExternalId
            | E::AccountTooLarge { .. }
            | E::Root(_)
            | E::Parent { .. }
            | E::Purpose
            | E::Expired
            | E::InvitedBeyond(_)
            | E::TooManyPermitted { .. }
            | E::PermittedElsewhere(_)
            | E::Redirect
            | E::NoAddressesOf { .. }
            | E::NoAddress(_)
            | E::Tagged(_)
            | E::DomainOfAgent
            | E::Unprovable { .. } => Code::InvalidRequest,
            E::MakerRevoked | E::ActsOnMore { .. } | E::DomainNotOurs { .. } => Code::Forbidden,
            E::NoAccount(_)
            | E::NoExternalId
            | E::NoOwner(_)
            | E::NoKey(_)
            | E::NoMember
            | E::NoAccountOfMember
            | E::AddressElsewhere(_)
            | E::NoPolicyOf(_)
            | E::DomainElsewhere { .. } => Code::NotFound,
            E::ExternalIdTaken
            | E::SeveralExternalIds
            | E::HasPartner
            | E::IsPartner
            | E::HasBelow { .. }
            | E::HasManyBelow { .. }
            | E::TooManyKeys { .. }
            | E::EmailTaken
            | E::TooManyMembers { .. }
            | E::LastAdministrator
            | E::AddressInUse(_)
            | E::CatchAllInUse(_)
            | E::TooManyAddresses { .. }
            | E::AllowlistFull { .. }
            | E::DomainTaken(_)
            | E::TooManyClaims { .. }
            | E::TooManyDomains { .. }
            | E::ClaimGone(_)
            | E::DomainInUse { .. } => Code::Conflict,
        };
        Self::new(code, error.to_string())
    }
}

impl From<AppsError> for Problem {
    fn from(error: AppsError) -> Self {
        use AppsError as E;
        let code = match error {
            E::Store(error) => return error.into(),
            E::Feature(feature) => return Denied::NoFeature(feature).into(),
            E::Setting(_)
            | E::TooManyFields { .. }
            | E::TooLarge { .. }
            | E::TooManySent { .. }
            | E::Twice(_) => Code::InvalidRequest,
            E::NotOffered | E::NotInstalled | E::NoIntegration => Code::NotFound,
            E::Withdrawn(_)
            | E::Installed(_)
            | E::TooManyApps { .. }
            | E::Assigned { .. }
            | E::TooManyIntegrations { .. }
            | E::Busy
            | E::Vault(_) => Code::Conflict,
        };
        Self::new(code, error.to_string())
    }
}

impl From<ReceptionError> for Problem {
    fn from(error: ReceptionError) -> Self {
        match error {
            // As of an id that is out of reach.
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

impl From<AgentError> for Problem {
    fn from(error: AgentError) -> Self {
        use AgentError as E;
        let detail = error.to_string();
        let code = match error {
            E::Store(error) => return error.into(),
            E::Invalid(faults) => return Self { faults, ..Self::invalid(detail) },
            E::Incomplete(faults) => return Self { faults, ..Self::new(Code::Conflict, detail) },
            E::NoConfig
            | E::NothingPublished
            | E::StagedId { .. }
            | E::NoTemplate
            | E::TemplateOf(_)
            | E::NotLinked => Code::NotFound,
            E::NothingStaged
            | E::NothingToRevertTo
            | E::Stale { .. }
            | E::Busy(_)
            | E::NotInstalled(_)
            | E::Locked(_)
            | E::TooLarge { .. }
            | E::NothingToKeep(_)
            | E::TooManyVersions { .. }
            | E::TooManyTemplates { .. }
            | E::Draft
            | E::InUse
            | E::LinkedWith(_)
            | E::TargetNotLinked(_)
            | E::MigrationUnderWay => Code::Conflict,
        };
        Self::new(code, detail)
    }
}

impl From<ComputerError> for Problem {
    fn from(error: ComputerError) -> Self {
        use ComputerError as E;
        let code = match error {
            E::Store(error) => return error.into(),
            E::Name
            | E::Configuration(_)
            | E::NothingMasked { .. }
            | E::Patch(_)
            | E::Reason
            | E::NoPlace => Code::InvalidRequest,
            E::NoComputer | E::NotProvisioned | E::NoRoom | E::NoSession | E::NothingCame => {
                Code::NotFound
            }
            // A vault without its key is a state of this server that does not allow it.
            E::Exists | E::Stale { .. } | E::Busy | E::Vault(_) => Code::Conflict,
        };
        Self::new(code, error.to_string())
    }
}

impl From<DestinationError> for Problem {
    fn from(error: DestinationError) -> Self {
        use DestinationError as E;
        let code = match error {
            E::Store(error) => return error.into(),
            E::Label | E::Header(_) | E::Future => Code::InvalidRequest,
            E::NoWebhook | E::NoDelivery => Code::NotFound,
            E::TooMany { .. }
            | E::Disabled
            | E::TooManySecrets { .. }
            | E::TooManyReplays { .. }
            | E::Pending
            | E::Removed => Code::Conflict,
        };
        Self::new(code, error.to_string())
    }
}

impl From<RelayError> for Problem {
    fn from(error: RelayError) -> Self {
        use RelayError as E;
        let code = match error {
            E::Store(error) => return error.into(),
            E::NoWayIn
            | E::NoUrl
            | E::Timeout { .. }
            | E::TooManyCodes { .. }
            | E::CodeRefuses
            | E::CodeEndsNothing(_)
            | E::Header(_)
            | E::Verification(_) => Code::InvalidRequest,
            E::NoRelay => Code::NotFound,
            E::NotOffered(_) | E::Closed { .. } | E::Busy | E::Vault(_) => Code::Conflict,
        };
        Self::new(code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_the_wrong_place_is_not_repeated() {
        let problem = Problem::invalid("\"gp_AAAA-bb_c\" and \"gp_\" are not modes");
        let body = serde_json::to_value(problem.body(Uuid::nil())).unwrap();
        assert_eq!(body["detail"], "\"gp_…\" and \"gp_…\" are not modes");
        assert_eq!(body["message"], body["detail"]);
        assert_eq!(body["success"], false);
        assert_eq!(body["status"], 400);
    }

    #[test]
    fn codes_are_distinct_and_errors_only() {
        let words: std::collections::BTreeSet<_> = Code::ALL.iter().map(|c| c.as_str()).collect();
        assert_eq!(words.len(), Code::ALL.len());
        assert!(
            Code::ALL.iter().all(|c| c.status().is_client_error() || c.status().is_server_error())
        );
    }
}
