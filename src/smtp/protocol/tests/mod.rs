//! Rules that hold however a session is cut into reads. The fuzz targets use `dialogue` and
//! `reference` too: there they are modules of another crate, so they name everything by `crate::`.

mod cuts;
pub mod dialogue;
pub mod reference;
