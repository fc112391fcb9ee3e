//! The only way out to strangers: to URLs that customers chose and servers that may return
//! anything.
//!
//! [`guard`] decides which URLs and addresses may be reached, [`new_urls`] when one is named. [`client`] reaches those and no
//! others; it resolves names with `lookup`, not with mail's resolver. [`signature`] proves the
//! sender to the receiver. Never done here: following a redirect, using a proxy of the environment,
//! keeping a cookie, decompressing a response, connecting to an address that was not checked,
//! showing the text of an inner error to a customer. The one lock, of counts, is held for a moment.

pub mod certificate;
pub mod client;
mod error;
pub mod guard;
mod lookup;
pub mod new_urls;
pub mod signature;
pub mod validity;
