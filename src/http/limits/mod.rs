//! How much clients may ask for at a time, and how often: rates of keys and addresses (`rates`), places for
//! files on their way out (`downloads`), for large work (`turns`) and for what providers post (`inbound_places`).

pub(in crate::http) mod downloads;
pub(in crate::http) mod inbound_places;
pub(in crate::http) mod rates;
pub(in crate::http) mod turns;
