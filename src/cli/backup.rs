//! `gatepost backup`: a copy of the embedded store, while servers run on it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::{Failure, StoreArgs, print_json, say};
use crate::store::{self, Objects};

/// Copy the embedded store, while servers run on it
#[derive(Args, Debug)]
pub(super) struct Backup {
    /// Where to: a folder that is empty or not there yet
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Print {"to":…,"messages":…,"octets":…,"objects":…}
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

impl Backup {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let place = self.store.place()?;
        let objects = Objects::of(&place);
        let copied = store::back_up(&place.database, &self.to, objects).await?;
        if let (Objects::Elsewhere, Some(blobs)) = (objects, &place.blobs) {
            eprintln!(
                "gatepost: the large originals in {blobs} are not part of it: back them up after it"
            );
        }
        let (to, messages, octets) = (self.to.display(), copied.messages, copied.octets);
        if self.json {
            print_json(&json!({
                "to": to.to_string(),
                "messages": messages,
                "octets": octets,
                "objects": copied.objects,
            }))?;
        } else {
            say!("backed up to {to}: {messages} messages, {octets} octets")?;
            say!(
                "secrets.key of the data folder (or the file of --secrets-key-file) is not part of \
                 it: keep a copy elsewhere; without it secrets of relays, apps and computers are lost"
            )?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
