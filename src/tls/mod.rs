//! The server's side of TLS: certificates, and handshakes by them.
//!
//! Nouns: a *pair* is a certificate chain with its key, checked; *certificates* hold the pair in
//! use and can be given another one while sessions go on; *files* follow a pair that an operator
//! replaces on the disk; an *acceptor* makes an encrypted stream of a plain one, and says what was
//! agreed on.
//!
//! Called by `smtp` (STARTTLS, implicit TLS) and `http`; `run` decides where the pair comes from:
//! files, an authority ([`acme`], who calls [`Certificates::install`]), or a self-signed one.
//!
//! What never happens here: a certificate of somebody else is verified, a key is logged, a session
//! is ended because of a new certificate.

mod acceptor;
pub mod acme;
mod certificates;
mod files;
mod own;
mod pair;
pub mod self_signed;

#[cfg(test)]
mod tests;

pub use acceptor::{Acceptor, HandshakeError};
pub use certificates::Certificates;
pub use files::{Files, FilesError, Look, Paths};
pub use own::{ACME, own_files};
pub use pair::{Pair, PairError};
