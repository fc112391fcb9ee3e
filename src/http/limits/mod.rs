//! Limits on clients: requests per minute of keys and addresses (`rates`), and places for downloads
//! (`downloads`), for large work (`turns`) and for posts of providers (`inbound_places`).

pub(in crate::http) mod downloads;
pub(in crate::http) mod inbound_places;
pub(in crate::http) mod rates;
pub(in crate::http) mod turns;
