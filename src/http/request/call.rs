//! An authorised request, as handlers get it: a [`Call`] with a key, or a [`Visit`] by a signed link.
//! `perform` and `linked` make them, and nothing else does.

use std::fmt;

use axum::http::header::{HeaderName, HeaderValue};

use crate::app::access::identity::Level;
use crate::app::access::need::{Need, TargetType};
use crate::app::access::{Caller, Denied, Target};
use crate::app::agents::Agents;
use crate::app::apps::Apps;
use crate::app::computers::Computers;
use crate::app::delivery::Destinations;
use crate::app::intake::reception::Reception;
use crate::app::mailbox::erasure::Erasures;
use crate::app::relay::Relays;
use crate::app::tenancy::Tenancy;
use crate::domain::account::{Account, AccountType};
use crate::domain::audit::Actor;
use crate::domain::id::{AccountId, MessageId};
use crate::domain::scope::Scope;
use crate::http::answer::range::Conditions;
use crate::http::error::Problem;
use crate::http::limits::downloads::Reader;
use crate::http::limits::turns::{Place, Turn};
use crate::http::request::body::Fields;
use crate::http::request::query::Query;
use crate::http::state::Http;

/// The type of a stream of events (HTML, "Server-sent events").
pub(in crate::http) const STREAM: &str = "text/event-stream";
pub(in crate::http) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// An authorised request: who asks, what it acts on, and what was sent.
#[derive(Debug)]
pub struct Call {
    pub(in crate::http) caller: Caller,
    pub(in crate::http) actor: Actor,
    pub(in crate::http) target: Target,
    pub(in crate::http) path: Vec<(String, String)>,
    pub(in crate::http) query: Query,
    pub(in crate::http) body: Fields,
    pub(in crate::http) again: Again,
    pub(in crate::http) accept: Option<HeaderValue>,
    pub(in crate::http) last_event_id: Option<HeaderValue>,
    pub(in crate::http) conditions: Conditions,
}

/// What it takes to ask again who is calling and what it may.
#[derive(Clone)]
pub(in crate::http) struct Again {
    pub(in crate::http) token: String,
    pub(in crate::http) named: Option<AccountId>,
    pub(in crate::http) need: Need,
}

impl Again {
    /// As at the beginning of the request.
    pub(in crate::http) async fn ask(&self, http: &Http) -> Result<(Caller, Target), Denied> {
        let access = &http.use_cases.followers;
        let caller = access.caller(Some(&self.token)).await?;
        let target = access.target(&caller, self.named, self.need).await?;
        Ok((caller, target))
    }
}

impl fmt::Debug for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Again")
    }
}

impl Call {
    /// Who is asking.
    pub(in crate::http) const fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The use cases over accounts, done by the caller.
    pub(in crate::http) fn tenancy(&self, http: &Http) -> Tenancy {
        http.use_cases.tenancy.by(&self.actor)
    }

    /// The use cases over destinations, done by the caller.
    pub(in crate::http) fn destinations(&self, http: &Http) -> Destinations {
        http.use_cases.destinations.by(&self.actor)
    }

    /// What takes in what platforms hand in, for the caller.
    pub(in crate::http) fn reception(&self, http: &Http) -> Reception {
        http.use_cases.reception.by(&self.actor)
    }

    /// What erases, for the caller.
    pub(in crate::http) fn erasures(&self, http: &Http) -> Erasures {
        http.use_cases.erasures.by(&self.actor)
    }

    /// The use cases over relays, done by the caller.
    pub(in crate::http) fn relays(&self, http: &Http) -> Relays {
        http.use_cases.relays.by(&self.actor)
    }

    /// The use cases over the configuration of Agents, done by the caller.
    pub(in crate::http) fn agents(&self, http: &Http) -> Agents {
        http.use_cases.agents.by(&self.actor)
    }

    /// The use cases over apps, integrations and features, done by the caller.
    pub(in crate::http) fn apps(&self, http: &Http) -> Apps {
        http.use_cases.apps.by(&self.actor)
    }

    /// The use cases over computer Agents, done by the caller.
    pub(in crate::http) fn computers(&self, http: &Http) -> Computers {
        http.use_cases.computers.by(&self.actor)
    }

    /// For whoever answers for longer than a moment.
    pub(in crate::http) fn again(&self) -> Again {
        self.again.clone()
    }

    /// Whether the answer should be a stream of events.
    pub(in crate::http) fn wants_stream(&self) -> bool {
        let accept = self.accept.as_ref().and_then(|value| value.to_str().ok());
        let is_stream =
            |kind: &str| kind.split(';').next().is_some_and(|kind| kind.trim() == STREAM);
        accept.is_some_and(|accept| accept.split(',').any(is_stream))
    }

    /// The event that a client of a stream saw last: it sends that with the URL of its first request.
    pub(in crate::http) fn last_event_id(&self) -> Option<&str> {
        self.last_event_id.as_ref().map(|value| value.to_str().unwrap_or("?"))
    }

    /// Which part of a file it is after.
    pub(in crate::http) const fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// What the request acts on, and the scope that goes with it.
    pub(in crate::http) const fn target(&self) -> &Target {
        &self.target
    }

    /// The account that the request acts on.
    pub(in crate::http) const fn account(&self) -> &Account {
        &self.target.account
    }

    pub(in crate::http) const fn query(&self) -> &Query {
        &self.query
    }

    pub(in crate::http) const fn body(&self) -> &Fields {
        &self.body
    }

    /// The place of this request among those that hold a message: that of its body, if that is
    /// large, or one that is waited for.
    pub(in crate::http) async fn place(&mut self, http: &Http) -> Result<Place, Problem> {
        match self.body.place.take() {
            Some(place) => Ok(place),
            None => http.uploads.place(self.caller.key.id).await,
        }
    }

    /// Who takes a place for an answer that is held in memory whole.
    pub(in crate::http) const fn reader(&self) -> Reader {
        Reader::Key(self.caller.key.id, self.caller.account.id)
    }

    /// The turn of its key among requests for the log: 429 while another one is answered.
    pub(in crate::http) fn turn_at_logs(&self, http: &Http) -> Result<Turn, Problem> {
        http.logs.turn(self.caller.key.id)
    }

    /// All segments of the path that have a name.
    pub(in crate::http) fn segments(&self) -> &[(String, String)] {
        &self.path
    }

    /// A segment of the path, decoded; empty where the operation's path has none of this name.
    pub(in crate::http) fn path(&self, name: &str) -> &str {
        let found = self.path.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, text)| text.as_str())
    }

    /// An account named beside the target, which is to be deleted: one below it.
    pub(in crate::http) async fn below(
        &self,
        http: &Http,
        id: AccountId,
    ) -> Result<Account, Problem> {
        let access = &http.use_cases.access;
        let need = Need::write(TargetType::Any).administrators();
        let found = access.target(&self.caller, Some(id), need).await?.account;
        let target = &self.target.account;
        if found.id == target.id || found.lineage.at(target.kind) != Some(target.id) {
            return Err(Denied::OutOfScope.into());
        }
        Ok(found)
    }

    /// Whether the caller manages this reseller or partner, whose right it is to decide.
    pub(in crate::http) async fn manages(&self, http: &Http, id: AccountId) -> Result<(), Problem> {
        let need = Need::write(TargetType::Provider).administrators();
        let need = need.at_least(Level::ResellerAdmin);
        http.use_cases.access.target(&self.caller, Some(id), need).await?;
        Ok(())
    }

    /// The scope of an Agent named beside the target: one answer, whether it is out of reach or not
    /// there.
    pub(in crate::http) async fn agent_within(
        &self,
        http: &Http,
        field: &str,
        id: AccountId,
    ) -> Result<Scope, Problem> {
        self.agent_in(http, field, id).await.map(|found| found.scope)
    }

    /// The Agent itself, named by this field.
    pub(in crate::http) async fn agent_named(
        &self,
        http: &Http,
        field: &str,
        id: AccountId,
    ) -> Result<Account, Problem> {
        self.agent_in(http, field, id).await.map(|found| found.account)
    }

    /// An Agent of the target's organization that the caller reaches, too: one answer for all others.
    pub(in crate::http) async fn neighbour(
        &self,
        http: &Http,
        id: AccountId,
    ) -> Result<(), Problem> {
        let need = Need::read(TargetType::Level(AccountType::Agent));
        let found = http.use_cases.access.target(&self.caller, Some(id), need).await?.account;
        let of = |account: &Account| account.lineage.organization;
        if of(&found) == of(self.account()) { Ok(()) } else { Err(Denied::OutOfScope.into()) }
    }

    async fn agent_in(&self, http: &Http, field: &str, id: AccountId) -> Result<Target, Problem> {
        let access = &http.use_cases.access;
        let found = access.target(&self.caller, Some(id), Need::read(TargetType::Any)).await?;
        let level = self.target.account.kind;
        if found.account.lineage.at(level) != Some(self.target.account.id) {
            // As of one that is out of the key's reach: of what is there nothing is told.
            return Err(Denied::OutOfScope.into());
        }
        if found.account.kind != AccountType::Agent {
            let detail = format!("{field} must be the id of an Agent (type \"account\")");
            return Err(Problem::invalid(detail));
        }
        Ok(found)
    }
}

/// A request that a link has opened: all that a handler sees.
#[derive(Debug)]
pub struct Visit {
    /// The message that the link leads to.
    pub(in crate::http) message: MessageId,
    /// The scope of its Agent: that much may be read.
    pub(in crate::http) scope: Scope,
    /// The segment of the path that names a part; empty for an original.
    pub(in crate::http) filename: String,
    pub(in crate::http) reader: Reader,
    pub(in crate::http) query: Query,
    pub(in crate::http) conditions: Conditions,
}
