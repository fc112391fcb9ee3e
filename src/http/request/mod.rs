//! A request, read strictly: its query, its body, what it acts on (`target`), and all of that, authorised, as a
//! handler gets it (`call`).

pub(in crate::http) mod body;
pub mod call;
pub(in crate::http) mod octets;
pub(in crate::http) mod query;
pub(in crate::http) mod target;
