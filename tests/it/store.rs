//! Every promise of the store, on a real database of either kind.

/// Runs each of these, an `async fn(Kind)`, as a test on both databases. One that is not named is
/// dead code, which the compiler refuses.
macro_rules! on_both {
    (#[$test:meta] $($name:ident),* $(,)?) => {$(
        mod $name {
            use crate::store::scene::Kind;

            #[$test]
            async fn sqlite() {
                super::$name(Kind::Sqlite).await;
            }

            #[$test]
            async fn postgres() {
                super::$name(Kind::Postgres).await;
            }
        }
    )*};
    ($($name:ident),* $(,)?) => {
        on_both! { #[tokio::test(flavor = "multi_thread", worker_threads = 4)] $($name),* }
    };
}

mod accounts;
mod agents;
mod apps;
mod audit;
mod beside;
mod console_audit;
mod console_sessions;
mod damaged;
mod deletion;
mod deliveries;
mod directory;
mod domains;
mod erasure;
mod events;
mod exercise;
mod facts;
mod faults;
mod gateways;
mod hand_overs;
mod health;
mod idempotency;
mod keys;
mod lists;
mod log_tallies;
mod logs;
mod many_rooms;
mod members;
mod messages;
pub mod objects;
mod ordered;
mod organizations;
mod outcomes;
mod owners;
mod pages;
mod plans;
mod received;
mod recipients;
mod relays;
mod replays;
mod retention;
mod rooms;
pub mod scene;
mod schema;
mod search;
mod search_work;
mod secrets;
mod sessions;
mod sign_ins;
mod silence;
mod space;
mod templates;
mod tenancy;
mod tls;
mod tls_reports;
mod together;
mod webhooks;
mod workload;
