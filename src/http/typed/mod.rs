//! Operations with typed requests and answers: one declaration is parsed, checked, answered and
//! described.
//!
//! - `form` reads a [`Request`] and describes it; `check` finds its mistakes; `bounds` has the
//!   rules that its schema names.
//! - `answers` has the shapes of successes. Both use the types of `wire` and `values`.
//!
//! A route imports from here what each handler names, [`Call`] and [`Problem`] included.

pub(in crate::http) mod answers;
pub(super) mod bounds;
mod check;
pub(in crate::http) mod description;
mod form;
pub(in crate::http) mod page;
pub(in crate::http) mod schema;
mod values;

#[cfg(test)]
mod tests;

use axum::response::Response;

pub(in crate::http) use self::answers::{
    Answers, Download, Either, MediaTypes, Success, WithHeaders, successes, text,
};
pub use self::bounds::Bounds;
pub(in crate::http) use self::check::missing;
pub use self::form::{Form, Request};
pub(in crate::http) use self::form::{refused, refused_url, shapes_of, wrong};
pub use self::values::{Filters, Limit, ListPlace, Next};
pub(in crate::http) use crate::http::error::Problem;
pub(in crate::http) use crate::http::request::call::Call;
use crate::http::verb::Verb;

/// The form of the operation that this handler performs.
pub(in crate::http) fn form<R, A, F, P>(_: F, verb: Verb, path: &'static str) -> Form
where
    R: Request,
    A: Answers,
    F: Fn(Call, R) -> P,
    P: Future<Output = Result<A, Problem>>,
{
    Form::of::<R, A>(verb, path)
}

/// Reads the request, and performs it.
pub(in crate::http) async fn perform<R, A, F, P>(
    handler: F,
    form: &Form,
    mut call: Call,
) -> Result<Response, Problem>
where
    R: Request,
    A: Answers,
    F: Fn(Call, R) -> P,
    P: Future<Output = Result<A, Problem>>,
{
    let request = form.read(&mut call)?;
    handler(call, request).await?.response()
}
