//! Answers as types: their fields, in the envelope of v2, with the status and the words that go with them.

use axum::http::StatusCode;
use axum::http::header::{HeaderValue, LINK};
use axum::response::Response;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;

use super::super::answer;
use super::super::description::{Answer, Content};
use super::super::error::Problem;
use super::tidy::{fields_of, published, tidy};

/// A success: its fields stand beside `success` and `message`.
pub(in crate::http) trait Success: Serialize + JsonSchema {
    const STATUS: StatusCode;
    const MESSAGE: &'static str;
    /// Whether `Link` leads to other pages.
    const PAGES: bool = false;

    /// The words of this one, where they are not always the same.
    fn message(&self) -> &'static str {
        Self::MESSAGE
    }

    fn link(&self) -> Option<HeaderValue> {
        None
    }
}

/// `successes! { Rotated = OK "secret rotated"; }`
macro_rules! successes {
    ($($type:ty = $status:ident $message:literal;)+) => { $(
        impl $crate::http::typed::answers::Success for $type {
            const STATUS: axum::http::StatusCode = axum::http::StatusCode::$status;
            const MESSAGE: &'static str = $message;
        }
    )+ };
}
pub(in crate::http) use successes;

/// All that an operation answers with success.
pub(in crate::http) trait Answers {
    fn described(generator: &mut SchemaGenerator) -> Vec<Answer>;

    fn response(self) -> Result<Response, Problem>;
}

impl<S: Success> Answers for S {
    fn described(generator: &mut SchemaGenerator) -> Vec<Answer> {
        let mut schema = Self::json_schema(generator).to_value();
        tidy(&mut schema, false);
        let (fields, _) = fields_of(&published(schema), &[]);
        vec![Answer {
            status: S::STATUS.as_u16(),
            about: S::MESSAGE,
            content: Content::Envelope(fields),
            pages: S::PAGES,
            also: None,
        }]
    }

    fn response(self) -> Result<Response, Problem> {
        #[derive(Serialize)]
        struct Envelope<S> {
            success: bool,
            message: &'static str,
            #[serde(flatten)]
            fields: S,
        }
        let (message, link) = (self.message(), self.link());
        let envelope = Envelope { success: true, message, fields: self };
        let text = serde_json::to_string(&envelope);
        let text = text.map_err(|error| Problem::internal(error.to_string()))?;
        let mut response = answer::json(S::STATUS, text);
        if let Some(link) = link {
            response.headers_mut().insert(LINK, link);
        }
        Ok(response)
    }
}

/// One success or another.
#[derive(Debug)]
pub(in crate::http) enum Either<A, B> {
    This(A),
    That(B),
}

impl<A: Success, B: Success> Answers for Either<A, B> {
    fn described(generator: &mut SchemaGenerator) -> Vec<Answer> {
        [A::described(generator), B::described(generator)].concat()
    }

    fn response(self) -> Result<Response, Problem> {
        match self {
            Self::This(one) => one.response(),
            Self::That(other) => other.response(),
        }
    }
}
