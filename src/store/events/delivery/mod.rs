//! How events reach destinations (claims, attempts, replays, rests) and readers (lists of events).

pub mod attempt_results;
pub mod claimed;
pub mod claims;
pub mod contents_now;
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
