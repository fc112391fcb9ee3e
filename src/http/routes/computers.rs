//! `/computer/accounts`: the computers of Agents. The path has the target.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::computers::WrittenFields;
use crate::domain::computer::{Computer as Record, ComputerState};
use crate::domain::id::AccountId;
use crate::domain::words::words;
use crate::http::routes::computer_config::{Config, revision};
use crate::http::typed::{Call, Either, Limit, Problem, WithHeaders, page, successes};
use crate::wire::{Date, Id, Named, Number, Word, sent};

/// The record of an Agent's worker.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Computer {
    /// The Agent.
    account_id: Number,
    /// Its name, for people.
    #[schemars(example = &"Mail desk")]
    name: Option<String>,
    /// Its state now.
    #[schemars(example = &"provisioned")]
    state: Word<ComputerState>,
    /// When the record was created.
    created_at: Date,
    /// When the record last changed.
    updated_at: Date,
    /// Grows with each change of its configuration, and only then.
    #[schemars(range(min = 0))]
    revision: i64,
    /// The job that led to its state; null before the first one.
    job: Option<Job>,
}

/// A change of the state of a computer.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ComputerJob")]
struct Job {
    /// The id of the job.
    id: Id,
    /// The type of the job.
    r#type: Word<JobType>,
    /// Always succeeded: a job ends at once.
    #[schemars(extend("const" = "succeeded"))]
    status: &'static str,
    /// When it ended.
    finished_at: Date,
}

words! { JobType { Provision = "provision", Deprovision = "deprovision", } }

/// Lists the computers of all Agents in scope
#[derive(Debug, Deserialize, JsonSchema)]
pub struct List {
    limit: Option<Limit>,
    /// Only computers of Agents after this one: `next`, or the id of an Agent.
    after: Option<Named<AccountId>>,
}

pub async fn list(call: Call, request: List) -> Result<WithHeaders<Listed>, Problem> {
    let limit = page::limit(&call, request.limit);
    let (scope, after) = (&call.target.scope, request.after.map(|Named(id)| id));
    let (found, more) = call.computers().list(scope, after, limit).await?;
    let next = found.last().filter(|_| more).map(|last| last.agent);
    let accounts = found.iter().map(shape).collect();
    let listed = Listed { accounts, next: next.map(Number::from) };
    Ok(page::followed(&call, "after", next, listed))
}

/// Shows the computer of an Agent
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Show {}

pub async fn show(call: Call, _: Show) -> Result<ComputerAnswer, Problem> {
    let found = call.computers().show(call.account().id).await?;
    Ok(ComputerAnswer { account: shape(&found) })
}

/// Creates the record of an Agent's computer
///
/// Nothing is provisioned yet.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Create {
    /// Its name, for people; null for none.
    #[schemars(example = &"Mail desk", extend("x-null" = true))]
    name: Option<String>,
    config: Option<Config>,
}

pub async fn create(call: Call, request: Create) -> Result<Created, Problem> {
    let config = request.config.map(|Config(config)| config);
    let written = WrittenFields { name: Some(request.name), config };
    let made = call.computers().create(call.account(), written).await?;
    Ok(Created(ComputerAnswer { account: shape(&made) }))
}

/// Changes the record of an Agent's computer
///
/// Fields that are not sent stay; a configuration replaces the previous one as a whole.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
pub struct Update {
    /// Its name, for people; null removes the name.
    #[serde(default, deserialize_with = "sent")]
    #[schemars(example = &"Mail desk", extend("x-null" = true))]
    name: Option<Option<String>>,
    config: Option<Config>,
    /// The revision that the configuration must have; without it, any.
    revision: Option<u64>,
}

pub async fn update(call: Call, request: Update) -> Result<Updated, Problem> {
    let written =
        WrittenFields { name: request.name, config: request.config.map(|Config(config)| config) };
    let revision = request.revision.map(revision);
    let new = call.computers().update(call.account().id, revision, written).await?;
    Ok(Updated(ComputerAnswer { account: shape(&new) }))
}

/// Removes the record of an Agent's computer
///
/// With its configuration, even while the computer is provisioned.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 0))]
pub struct Remove {}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Removed {}

pub async fn remove(call: Call, _: Remove) -> Result<Removed, Problem> {
    call.computers().remove(call.account().id).await?;
    Ok(Removed {})
}

/// Shows that an Agent's computer is provisioned
///
/// 404 if it is not.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Status {}

pub async fn status(call: Call, _: Status) -> Result<Lifecycle, Problem> {
    Ok(lifecycle(&call.computers().provisioned(call.account().id).await?))
}

/// Provisions an Agent's computer
///
/// Makes its record if there is none.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Provision {}

pub async fn provision(
    call: Call,
    _: Provision,
) -> Result<Either<Provisioned, ProvisionedBefore>, Problem> {
    let (computer, has_changed) = call.computers().provision(call.account()).await?;
    let shown = lifecycle(&computer);
    Ok(match has_changed {
        true => Either::This(Provisioned(shown)),
        false => Either::That(ProvisionedBefore(shown)),
    })
}

/// Deprovisions an Agent's computer
///
/// Keeps its configuration, unless `wipeState` is true.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Deprovision {
    /// Whether its configuration is erased, too, with all secrets.
    #[schemars(example = false)]
    wipe_state: Option<bool>,
}

pub async fn deprovision(
    call: Call,
    request: Deprovision,
) -> Result<Either<Deprovisioned, DeprovisionedBefore>, Problem> {
    let (computers, wipe) = (call.computers(), request.wipe_state.unwrap_or_default());
    let (computer, has_changed) = computers.deprovision(call.account().id, wipe).await?;
    let shown = lifecycle(&computer);
    Ok(match has_changed {
        true => Either::This(Deprovisioned(shown)),
        false => Either::That(DeprovisionedBefore(shown)),
    })
}

successes! {
    Listed {
        /// Ordered by the ids of their Agents.
        accounts: Vec<Computer>,
        /// Send it as `after` to get the next page; null on the last page.
        next: Option<Number>,
    } = OK "computers found", pages;
    ComputerAnswer { account: Computer } = OK "computer found";
    Created: ComputerAnswer = CREATED "computer created";
    Updated: ComputerAnswer = OK "computer updated";
    Removed = OK "computer removed";
    Lifecycle {
        /// The Agent.
        target_account_id: Number,
        /// The state of its computer now.
        #[schemars(example = &"provisioned")]
        status: Word<ComputerState>,
        account: Computer,
        /// The job that led to its state; null before the first one.
        job: Option<Job>,
    } = OK "computer is provisioned";
    Provisioned: Lifecycle = ACCEPTED "computer is provisioned";
    ProvisionedBefore: Lifecycle = OK "computer was provisioned before";
    Deprovisioned: Lifecycle = ACCEPTED "computer is deprovisioned";
    DeprovisionedBefore: Lifecycle = OK "computer was deprovisioned before";
}

fn shape(computer: &Record) -> Computer {
    Computer {
        account_id: computer.agent.into(),
        name: computer.name.clone(),
        state: Word(computer.state),
        created_at: Date(computer.created_at),
        updated_at: Date(computer.updated_at),
        revision: computer.revision,
        job: job(computer),
    }
}

fn lifecycle(computer: &Record) -> Lifecycle {
    Lifecycle {
        target_account_id: computer.agent.into(),
        status: Word(computer.state),
        account: shape(computer),
        job: job(computer),
    }
}

fn job(computer: &Record) -> Option<Job> {
    let kind = match computer.state {
        ComputerState::Created | ComputerState::Provisioned => JobType::Provision,
        ComputerState::Deprovisioned => JobType::Deprovision,
    };
    let job = computer.job?;
    Some(Job { id: Id(job.id), r#type: Word(kind), status: "succeeded", finished_at: Date(job.at) })
}
