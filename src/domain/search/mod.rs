//! Full-text search: what a word is, what a query says, and the tokens by which an index finds what
//! may match.
//!
//! All of it is decided here and the same on both databases. They keep tokens ([`tokens`]) and
//! intersect them, which narrows a search down to candidates; whether one of these matches says
//! [`query::Query::matches`] alone, from the words of the message ([`words`]). So neither the parser
//! of SQLite's FTS5 nor that of PostgreSQL's tsvector ever sees text of a message or of a user.

pub mod query;
pub mod tokens;
pub mod words;
