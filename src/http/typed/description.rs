//! The description of one operation, beside its row of the table.

use serde_json::Value;

use crate::http::typed::schema::Fields;

#[derive(Clone, Debug)]
pub(in crate::http) struct Description {
    pub(in crate::http) summary: &'static str,
    pub(in crate::http) about: &'static str,
    pub(in crate::http) path_names: Fields,
    pub(in crate::http) query: Fields,
    pub(in crate::http) headers: Fields,
    pub(in crate::http) body: Option<Fields>,
    /// An example body.
    pub(in crate::http) sent: Option<Value>,
    pub(in crate::http) answers: Vec<DescribedSuccess>,
}

/// A success.
#[derive(Clone, Debug)]
pub(in crate::http) struct DescribedSuccess {
    pub(in crate::http) status: u16,
    pub(in crate::http) about: &'static str,
    pub(in crate::http) content: Content,
    /// Whether `Link` leads to more pages.
    pub(in crate::http) pages: bool,
    /// Another media type with the same data.
    pub(in crate::http) also: Option<&'static str>,
}

/// The content of an answer.
#[derive(Clone, Debug)]
pub(in crate::http) enum Content {
    Empty,
    /// These fields, in the envelope of v2.
    Envelope(Fields),
    /// The fields of one of these shapes, in the envelope.
    OneOf(Vec<Fields>),
    /// JSON of this schema.
    Json(Value),
    /// Bytes of one of these media types.
    Octets(&'static [&'static str]),
}
