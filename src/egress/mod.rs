//! The only way out to strangers: URLs that customers chose, and answers that anybody may send.
//!
//! [`guard`] says which URLs and addresses may be reached, [`client`] reaches them and no others
//! (and asks for their names by a resolver that is not mail's),
//! [`signature`] proves to the receiver who sent what. `webhook` and `relay` call in here. What
//! never happens: a redirect is followed, a proxy of the environment is used, a cookie is kept, an
//! answer is decompressed, a name is looked up twice between check and connection, or the text of
//! an inner error reaches a customer.

pub mod client;
mod error;
pub mod guard;
mod lookup;
pub mod signature;
pub mod validity;
