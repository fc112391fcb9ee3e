//! The line of the log for a reply that refuses or defers.

use std::net::IpAddr;

use super::protocol::reply::Reply;

/// The subject of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogTopic {
    /// A command, or a connection.
    Command,
    /// A message, on which the Intake decided: its line is in the log.
    Decided,
    /// A message, about which the Intake gave no answer in time.
    Unanswered,
}

impl LogTopic {
    /// The topic of the reply to a message, if the Intake has answered or not.
    pub(super) const fn of_message(is_answered: bool) -> Self {
        if is_answered { Self::Decided } else { Self::Unanswered }
    }
}

/// Logs a refusal in the session `id`.
pub(super) fn log_refusal(topic: LogTopic, id: u64, client: IpAddr, reply: &Reply) {
    let (reason, record) = (reply.label(), reply.record().map(tracing::field::display));
    let (client, code) = (tracing::field::display(client), reply.code());
    match topic {
        LogTopic::Decided => {}
        LogTopic::Command => tracing::info!(
            smtp.session = id,
            client.address = client,
            reason,
            record,
            smtp.code = code,
            "command refused"
        ),
        LogTopic::Unanswered => tracing::info!(
            smtp.session = id,
            client.address = client,
            reason,
            smtp.code = code,
            "message put off: no answer in time"
        ),
    }
}
