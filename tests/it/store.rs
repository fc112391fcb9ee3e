//! Every promise of the store, on a real database file.

mod deliveries;
mod faults;
mod lists;
mod messages;
mod plans;
mod scene;
mod tenancy;
