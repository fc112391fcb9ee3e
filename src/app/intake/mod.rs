//! The one path.
