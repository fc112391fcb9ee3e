//! The closed list of error codes, and the single shape of an error.

use std::fmt::Display;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::domain::fault::{Fault, sentence};
use crate::domain::words::Words;
use crate::wire::{Id, Word};

/// For unmatched paths, and for inbound keys that open nothing.
pub(super) const NOTHING_HERE: &str = "there is nothing at this path: GET / shows where to begin";

macro_rules! codes {
    ($($variant:ident = $word:literal, $status:ident, $title:literal, $about:literal;)*) => {
        /// The kind of an error: `code` in every error's body (contract §4, Rules).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $(#[doc = $about] $variant,)*
        }

        impl Code {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The word in the body.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// The HTTP status of the response.
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status,)* }
            }

            pub(crate) const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }

            /// The meaning, for people.
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
        "The target is outside the reach of the key, whether it exists or not.";
    FeatureRequired = "feature_required", FORBIDDEN, "A feature is missing",
        "The target does not have the feature that this needs, or the account of the key the feature api.";
    NotFound = "not_found", NOT_FOUND, "Not found",
        "Nothing of this kind and name is in the target's scope.";
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, "Method not allowed",
        "This path does not support this method.";
    MailRefused = "mail_refused", NOT_ACCEPTABLE, "The mail is refused",
        "No recipient here accepts this mail; the provider must not retry.";
    RequestTimeout = "request_timeout", REQUEST_TIMEOUT, "The request took too long",
        "The body did not come in time.";
    Conflict = "conflict", CONFLICT, "Conflict",
        "The state of the target does not allow this, or the Idempotency-Key was used for another \
         request.";
    LinkExpired = "link_expired", GONE, "The link has expired",
        "The signed link has expired.";
    PayloadTooLarge = "payload_too_large", PAYLOAD_TOO_LARGE, "The body is too large",
        "The body is too long.";
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "Unsupported Content-Type",
        "Send the body as application/json.";
    RangeNotSatisfiable = "range_not_satisfiable", RANGE_NOT_SATISFIABLE, "Range not satisfiable",
        "The requested range lies outside the file.";
    RateLimited = "rate_limited", TOO_MANY_REQUESTS, "Too many requests",
        "Too many requests: try again after the time in Retry-After.";
    Internal = "internal", INTERNAL_SERVER_ERROR, "Something went wrong here",
        "An error of this server, which was logged.";
    OriginalLost = "original_lost", INTERNAL_SERVER_ERROR, "The original is lost",
        "The original of the message is missing, or damaged.";
    LoopDetected = "loop_detected", LOOP_DETECTED, "A delivery came back",
        "A webhook or a relay leads back to this gateway.";
    Unavailable = "unavailable", SERVICE_UNAVAILABLE, "Not available for the moment",
        "The store is down, or the server is too busy: try again later.";
}

/// An error on its way to the client. `detail` is for the client and says what to do; `cause` is
/// for the log only.
#[derive(Clone, Debug)]
pub struct Problem {
    pub code: Code,
    pub detail: String,
    pub cause: Option<String>,
    /// Seconds for `Retry-After`; None takes the number from the rules.
    pub retry_after: Option<u64>,
    /// The mistakes one by one, if there may be several (RFC 9457 §3, `errors`).
    pub faults: Vec<Fault>,
    /// The checks of `/readyz`.
    pub checks: Vec<Value>,
    /// The request may have been carried out: nothing was refused.
    pub may_be_done: bool,
}

impl Problem {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let (faults, checks) = (Vec::new(), Vec::new());
        let (detail, may_be_done) = (detail.into(), false);
        Self { code, detail, cause: None, retry_after: None, faults, checks, may_be_done }
    }

    /// Without the keys that its texts may quote.
    #[must_use]
    pub(crate) fn masked(mut self) -> Self {
        self.detail = masked(&self.detail);
        for fault in &mut self.faults {
            fault.detail = masked(&fault.detail);
        }
        self
    }

    pub fn invalid(detail: impl Display) -> Self {
        Self::new(Code::InvalidRequest, detail.to_string())
    }

    /// 404: the target's scope has nothing of this kind and name.
    pub fn not_found(what: &str) -> Self {
        Self::new(Code::NotFound, format!("there is no such {what} in the scope of this request"))
    }

    /// 500; the cause is only logged.
    pub fn internal(cause: impl Display) -> Self {
        const DETAIL: &str =
            "the error is on our side and was logged: quote requestId when you report it";
        Self { cause: Some(cause.to_string()), ..Self::new(Code::Internal, DETAIL) }
    }

    /// 400: these mistakes, each with its place.
    pub fn mistaken(faults: Vec<Fault>) -> Self {
        Self { detail: sentence(&faults), faults, ..Self::invalid("") }
    }

    /// 503; the cause is only logged.
    pub fn unavailable(cause: impl Into<String>) -> Self {
        const DETAIL: &str = "try again after the time in Retry-After";
        Self { cause: Some(cause.into()), ..Self::new(Code::Unavailable, DETAIL) }
    }

    /// 503 instead: after a 4xx some providers drop what they posted.
    #[must_use]
    pub(in crate::http) fn retryable(self) -> Self {
        Self { code: Code::Unavailable, ..self }
    }

    /// 503: a limit is reached, and the client is told which; nothing failed.
    pub fn busy(limit: &str) -> Self {
        Self::new(Code::Unavailable, format!("{limit}: try again after the time in Retry-After"))
    }

    pub(super) fn body(&self, request: Uuid) -> ProblemBody {
        let detail = masked(&self.detail);
        let fault = |fault: &Fault| Mistake {
            pointer: masked(&fault.pointer),
            detail: masked(&fault.detail),
        };
        ProblemBody {
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
#[schemars(
    rename = "Problem",
    example = Problem {
        faults: vec![Fault { pointer: "/mode".into(), detail: "must be one of: allowlist, open".into() }],
        ..Problem::invalid("/mode must be one of: allowlist, open")
    }.body(Uuid::nil())
)]
pub struct ProblemBody {
    /// Always about:blank: status and code identify the error (RFC 9457 §4.2.1).
    r#type: &'static str,
    /// The kind of error, in a few words.
    title: &'static str,
    /// The HTTP status once more.
    status: u16,
    /// The mistake, and what to do.
    detail: String,
    /// Always false.
    #[schemars(extend("const" = false))]
    success: bool,
    /// A copy of detail, for v2 clients.
    message: String,
    /// The kind of error, for programs.
    code: Word<Code>,
    /// The id of the request, as in X-Request-Id.
    request_id: Id,
    /// The mistakes one by one, where there may be several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Mistake>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    checks: Vec<Value>,
}

/// A mistake in a request, or in a configuration to publish.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Mistake {
    /// Where it is, as a JSON Pointer (RFC 6901).
    pointer: String,
    /// How to correct it.
    detail: String,
}

/// `observe` adds the body, because it knows the id of the request.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.code.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Replaces API keys, inbound keys and secrets of sessions in a detail: it may quote a client that
/// pasted one into the wrong place.
pub(in crate::http) fn masked(detail: &str) -> String {
    let secret = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mask = |text: String, prefix: &&str| {
        let mut pieces = text.split(prefix);
        let first = pieces.next().unwrap_or_default().to_owned();
        let shown = pieces.map(|piece| piece.trim_start_matches(secret));
        shown.fold(first, |text, piece| format!("{text}{prefix}…{piece}"))
    };
    ["gp_", "gpi_", "gps_"].iter().fold(detail.to_owned(), mask)
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
        let problem = Problem::invalid("gps_AAAA-bb_c, gpi_x").masked();
        assert_eq!(problem.detail, "gps_…, gpi_…");
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
