//! Large raw messages outside of the database: in a folder, or in a bucket of an S3-compatible
//! store. No transaction is open during a put, a read or a removal, and nothing is locked: each put
//! has a name of its own (`objects.rs`), and one database owns the store (`base/owner.rs`).

pub mod bucket;
pub mod folder;
pub mod objects;
pub mod place;
