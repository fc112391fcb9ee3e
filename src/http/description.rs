//! What is told of one operation, beside its row of the table.

use serde_json::Value;

use super::error::Code;
use super::schema::Fields;
use super::verb::Verb;

/// The description of one operation.
#[derive(Clone, Debug)]
pub(in crate::http) struct Description {
    pub(in crate::http) verb: Verb,
    pub(in crate::http) path: &'static str,
    pub(in crate::http) summary: &'static str,
    pub(in crate::http) about: &'static str,
    pub(in crate::http) path_names: Fields,
    pub(in crate::http) query: Fields,
    pub(in crate::http) headers: Fields,
    pub(in crate::http) body: Option<Fields>,
    /// An example of the body.
    pub(in crate::http) sent: Option<Value>,
    pub(in crate::http) answers: Vec<Answer>,
    pub(in crate::http) codes: Vec<Code>,
}

/// A success.
#[derive(Clone, Debug)]
pub(in crate::http) struct Answer {
    pub(in crate::http) status: u16,
    pub(in crate::http) about: &'static str,
    pub(in crate::http) content: Content,
    /// Whether `Link` leads on.
    pub(in crate::http) pages: bool,
    /// Another type in which the same is answered.
    pub(in crate::http) also: Option<&'static str>,
}

/// What an answer holds.
#[derive(Clone, Debug)]
pub(in crate::http) enum Content {
    /// Nothing.
    Empty,
    /// These fields, in the envelope of v2.
    Envelope(Fields),
    /// The fields of one of these shapes, in the envelope.
    OneOf(Vec<Fields>),
    /// JSON of this schema.
    Json(Value),
    /// Octets, of one of these types.
    Octets(&'static [&'static str]),
}

impl Description {
    /// The operation of this row, in a few words.
    pub(in crate::http) fn of(verb: Verb, path: &'static str, summary: &'static str) -> Self {
        Self {
            verb,
            path,
            summary,
            about: "",
            path_names: Fields::new(),
            query: Fields::new(),
            headers: Fields::new(),
            body: None,
            sent: None,
            answers: Vec::new(),
            codes: Vec::new(),
        }
    }

    /// What is more to be said of it.
    pub(in crate::http) fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    /// The names in its path, but for `targetAccountId`.
    pub(in crate::http) fn path(self, path_names: Fields) -> Self {
        Self { path_names, ..self }
    }

    /// The parameters of its query, beside the target.
    pub(in crate::http) fn query(self, query: Fields) -> Self {
        Self { query, ..self }
    }

    /// The fields of its body, beside the target; others are refused.
    pub(in crate::http) fn body(self, fields: Fields) -> Self {
        Self { body: Some(fields), ..self }
    }

    /// An example of the body, where one that is made from its fields would say too much at once.
    pub(in crate::http) fn sent(self, example: Value) -> Self {
        Self { sent: Some(example), ..self }
    }

    /// A success with these fields, and with `success` and `message`.
    pub(in crate::http) fn answer(self, status: u16, about: &'static str, fields: Fields) -> Self {
        self.with(status, about, Content::Envelope(fields))
    }

    /// A success without the envelope.
    pub(in crate::http) fn bare(self, status: u16, about: &'static str, schema: Value) -> Self {
        self.with(status, about, Content::Json(schema))
    }

    fn with(mut self, status: u16, about: &'static str, content: Content) -> Self {
        self.answers.push(Answer { status, about, content, pages: false, also: None });
        self
    }

    /// The answer before it has a `Link` header that leads to other pages.
    pub(in crate::http) fn pages(mut self) -> Self {
        if let Some(answer) = self.answers.last_mut() {
            answer.pages = true;
        }
        self
    }

    /// The answer before it is of this type instead, where the request asks for it.
    pub(in crate::http) fn or_as(mut self, kind: &'static str) -> Self {
        if let Some(answer) = self.answers.last_mut() {
            answer.also = Some(kind);
        }
        self
    }

    /// Errors that only its handler can answer.
    pub(in crate::http) fn fails(mut self, codes: &[Code]) -> Self {
        self.codes.extend_from_slice(codes);
        self
    }
}
