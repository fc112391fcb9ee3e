//! (founding)
