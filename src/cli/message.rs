//! `gatepost message list|show`: accepted messages.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::global_args::GlobalArgs;
use super::reading::{self, Rows, text};
use super::{Failure, say};
use crate::app::mailbox::record::MessageRecord;
use crate::domain::clock::TimeRange;
use crate::domain::id::MessageId;
use crate::store::Cursor;

#[derive(Args, Debug)]
pub(super) struct MessageArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// List messages, the newest first
    #[command(after_help = "Prints the records of GET /messages/recent with --json.")]
    List {
        #[command(flatten)]
        rows: Rows,
        /// Only messages older than this one
        #[arg(long, value_name = "MESSAGE", value_parser = message_id)]
        before: Option<MessageId>,
    },
    /// Show a message: its text and its attachments
    #[command(after_help = "Prints the record of GET /messages/recent with --json.")]
    Show {
        #[arg(value_name = "MESSAGE", value_parser = message_id)]
        id: MessageId,
    },
}

impl MessageArgs {
    pub(super) async fn run(self, global: &GlobalArgs) -> Result<ExitCode, Failure> {
        match self.action {
            Action::List { rows, before } => {
                let (mailbox, scope) = reading::mailbox(global, rows.account.as_ref()).await?;
                let before = match before {
                    Some(id) => {
                        let found = mailbox.original(&scope, id).await?;
                        let found = found.ok_or_else(|| missing(id))?;
                        Some(Cursor { at: found.at, id: id.0 })
                    }
                    None => None,
                };
                let found =
                    mailbox.recent(&scope, TimeRange::default(), &rows.page(before)).await?;
                reading::print_all(global, found.iter().map(MessageRecord::of), line)?;
            }
            Action::Show { id } => {
                let (mailbox, scope) = reading::mailbox(global, None).await?;
                let found = mailbox.message(&scope, id).await?.ok_or_else(|| missing(id))?;
                reading::print_one(global, MessageRecord::of(&found), show)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("not the id of a message; list them with `gatepost message list`")]
struct NotMessageId;

fn message_id(text: &str) -> Result<MessageId, NotMessageId> {
    text.parse().map_err(|_| NotMessageId)
}

fn missing(id: MessageId) -> Failure {
    format!("no message {id}; list them with `gatepost message list`").into()
}

fn line(record: &Value) -> Result<(), Failure> {
    let text = |place| text(record, place);
    let (id, date) = (text("/uuid"), text("/date"));
    let (from, to) = (text("/metadata/emailFrom"), text("/toUser"));
    say!("{id}  {date}  {from} to {to}  {}", text("/metadata/emailSubject"))
}

fn show(record: &Value) -> Result<(), Failure> {
    let text = |place| text(record, place);
    say!("from        {} <{}>", text("/fromUser"), text("/metadata/emailFrom"))?;
    say!("to          {}", text("/toUser"))?;
    say!("date        {}", text("/date"))?;
    say!("subject     {}", text("/metadata/emailSubject"))?;
    for one in record.get("attachments").and_then(Value::as_array).into_iter().flatten() {
        let part = |place| reading::text(one, place);
        say!("attachment  {} ({})", part("/filename"), part("/content-type"))?;
    }
    say!("\n{}", text("/message"))
}
