//! The use cases: the only callers of both `verify` and `store`. No SQL, no sockets.
//!
//! Called by `http`, `cli` and, through `domain::ports`, by the SMTP room. `intake` takes messages
//! in. `access` answers "may I?". `tenancy` keeps accounts and what belongs to them. `mailbox`
//! reads messages. `delivery` keeps outgoing work. `relay`, `agents`, `apps` and `computers` are
//! set up by accounts. `audit` reads who did what, `idempotency` keeps the responses of idempotent
//! requests, and `vault` seals secrets. `tls_reports` keeps what senders report on TLS; `panics` lets one
//! piece of work fail alone. Records that
//! the API, events and the command line share have their shapes here, made of `wire`.

/// Lets use cases over a store act as another `actor`, whom the audit log names; with a path to
/// their clock, also stamps acts with the time.
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
            /// Returns an act of the actor at this moment.
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
pub mod doctor;
pub mod idempotency;
pub mod intake;
mod locked;
pub mod mailbox;
pub mod panics;
pub mod relay;
pub mod system;
pub mod tenancy;
pub mod tls_reports;
pub mod vault;
