//! `gatepost intake list|show`: the verdict on each message, accepted or not.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::check::show_record;
use super::global_args::GlobalArgs;
use super::reading::{self, Rows, text};
use super::{Failure, say};
use crate::app::mailbox::intake::{IntakeRecord, WholeIntakeRecord};
use crate::domain::id::IntakeId;
use crate::domain::verdict::Outcome;
use crate::store::{Cursor, IntakeFilter};

#[derive(Args, Debug)]
pub(super) struct IntakeArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// List intake records, the newest first
    #[command(after_help = "Prints the records of GET /email/intake with --json.")]
    List {
        #[command(flatten)]
        rows: Rows,
        /// Only records older than this one
        #[arg(long, value_name = "RECORD", value_parser = record_id)]
        before: Option<IntakeId>,
        /// Only this verdict: accepted, refused or deferred
        #[arg(long, value_name = "VERDICT")]
        verdict: Option<Outcome>,
    },
    /// Show an intake record with its steps
    #[command(after_help = "Prints the record of GET /email/intake/{id} with --json.")]
    Show {
        #[arg(value_name = "RECORD", value_parser = record_id)]
        id: IntakeId,
    },
}

impl IntakeArgs {
    pub(super) async fn run(self, global: &GlobalArgs) -> Result<ExitCode, Failure> {
        match self.action {
            Action::List { rows, before, verdict } => {
                let (mailbox, scope) = reading::mailbox(global, rows.account.as_ref()).await?;
                let before = match before {
                    Some(id) => {
                        let found = mailbox.intake_record(&scope, id).await?;
                        let found = found.ok_or_else(|| missing(id))?;
                        Some(Cursor { at: found.at, id: id.0 })
                    }
                    None => None,
                };
                let filter = IntakeFilter { verdict, ..IntakeFilter::default() };
                let found = mailbox.intake_records(&scope, &filter, &rows.page(before)).await?;
                reading::print_all(global, found.iter().map(IntakeRecord::from), line)?;
            }
            Action::Show { id } => {
                let (mailbox, scope) = reading::mailbox(global, None).await?;
                let found = mailbox.intake_record(&scope, id).await?.ok_or_else(|| missing(id))?;
                reading::print_one(global, WholeIntakeRecord::from(&found), show)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("not the id of an intake record; list them with `gatepost intake list`")]
struct NotRecordId;

fn record_id(text: &str) -> Result<IntakeId, NotRecordId> {
    text.parse().map_err(|_| NotRecordId)
}

fn missing(id: IntakeId) -> Failure {
    format!("no intake record {id}; list them with `gatepost intake list`").into()
}

fn show(record: &Value) -> Result<(), Failure> {
    line(record)?;
    say!("")?;
    show_record(record)
}

fn line(record: &Value) -> Result<(), Failure> {
    let text = |place| text(record, place);
    say!(
        "{}  {}  {:<8}  {:<20}  {} to {}",
        text("/id"),
        text("/date"),
        text("/verdict"),
        text("/reason"),
        text("/sender"),
        text("/recipient"),
    )
}
