//! The server's side of TLS: certificates and handshakes.
//!
//! A *pair* is a checked certificate chain with its key. *Certificates* hold the pair in use, which
//! can be replaced while sessions go on; *others* are pairs for further names, which clients ask for.
//! *Files* follow a pair that an operator replaces on disk.
//! An *acceptor* encrypts a stream and reports the version and cipher.
//!
//! `smtp` (STARTTLS, implicit TLS) and `http` call this room. `run` decides the source of the pair:
//! files, an authority ([`acme`]), or a self-signed pair.
//!
//! Never: verifying a client's certificate, logging a key, ending a session for a new certificate.
//! A pair that cannot be used leaves the one in use. Locks are held for a moment, except in
//! [`Files`], where a reload waits for the one before.

mod acceptor;
pub mod acme;
mod certificates;
mod files;
mod others;
mod own;
mod pair;
pub mod self_signed;

#[cfg(test)]
mod tests;

pub use acceptor::{Acceptor, HandshakeError};
pub use certificates::Certificates;
pub use files::{FileReload, Files, FilesError, Paths};
pub use others::Others;
pub use own::{ACME, own_files};
pub use pair::{Pair, PairError};
