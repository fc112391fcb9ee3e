//! One operation of the API: its row of the table, and the words in it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use axum::extract::RawPathParams;
use axum::response::Response;

use crate::app::access::need::Need;
use crate::http::error::{Code, Problem};
use crate::http::request::body::BodyRule;
use crate::http::request::call::{Call, Visit};
use crate::http::request::query::SIGNED;
use crate::http::request::target::Aim;
use crate::http::state::Http;
use crate::http::tag::Tag;
use crate::http::typed::Form;
use crate::http::verb::{Verb, names};

/// Where the operations lie.
pub const BASE: &str = "/api/v2";

/// The answer of a handler, once it has come.
pub type Answering = Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>>;

/// Performs an authorised request.
pub type Handler = fn(Arc<Http>, Call) -> Answering;

/// Performs a request that a signed link opens.
pub type LinkHandler = fn(Arc<Http>, Visit) -> Answering;

/// One operation of the API.
#[derive(Debug)]
pub struct Operation {
    /// The name that clients which are made from the description give it: `createWebhook`.
    pub id: &'static str,
    pub verb: Verb,
    /// Below [`BASE`].
    pub path: &'static str,
    /// The area that it belongs to.
    pub tag: Tag,
    /// The rights that it needs, and the kind of target.
    pub need: Need,
    /// Errors that only its handler can answer.
    pub fails: &'static [Code],
    /// The names under which a request says what it acts on.
    pub aim: Aim,
    /// What the types of its request and its answers say.
    pub form: &'static LazyLock<Form>,
    pub handler: Handler,
    /// Answers a client that has no key but a link which was signed for it; most operations have none.
    pub linked: Option<LinkHandler>,
}

impl Operation {
    /// Its name in the log: its verb and its path.
    pub fn name(&self) -> String {
        format!("{} {}", self.verb.as_str(), self.path)
    }

    /// The query parameters that it knows, beside `token` and the target.
    pub fn query(&self) -> &'static [&'static str] {
        self.form.query
    }

    /// The same with those of a signed link, where one may open it.
    pub(super) fn known(&self) -> Vec<&'static str> {
        let signed = self.linked.map(|_| SIGNED);
        self.query().iter().copied().chain(signed.into_iter().flatten()).collect()
    }

    /// The fields that it knows, beside the target.
    pub fn body(&self) -> BodyRule {
        self.form.body
    }

    /// The fields of its body that name what it acts on: one that it declares itself is none.
    pub(super) fn targets(&self) -> Vec<&'static str> {
        let own = self.body().names();
        self.aim.names().iter().copied().filter(|name| !own.contains(name)).collect()
    }

    /// The segments of a path that have a name here; `None` where it is not UTF-8 in percent-encoding.
    pub(super) fn segments(&self, path: Option<RawPathParams>) -> Option<Vec<(String, String)>> {
        let own = |((_, value), name): ((&str, &str), &str)| (name.to_owned(), value.to_owned());
        path.map(|path| path.iter().zip(names(self.path)).map(own).collect())
    }

    /// The same, where a request may also say by other names what it acts on.
    pub(super) const fn aim(self, aim: Aim) -> Self {
        Self { aim, ..self }
    }

    /// The same with these errors of its handler.
    pub(super) const fn fails(self, fails: &'static [Code]) -> Self {
        Self { fails, ..self }
    }

    /// The same, also for whoever has no key and a link that was signed for it.
    pub(super) const fn or_by_link(self, handler: LinkHandler) -> Self {
        Self { linked: Some(handler), ..self }
    }
}

/// A path without the names of its segments: two operations may call the same one differently
/// (`Operation::segments` names them by their places).
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
