//! `gatepost demo`: the whole product on this machine, without set-up or network.
//!
//! Plays a story of seven acts ([`acts`]) on one running server, then sends every fixture and
//! prints three lines of totals. With `--all` it prints a table of the fixtures and all their
//! events instead. Nothing is faked: store, DNS, SMTP, API and webhooks are real ([`stage`]).

mod acts;
mod curl;
mod fixtures;
mod stage;
mod story;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Args;

use self::fixtures::Performance;
use self::stage::Stage;
use super::paint::Paint;
use super::{Failure, say};
use crate::telemetry;

/// Show everything on this machine, with no set-up and no network
#[derive(Args, Debug)]
pub(super) struct Demo {
    /// Show every message of fixtures/mail with its reply, and all events, instead of the story
    #[arg(long)]
    all: bool,
    /// Exit at the end, on a terminal too; fails if anything differed from the expected
    #[arg(long)]
    once: bool,
    /// Keep the server until Ctrl-C and print curl lines for it, without a terminal too
    #[arg(long, conflicts_with = "once")]
    stay: bool,
}

impl Demo {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        telemetry::quiet();
        let Shown { stage, others, went_well } = tokio::select! {
            shown = self.show() => shown?,
            // Dropping the future removes everything, temporary folders included.
            _ = tokio::signal::ctrl_c() => return Ok(ExitCode::FAILURE),
        };
        for stage in others {
            stage.stop().await;
        }
        if self.once {
            say!("\nThe server stops now, because --once was given.")?;
        } else if self.stay || std::io::stdout().is_terminal() {
            curl::print_commands(&stage)?;
            tokio::signal::ctrl_c().await?;
        } else {
            say!(
                "\nThe server stops now, because standard output is not a terminal. Run\n\
                 `gatepost demo --stay` to keep it, and to get curl lines for it."
            )?;
        }
        stage.stop().await;
        Ok(if went_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn show(&self) -> Result<Shown, Failure> {
        if self.all { show_table().await } else { show_story().await }
    }
}

/// The servers that still run after the show.
struct Shown {
    /// Stays until Ctrl-C.
    stage: Stage,
    others: Vec<Stage>,
    went_well: bool,
}

/// The acts, then all fixtures in three lines.
async fn show_story() -> Result<Shown, Failure> {
    let paint = Paint::for_output();
    let stage = Stage::start(&[]).await?;
    let mut went_well = true;
    for (number, act) in (1..).zip(&acts::ACTS) {
        went_well &= story::play(&stage, number, act, paint).await?;
    }
    say!("\n{}", paint.bold("Every message of fixtures/mail, sent to servers of their own"))?;
    let performance = Performance::of_all(fixtures::print_differing).await?;
    went_well &= performance.print_totals().await?;
    Ok(Shown { stage, others: performance.into_stages(), went_well })
}

/// All fixtures with their replies, then their events.
async fn show_table() -> Result<Shown, Failure> {
    say!("Sending every message of fixtures/mail over SMTP\n")?;
    let performance = Performance::of_all(fixtures::print_table).await?;
    say!("\nEvents, as the webhook receiver got them:\n")?;
    let went_well = performance.print_events().await?;
    let mut stages = performance.into_stages().into_iter();
    let stage = stages.next().ok_or("there are no fixtures")?;
    Ok(Shown { stage, others: stages.collect(), went_well })
}
