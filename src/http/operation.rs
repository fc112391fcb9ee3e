//! One operation of the API: a row of the table, and its parts.

use std::future::Future;
use std::pin::Pin;
use std::sync::LazyLock;

use axum::body::Body;
use axum::extract::RawPathParams;
use axum::http::request::Parts;
use axum::response::Response;

use crate::app::access::need::Need;
use crate::http::error::{Code, Problem};
use crate::http::request::call::{Call, Visit};
use crate::http::request::query::SIGNED;
use crate::http::request::target::TargetNames;
use crate::http::tag::Tag;
use crate::http::typed::Form;
use crate::http::verb::{Verb, names};

/// Base path of the operations.
pub const BASE: &str = "/api/v2";

/// The pending answer of a handler.
pub type Answering = Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>>;

pub type Handler = fn(Call) -> Answering;

/// Performs a request opened by a signed link.
pub type LinkHandler = fn(Visit) -> Answering;

#[derive(Debug)]
pub struct Operation {
    /// Its name in generated clients: `createWebhook`.
    pub id: &'static str,
    pub verb: Verb,
    /// Below [`BASE`].
    pub path: &'static str,
    /// Another path that leads to it, with the same segments.
    pub also: Option<&'static str>,
    /// Its path in the description, one of the two: paths that differ only in the names of their
    /// segments are identical, and a description must not have both (OpenAPI 3.1, Paths Object).
    pub described: &'static str,
    pub tag: Tag,
    /// Required rights, and the kind of target.
    pub need: Need,
    /// Errors that only its handler returns.
    pub fails: &'static [Code],
    /// Names under which a request gives the target.
    pub target_names: TargetNames,
    /// Description and checks, from the types of request and answers.
    pub form: &'static LazyLock<Form>,
    pub handler: Handler,
    /// Handles a client with a signed link instead of a key; most operations have none.
    pub linked: Option<LinkHandler>,
}

/// A request of an operation, before it is read. Its URI may hold a key: it has no `Debug`.
pub(super) struct MatchedRequest {
    pub(super) operation: &'static Operation,
    /// [`Operation::segments`] of its path.
    pub(super) segments: Option<Vec<(String, String)>>,
    pub(super) parts: Parts,
    pub(super) body: Body,
}

impl Operation {
    /// Its name in the log: verb and path.
    pub fn name(&self) -> String {
        format!("{} {}", self.verb.as_str(), self.path)
    }

    /// All paths that lead to it.
    pub fn paths(&self) -> impl Iterator<Item = &'static str> + use<> {
        [Some(self.path), self.also].into_iter().flatten()
    }

    /// Its query parameters, with those of a signed link if it accepts one.
    pub(super) fn known(&self) -> Vec<&'static str> {
        let signed = self.linked.map(|_| SIGNED);
        self.form.query.iter().copied().chain(signed.into_iter().flatten()).collect()
    }

    /// Body fields that name the target; a field that the operation declares itself is none.
    pub(super) fn targets(&self) -> Vec<&'static str> {
        let own = self.form.body.names();
        self.target_names.iter().copied().filter(|name| !own.contains(name)).collect()
    }

    /// The values in the path, by this operation's names for them. None if the path is not UTF-8 in
    /// percent-encoding.
    pub(super) fn segments(&self, path: Option<RawPathParams>) -> Option<Vec<(String, String)>> {
        let own = |((_, value), name): ((&str, &str), &str)| (name.to_owned(), value.to_owned());
        path.map(|path| path.iter().zip(names(self.path)).map(own).collect())
    }

    /// Lets a request give the target under other names.
    pub(super) const fn target(self, target_names: TargetNames) -> Self {
        Self { target_names, ..self }
    }

    /// Also serves it at this path.
    pub(super) const fn also(self, path: &'static str) -> Self {
        Self { also: Some(path), ..self }
    }

    /// Also serves it at this path, and describes it there.
    pub(super) const fn described_at(self, path: &'static str) -> Self {
        Self { also: Some(path), described: path, ..self }
    }

    /// Adds errors of the handler.
    pub(super) const fn fails(self, fails: &'static [Code]) -> Self {
        Self { fails, ..self }
    }

    /// Also accepts a signed link instead of a key.
    pub(super) const fn or_by_link(self, handler: LinkHandler) -> Self {
        Self { linked: Some(handler), ..self }
    }
}

/// A path without the names of its segments: two operations may name the same one differently
/// (`Operation::segments` names them by position).
pub(super) fn shape(path: &str) -> String {
    let mut number = 0;
    let segments = path.split('/').map(|segment| {
        if !segment.starts_with('{') {
            return segment.to_owned();
        }
        number += 1;
        format!("{{segment{number}}}")
    });
    segments.collect::<Vec<_>>().join("/")
}
