//! Where large raw messages lie: a folder, or a bucket of an S3-compatible store.

pub mod bucket;
pub mod folder;
pub mod objects;
pub mod place;
