//! `gatepost check-store`: reads the whole store and reports damage.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::global_args::GlobalArgs;
use super::{Failure, print_json, say};
use crate::domain::causes::with_causes;
use crate::store::{Store, StoreError};

/// Read all stored messages and their originals, and say which are damaged (exit code 1)
#[derive(Args, Debug)]
#[command(after_help = "Prints {\"message\":…,\"detail\":…} for each with --json, at last \
                         {\"messages\":…,\"damaged\":…}.")]
pub(super) struct CheckStore;

/// Counts of the walk.
#[derive(Default)]
struct Sum {
    /// Print JSON.
    json: bool,
    messages: u64,
    damaged: u64,
}

/// Why the walk ended early.
enum Ended {
    Unreadable(StoreError),
    /// Output failed.
    Unprintable(Failure),
}

impl From<StoreError> for Ended {
    fn from(error: StoreError) -> Self {
        Self::Unreadable(error)
    }
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Unprintable(failure)
    }
}

impl CheckStore {
    pub(super) async fn run(self, global: &GlobalArgs) -> Result<ExitCode, Failure> {
        let location = global.location()?;
        let store = global.open().await?;
        let mut sum = Sum { json: global.json, ..Sum::default() };
        // An unreadable page ends the walk, but not the report.
        match sum.walk(&store).await {
            Err(Ended::Unreadable(error)) => {
                sum.report(None, &with_causes(&error))?;
            }
            Err(Ended::Unprintable(failure)) => return Err(failure),
            Ok(()) => {}
        }
        store.close().await;
        let Sum { json, messages, damaged } = sum;
        if json {
            print_json(&json!({ "messages": messages, "damaged": damaged }))?;
        } else {
            say!("{location}: {messages} messages read, {damaged} faults")?;
        }
        if damaged == 0 {
            return Ok(ExitCode::SUCCESS);
        }
        Err("the store is damaged: keep a copy of it, then restore the last backup (gatepost \
             restore), or put lost originals back into the blob store"
            .into())
    }
}

impl Sum {
    async fn walk(&mut self, store: &Store) -> Result<(), Ended> {
        for line in store.check_integrity().await? {
            self.report(None, &line)?;
        }
        let mut after = None;
        loop {
            let ids = store.message_ids(after).await?;
            let Some(last) = ids.last() else { return Ok(()) };
            after = Some(*last);
            for id in ids {
                self.messages += 1;
                match store.check_message(id).await {
                    Ok(found) => {
                        for damage in found {
                            self.report(Some(&id.to_string()), &damage)?;
                        }
                    }
                    Err(error @ StoreError::Damaged(_)) => {
                        self.report(Some(&id.to_string()), &with_causes(&error))?;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }

    fn report(&mut self, message: Option<&str>, detail: &str) -> Result<(), Failure> {
        self.damaged += 1;
        if self.json {
            return print_json(&json!({ "message": message, "detail": detail }));
        }
        match message {
            Some(message) => say!("message {message}: {detail}"),
            None => say!("database: {detail}"),
        }
    }
}
