//! Answers as types: their fields, in the envelope of v2, with the status and the words that go with them.

use axum::http::StatusCode;
use axum::http::header::{HeaderName, HeaderValue};
use axum::response::Response;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;

use super::super::answer;
use super::super::description::{Answer, Content};
use super::super::error::Problem;
use super::tidy::{fields_of, published, tidy};

/// A success: its fields stand beside `success` and `message`, if it is in the envelope of v2.
pub trait Success: Serialize + JsonSchema {
    const STATUS: StatusCode;
    const MESSAGE: &'static str;
    const ENVELOPE: bool = true;
    /// Whether `Link` leads to other pages.
    const PAGES: bool = false;

    /// The words of this one, where they are not always the same.
    fn message(&self) -> &'static str {
        Self::MESSAGE
    }
}

/// `successes! { Rotated = OK "secret rotated"; Listed = OK "deliveries found", pages; Recent = OK "messages found", bare, pages; }`
/// With `Created: Found = …` the answer is made here, too: it has the fields of another one.
macro_rules! successes {
    ($($name:ident $(: $like:ty)? = $status:ident $message:literal $(, $more:ident)*;)+) => { $(
        $(
            #[derive(Debug, serde::Serialize, schemars::JsonSchema)]
            #[serde(transparent)]
            pub struct $name($like);
        )?

        impl $crate::http::typed::answers::Success for $name {
            const STATUS: axum::http::StatusCode = axum::http::StatusCode::$status;
            const MESSAGE: &'static str = $message;
            $($crate::http::typed::answers::successes!(@ $more);)*
        }
    )+ };
    (@ bare) => { const ENVELOPE: bool = false; };
    (@ pages) => { const PAGES: bool = true; };
}
pub(in crate::http) use successes;

/// All that an operation answers with success.
pub trait Answers {
    fn described(generator: &mut SchemaGenerator) -> Vec<Answer>;

    fn response(self) -> Result<Response, Problem>;
}

impl<S: Success> Answers for S {
    fn described(generator: &mut SchemaGenerator) -> Vec<Answer> {
        let mut schema = if S::ENVELOPE {
            Self::json_schema(generator).to_value()
        } else {
            generator.subschema_for::<Self>().to_value()
        };
        tidy(&mut schema, false);
        let content = match S::ENVELOPE {
            true => Content::Envelope(fields_of(&published(schema), &[]).0),
            false => Content::Json(published(schema)),
        };
        let (status, about, pages) = (S::STATUS.as_u16(), S::MESSAGE, S::PAGES);
        vec![Answer { status, about, content, pages, also: None }]
    }

    fn response(self) -> Result<Response, Problem> {
        #[derive(Serialize)]
        struct Envelope<S> {
            success: bool,
            message: &'static str,
            #[serde(flatten)]
            fields: S,
        }
        let text = match S::ENVELOPE {
            true => serde_json::to_string(&Envelope {
                success: true,
                message: self.message(),
                fields: self,
            }),
            false => serde_json::to_string(&self),
        };
        let text = text.map_err(|error| Problem::internal(error.to_string()))?;
        Ok(answer::json(S::STATUS, text))
    }
}

/// A success with headers of its own.
#[derive(Debug)]
pub struct Headed<S> {
    pub answer: S,
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl<S: Success> Answers for Headed<S> {
    fn described(generator: &mut SchemaGenerator) -> Vec<Answer> {
        S::described(generator)
    }

    fn response(self) -> Result<Response, Problem> {
        let mut response = self.answer.response()?;
        response.headers_mut().extend(self.headers);
        Ok(response)
    }
}

/// One success or another.
#[derive(Debug)]
pub enum Either<A, B> {
    This(A),
    That(B),
}

impl<A: Answers, B: Answers> Answers for Either<A, B> {
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
