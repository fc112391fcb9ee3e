//! Full-text search: the words of a text, the syntax of queries, and the tokens that an index
//! stores.
//!
//! All of this is decided here, alike on both databases. They store tokens ([`tokens`]) and
//! intersect them, which yields candidates. Only [`query::Query::matches`] decides whether a
//! candidate matches, from the words of the message ([`words`]). So neither the parser of SQLite's
//! FTS5 nor that of PostgreSQL's tsvector ever sees text from a message or a user.

pub mod query;
pub mod tokens;
pub mod words;
