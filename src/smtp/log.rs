//! The line of the log for a reply that refuses or defers.

use std::net::IpAddr;

use super::protocol::reply::Reply;

/// The subject of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogTopic {
    /// A command, or a connection.
    Command,
    /// A message: the Intake logs each, also one that it gave no answer about in time.
    Message,
}

/// Logs a refusal in the session `id`.
pub(super) fn log_refusal(topic: LogTopic, id: u64, client: IpAddr, reply: &Reply) {
    match topic {
        LogTopic::Message => {}
        LogTopic::Command => tracing::info!(
            smtp.session = id,
            client.address = %client,
            reason = reply.label(),
            record = reply.record().map(tracing::field::display),
            smtp.code = reply.code(),
            "command refused"
        ),
    }
}
