//! The envelope assumed for a file that nobody has sent.

use std::fmt;
use std::time::Duration;

use super::Check;
use crate::domain::ports::{Client, Envelope};
use crate::mail::scan::scan;
use crate::rules::IntakeRules;

/// An envelope, and whether its sender is the From of the file.
pub(super) struct AssumedEnvelope {
    pub envelope: Envelope,
    is_of_file: bool,
}

impl Check {
    /// Builds the envelope from the arguments. Without `--from`, the sender is the From of the
    /// file, as in most personal mail.
    pub(super) fn assumed_envelope(&self, raw: &[u8], rules: &IntakeRules) -> AssumedEnvelope {
        let client = Client { address: self.ip, helo: self.helo.clone(), esmtp: true, tls: None };
        let found = scan(raw, &rules.limits).map(|headers| headers.from.address);
        let reverse_path = match &self.from {
            Some(from) => from.clone(),
            None => found.map(|from| from.to_string()).unwrap_or_default(),
        };
        let (recipients, smtputf8, posted) = (Vec::new(), true, None);
        let open_for = Duration::ZERO;
        let envelope = Envelope { client, reverse_path, recipients, smtputf8, posted, open_for };
        AssumedEnvelope { envelope, is_of_file: self.from.is_none() }
    }
}

impl fmt::Display for AssumedEnvelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Envelope { client, reverse_path, .. } = &self.envelope;
        let sender = match (reverse_path.as_str(), self.is_of_file) {
            ("", true) => "<> (the file has no usable From)".to_owned(),
            ("", false) => "<>".to_owned(),
            (from, true) => format!("{from} (the From of the file)"),
            (from, false) => from.to_owned(),
        };
        let Client { address, helo, .. } = client;
        write!(
            f,
            "Assumed envelope: from {sender}, by {helo} at {address}; set it with --from, --helo \
             and --ip"
        )
    }
}
