//! Success answers as types: their fields, with status and message, in the envelope of v2.

use std::marker::PhantomData;

use axum::http::StatusCode;
use axum::http::header::{HeaderName, HeaderValue};
use axum::response::Response;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;

use crate::http::answer::file;
use crate::http::error::Problem;
use crate::http::typed::description::{Content, DescribedSuccess};
use crate::http::typed::schema::{self, Fields, fields_of};
use crate::wire::tidy::{published, tidy};

/// A success. In the envelope of v2, its fields (or those of one of its shapes, if `untagged`)
/// stand beside `success` and `message`.
pub trait Success: Serialize + JsonSchema {
    const STATUS: StatusCode;
    const MESSAGE: &'static str;
    const ENVELOPE: bool = true;
    /// Whether `Link` leads to other pages.
    const PAGES: bool = false;

    /// The message, for types where it varies.
    fn message(&self) -> &str {
        Self::MESSAGE
    }
}

/// Implements [`Success`]: `Rotated = OK "secret rotated"; Listed = OK "deliveries found", pages;
/// Recent = OK "messages found", bare, pages;`. `Created: Found = …` also declares `Created`, with
/// the fields of `Found`, and `Found { webhook: Webhook } = …` declares `Found` with this field.
/// With `varies`, the message comes from a method `own_message` of the type.
macro_rules! successes {
    ($(
        $name:ident $(: $like:ty)? $({ $($(#[$about:meta])* $field:ident: $type:ty),+ $(,)? })?
            = $status:ident $message:literal $(, $more:ident)*;
    )+) => { $(
        $(
            #[derive(Debug, serde::Serialize, schemars::JsonSchema)]
            #[serde(transparent)]
            pub struct $name($like);
        )?
        $(
            #[derive(Debug, serde::Serialize, schemars::JsonSchema)]
            #[serde(rename_all = "camelCase")]
            pub struct $name {
                $($(#[$about])* $field: $type,)+
            }
        )?

        impl $crate::http::typed::answers::Success for $name {
            const STATUS: axum::http::StatusCode = axum::http::StatusCode::$status;
            const MESSAGE: &'static str = $message;
            $($crate::http::typed::answers::successes!(@ $more);)*
        }
    )+ };
    (@ bare) => { const ENVELOPE: bool = false; };
    (@ pages) => { const PAGES: bool = true; };
    (@ varies) => {
        fn message(&self) -> &str {
            self.own_message()
        }
    };
}
pub(in crate::http) use successes;

/// All success answers of an operation.
pub trait Answers {
    fn described(generator: &mut SchemaGenerator) -> Vec<DescribedSuccess>;

    /// Request headers that they depend on.
    fn request_headers() -> Fields {
        Fields::new()
    }

    fn response(self) -> Result<Response, Problem>;
}

impl<S: Success> Answers for S {
    fn described(generator: &mut SchemaGenerator) -> Vec<DescribedSuccess> {
        let mut schema = if S::ENVELOPE {
            Self::json_schema(generator).to_value()
        } else {
            generator.subschema_for::<Self>().to_value()
        };
        tidy(&mut schema, false);
        let fields = |shape: &Value| fields_of(&published(shape.clone()), &[]).0;
        let content = match schema.get("anyOf").and_then(Value::as_array) {
            _ if !S::ENVELOPE => Content::Json(published(schema)),
            None => Content::Envelope(fields(&schema)),
            Some(shapes) => Content::OneOf(
                shapes.iter().map(|shape| fields(&named(generator, shape))).collect(),
            ),
        };
        let (status, about, pages) = (S::STATUS.as_u16(), S::MESSAGE, S::PAGES);
        vec![DescribedSuccess { status, about, content, pages, also: None }]
    }

    fn response(self) -> Result<Response, Problem> {
        Ok(file::json(S::STATUS, text(&self)?))
    }
}

/// The shape behind a reference; a shape without a name itself.
fn named(generator: &SchemaGenerator, shape: &Value) -> Value {
    let name = shape.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
    let mut found =
        name.and_then(|name| generator.definitions().get(name)).unwrap_or(shape).clone();
    tidy(&mut found, false);
    found
}

/// A success as JSON.
pub(in crate::http) fn text<S: Success>(success: &S) -> Result<String, Problem> {
    #[derive(Serialize)]
    struct Envelope<'s, S> {
        success: bool,
        message: &'s str,
        #[serde(flatten)]
        fields: &'s S,
    }
    let text = match S::ENVELOPE {
        true => serde_json::to_string(&Envelope {
            success: true,
            message: success.message(),
            fields: success,
        }),
        false => serde_json::to_string(success),
    };
    text.map_err(Problem::internal)
}

/// A success with additional headers.
#[derive(Debug)]
pub struct WithHeaders<S> {
    pub answer: S,
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl<S: Success> Answers for WithHeaders<S> {
    fn described(generator: &mut SchemaGenerator) -> Vec<DescribedSuccess> {
        S::described(generator)
    }

    fn response(self) -> Result<Response, Problem> {
        let mut response = self.answer.response()?;
        response.headers_mut().extend(self.headers);
        Ok(response)
    }
}

/// The media types of a file.
pub trait MediaTypes {
    const TYPES: &'static [&'static str];
}

/// A file of one of these types: the whole file, a part, or 304.
#[derive(Debug)]
pub struct Download<K>(Response, PhantomData<K>);

impl<K> Download<K> {
    pub const fn of(response: Response) -> Self {
        Self(response, PhantomData)
    }
}

impl<K: MediaTypes> Answers for Download<K> {
    fn described(_: &mut SchemaGenerator) -> Vec<DescribedSuccess> {
        let answer = |status, about, content| DescribedSuccess {
            status,
            about,
            content,
            pages: false,
            also: None,
        };
        vec![
            answer(200, "The file.", Content::Octets(K::TYPES)),
            answer(206, "The requested part of the file.", Content::Octets(K::TYPES)),
            answer(304, "The client has the file already.", Content::Empty),
        ]
    }

    fn request_headers() -> Fields {
        vec![
            ("Range?", schema::text("The bytes to send (RFC 9110 §14.2).")),
            ("If-None-Match?", schema::text("The ETag of the file that the client has.")),
        ]
    }

    fn response(self) -> Result<Response, Problem> {
        Ok(self.0)
    }
}

#[derive(Debug)]
pub enum Either<A, B> {
    This(A),
    That(B),
}

impl<A: Answers, B: Answers> Answers for Either<A, B> {
    fn described(generator: &mut SchemaGenerator) -> Vec<DescribedSuccess> {
        [A::described(generator), B::described(generator)].concat()
    }

    fn response(self) -> Result<Response, Problem> {
        match self {
            Self::This(one) => one.response(),
            Self::That(other) => other.response(),
        }
    }
}
