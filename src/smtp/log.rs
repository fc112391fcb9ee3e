//! The line of the log for a reply that refuses or defers.

use std::net::IpAddr;

use super::protocol::reply::Reply;

/// Logs the refusal of a command or a connection in the session `id`. The Intake logs messages itself,
/// also those without an answer in time.
pub(super) fn log_refusal(id: u64, client: IpAddr, reply: &Reply) {
    tracing::info!(
        smtp.session = id,
        client.address = %client,
        reason = reply.label(),
        record = reply.record().map(tracing::field::display),
        smtp.code = reply.code(),
        "command refused"
    );
}
