//! The use cases: the only caller of `verify` and `store` together.
//!
//! `http`, `cli` and the SMTP room (through `domain::ports`) call in here. Each room is one part
//! of what the product does: `intake` takes a message in, `access` answers "may I?", `tenancy`
//! keeps accounts and what belongs to them, `mailbox` reads messages, `delivery` keeps the
//! outgoing work; `audit` reads who did what, `once` keeps the answers of requests that are carried
//! out once; `vault` seals what is secret; `relay`, `agents`, `apps` and `computers` are what
//! accounts set up. Records that the API, events and the command line share have their shapes here,
//! made of `wire`. No SQL, no sockets.

/// Use cases over a store: each change says whose doing it is, and when.
macro_rules! done_by {
    ($cases:ty) => {
        impl $cases {
            /// Returns a copy that acts as `actor`.
            #[must_use]
            pub fn by(&self, actor: &Actor) -> Self {
                Self { actor: actor.clone(), ..self.clone() }
            }
        }
    };
    ($cases:ty, $($clock:tt)+) => {
        done_by!($cases);

        impl $cases {
            /// What is done at this moment.
            pub(in crate::app) fn act(&self) -> crate::domain::audit::Act<'_> {
                self.actor.at(self.$($clock)+.now())
            }
        }
    };
}

pub mod access;
pub mod agents;
pub mod apps;
pub mod audit;
pub mod computers;
pub mod delivery;
pub mod intake;
pub mod mailbox;
pub mod once;
pub mod relay;
pub mod tenancy;
pub mod vault;
