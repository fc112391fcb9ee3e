//! Every operation × every kind of key × every kind of target × every place that names the target,
//! then random trees and calls, compared with one independent oracle (`tree.rs` and
//! `fixtures/access.toml`); threats E1, E2, E6, E7.

mod access_world;
mod asked;
mod fields;
mod force;
mod line;
mod lists;
mod matrix;
mod objects;
mod random;
mod sample;
mod tools;
mod tree;

use crate::http::tests::NOBODY;
