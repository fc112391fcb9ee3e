//! The JSON in which `mails.mail` keeps what was handed in otherwise than by mail. Fields may be
//! added with a default; none may change its meaning, because old rows stay as they are.

use serde::{Deserialize, Serialize};

use crate::domain::contact::Handle;
use crate::domain::message::Received;
use crate::domain::source::Source;

#[derive(Serialize, Deserialize)]
pub(super) struct ReceivedRow {
    source: String,
    address: String,
    name: Option<String>,
    text: String,
}

impl From<&Received> for ReceivedRow {
    fn from(received: &Received) -> Self {
        Self {
            source: received.handle.source().to_string(),
            address: received.handle.address(),
            name: received.name.clone(),
            text: received.text.clone(),
        }
    }
}

impl From<ReceivedRow> for Received {
    fn from(row: ReceivedRow) -> Self {
        // A later version's word is told by the row's own column; here only its address counts.
        let source = row.source.parse().unwrap_or(Source::Chat);
        let handle = Handle::Elsewhere { source, address: row.address };
        Self { handle, name: row.name, text: row.text }
    }
}
