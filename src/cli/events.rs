//! `gatepost events`: shows and follows the log of events.

mod about;

use std::future::pending;
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tokio::io::Interest;
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

pub(super) use self::about::about;
use super::account_name::AccountName;
use super::global_args::GlobalArgs;
use super::when::When;
use super::{Failure, print_read, reading};
use crate::app::delivery::{Begin, Beginning, EventLog, EventLogBounds, RenderedEvent};
use crate::app::mailbox::links::Links;
use crate::app::tenancy::TenancyError;
use crate::domain::clock::Timestamp;
use crate::domain::event::EventName;
use crate::domain::id::EventId;
use crate::run;
use crate::store::EventFilter;

/// Default age of the oldest event shown.
const LATELY: Duration = Duration::from_secs(60 * 60);

/// Show events, the oldest first, and follow the log
#[derive(Args, Debug)]
#[command(after_help = "Prints events with --json as GET /events does, one a line.")]
pub(super) struct EventsArgs {
    /// The account whose events are shown, with those of all below it [default: all accounts]
    account: Option<AccountName>,
    /// Only events from then on: 10m, 3h or 2d ago, or a date [default: 1h; with --follow: now]
    #[arg(long, value_name = "WHEN")]
    since: Option<When>,
    /// Only events after this one
    #[arg(long, value_name = "EVENT", value_parser = event_id, conflicts_with = "since")]
    after: Option<EventId>,
    /// Only events of this name, like email.received; several times for several names
    #[arg(long = "event", value_name = "NAME")]
    names: Vec<EventName>,
    /// Wait for more events, until Ctrl-C
    #[arg(long)]
    follow: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("not the id of an event; `gatepost events` shows ids in its first column")]
struct NotEventId;

fn event_id(text: &str) -> Result<EventId, NotEventId> {
    text.parse().map_err(|_| NotEventId)
}

impl EventsArgs {
    pub(super) async fn run(self, global: &GlobalArgs) -> Result<ExitCode, Failure> {
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            shown = self.show(global) => shown?,
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Prints the log to its end (with `--follow`, forever), or until the reader of the output is
    /// gone.
    async fn show(&self, global: &GlobalArgs) -> Result<(), Failure> {
        let clock = run::system_mint().clock().clone();
        let (begin, since) = self.beginning(clock.now())?;
        let (store, rules) = (global.open().await?, global.rules()?);
        let access = Arc::new(rules.access);
        let scope = reading::scope(global, &store, self.account.as_ref()).await?;
        let links = Links::open(&store, clock, &access).await?;
        let links = links.at(global.options()?.public_url()?.as_ref());
        let log = EventLog::new(store.clone(), Arc::clone(&access), rules.webhooks.payload, links);
        // Gives places to a backlog: there may be no server that does.
        tokio::spawn(log.clone().run(pending()));
        let names = (!self.names.is_empty()).then(|| self.names.clone());
        let filter = EventFilter { names, since };
        let pause = access.events.poll();
        let mut after = loop {
            match log.begin(&scope, begin).await? {
                Beginning::At(position) => break position,
                Beginning::Later => sleep(pause).await,
                Beginning::Unknown => return Err(NO_EVENT.into()),
            }
        };
        let octets = access.limits.max_page_bytes;
        let bounds = EventLogBounds { events: access.limits.page_step, octets };
        loop {
            // Nothing more comes of an account that was deleted.
            let is_there = store.account(scope.root()).await?.is_some();
            // Gives places to the events committed by now, up to a bound; they are read below.
            let known = log.begin(&scope, Begin::Now).await?;
            let is_behind = log.is_behind();
            loop {
                let part = log.read(&scope, &filter, after, bounds).await?;
                for event in &part.events {
                    if !print(global, event)? {
                        return Ok(());
                    }
                }
                after = part.through;
                if !part.more {
                    break;
                }
            }
            if !self.follow && !is_behind {
                return Ok(());
            }
            if !is_there {
                return Err(TenancyError::NoAccount(scope.root()).into());
            }
            if let Beginning::At(known) = known {
                after = after.max(known);
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = reader_gone() => return Ok(()),
            }
        }
    }

    /// The place where the log begins, and the time of the oldest event shown.
    fn beginning(&self, now: Timestamp) -> Result<(Begin, Option<Timestamp>), Failure> {
        let since = self.since.map(|when| when.before(now));
        if since.is_some_and(|since| since > now) {
            return Err("--since lies in the future: give a time in the past".into());
        }
        Ok(match (self.after, since) {
            (Some(event), _) => (Begin::After(event), None),
            (None, None) if self.follow => (Begin::Now, None),
            (None, since) => {
                let since = since.unwrap_or_else(|| now.minus(LATELY));
                (Begin::Since(since), Some(since))
            }
        })
    }
}

const NO_EVENT: &str = "--after: unknown or expired event of this account: leave --after out, or \
                        give --since";

/// The places of the account that an event is about.
const ACCOUNT: &[&str] = &[
    "/targetAccountId",
    "/data/accountId",
    "/data/account/id",
    "/data/message/to",
    "/data/member/accountId",
    "/data/contact/organizationId",
];

/// Ends once nobody reads the output any more: `| grep -m1` waits for this command. Waits forever
/// where the system does not tell, as of a file.
async fn reader_gone() {
    let output = std::io::stdout().as_fd().try_clone_to_owned();
    // Only watched: the mode of the pipe stays as it is.
    let output = output.and_then(pipe::Sender::from_owned_fd_unchecked);
    if let Ok(output) = output
        && output.ready(Interest::ERROR).await.is_ok_and(|ready| ready.is_error())
    {
        return;
    }
    pending().await
}

/// Prints an event. Returns false if the reader of the output is gone.
fn print(global: &GlobalArgs, event: &RenderedEvent) -> Result<bool, Failure> {
    if global.json {
        return print_read(&[&event.body[..], b"\n"].concat());
    }
    let body: Value = serde_json::from_slice(&event.body)?;
    let account = ACCOUNT.iter().find_map(|place| body.pointer(place)?.as_i64());
    let account = account.map_or_else(|| "-".to_owned(), |account| account.to_string());
    let (id, date, name) = (event.id, reading::text(&body, "/timestamp"), event.name);
    print_read(format!("{id}  {date}  {account}  {name}  {}\n", about(&body)).as_bytes())
}
