//! The ground that every subject stands on: the database with its blobs, which one it is, pages of
//! its lists.

pub mod owner;
pub mod page;
pub mod space;
