//! Deliveries to destinations (claims, attempts, replays, rests), and the lists that clients read.
//!
//! A delivery is pending, or has ended: delivered, exhausted, or cancelled with its destination.
//! Ended deliveries can be replayed while their destination is in use. A claim leases pending
//! deliveries to one gateway and raises their fences (`claims.rs`). The result of an attempt counts
//! only with the fence of the latest claim (`attempt_results.rs`). When the lease ends or the
//! gateway dies (`gateways.rs`), the delivery may be claimed again: a receiver may get an event
//! twice. A removed or disabled destination is `draining` while some of its deliveries are pending:
//! each claim is followed by a batch that ends them (`destinations.rs`).
//!
//! Locks on PostgreSQL: gates first, then rows. No transaction takes both the gate of rooms and
//! gates of accounts. Claims and results lock deliveries before destinations. Others lock the
//! destination first, but then removals skip locked deliveries, replays change only ended ones, and
//! releases only their own. A transaction that loses a deadlock is run again.

pub mod attempt_results;
pub mod claims;
pub mod current_contents;
pub mod deliveries;
pub mod destination_changes;
pub mod destination_row;
pub mod destinations;
pub mod disabling;
pub mod event_context;
pub mod event_lists;
pub mod former_secrets;
pub mod gateways;
pub mod health;
pub mod ordered_queue;
pub mod replay_requests;
pub mod replays;
