//! An authorised request for a handler: a [`Call`] with a key, or a [`Visit`] by a signed link.
//! Only `perform` and `linked` make them.

use std::fmt;
use std::sync::Arc;

use axum::http::header::{HeaderName, HeaderValue};

use crate::app::access::identity::Level;
use crate::app::access::need::{Need, TargetType};
use crate::app::access::{Caller, Credential, Denied, Target};
use crate::app::agents::Agents;
use crate::app::apps::Apps;
use crate::app::computers::Computers;
use crate::app::delivery::Destinations;
use crate::app::intake::reception::Reception;
use crate::app::mailbox::erasure::Erasures;
use crate::app::mailbox::outcomes::Outcomes;
use crate::app::relay::Relays;
use crate::app::tenancy::Tenancy;
use crate::domain::account::{Account, AccountType};
use crate::domain::audit::Actor;
use crate::domain::id::{AccountId, MessageId};
use crate::domain::scope::Scope;
use crate::http::answer::range::Conditions;
use crate::http::error::Problem;
use crate::http::limits::downloads::Reader;
use crate::http::limits::turns::{Turn, TurnPlace};
use crate::http::request::body::Fields;
use crate::http::request::query::Query;
use crate::http::state::Http;

/// Media type of an event stream (HTML, "Server-sent events").
pub(in crate::http) const STREAM: &str = "text/event-stream";
pub(in crate::http) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// An authorised request: the caller, the target, and the parsed input.
#[derive(Debug)]
pub struct Call {
    pub(in crate::http) http: Arc<Http>,
    pub(in crate::http) caller: Caller,
    pub(in crate::http) actor: Actor,
    pub(in crate::http) target: Target,
    pub(in crate::http) path: Vec<(String, String)>,
    /// The path as it was sent, from the base on, for links to other pages.
    pub(in crate::http) uri_path: String,
    pub(in crate::http) query: Query,
    pub(in crate::http) body: Fields,
    /// For handlers that wait or stream.
    pub(in crate::http) access_check: AccessCheck,
    pub(in crate::http) accept: Option<HeaderValue>,
    pub(in crate::http) last_event_id: Option<HeaderValue>,
    pub(in crate::http) conditions: Conditions,
}

/// The inputs needed to check caller and rights again.
#[derive(Clone)]
pub(in crate::http) struct AccessCheck {
    pub(in crate::http) credential: Credential,
    pub(in crate::http) named: Option<AccountId>,
    pub(in crate::http) need: Need,
}

impl AccessCheck {
    /// Authenticates the caller and checks the target again, as at the beginning of the request.
    pub(in crate::http) async fn repeat(&self, http: &Http) -> Result<(Caller, Target), Denied> {
        let access = &http.use_cases.followers;
        let caller = access.authenticate(&self.credential).await?;
        let target = access.target(&caller, self.named, self.need).await?;
        Ok((caller, target))
    }
}

impl fmt::Debug for AccessCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessCheck")
    }
}

/// Methods that return use cases with the caller as actor: `call.tenancy()`.
macro_rules! acting_use_cases {
    ($($name:ident: $type:ty,)+) => {
        impl Call {
            $(pub(in crate::http) fn $name(&self) -> $type {
                self.http.use_cases.$name.by(&self.actor)
            })+
        }
    };
}

acting_use_cases! {
    tenancy: Tenancy,
    destinations: Destinations,
    reception: Reception,
    erasures: Erasures,
    outcomes: Outcomes,
    relays: Relays,
    agents: Agents,
    apps: Apps,
    computers: Computers,
}

impl Call {
    /// Whether the client accepts an event stream.
    pub(in crate::http) fn wants_stream(&self) -> bool {
        let accept = self.accept.as_ref().and_then(|value| value.to_str().ok());
        let is_stream =
            |kind: &str| kind.split(';').next().is_some_and(|kind| kind.trim() == STREAM);
        accept.is_some_and(|accept| accept.split(',').any(is_stream))
    }

    /// The last event that the client saw. A stream that reconnects sends it with the URL of its
    /// first request.
    pub(in crate::http) fn last_event_id(&self) -> Option<&str> {
        self.last_event_id.as_ref().map(|value| value.to_str().unwrap_or("?"))
    }

    pub(in crate::http) const fn account(&self) -> &Account {
        &self.target.account
    }

    /// Takes over the place of the large body, or waits for one as `Turns::place` does.
    pub(in crate::http) async fn place(&mut self) -> Result<TurnPlace, Problem> {
        match self.body.place.take() {
            Some(place) => Ok(place),
            None => self.http.uploads.place(self.caller.key.id).await,
        }
    }

    pub(in crate::http) const fn reader(&self) -> Reader {
        Reader::Key(self.caller.key.id, self.caller.account.id)
    }

    /// Takes the key's turn among log requests; fails with 429 while another is under way.
    pub(in crate::http) fn turn_at_logs(&self) -> Result<Turn, Problem> {
        self.http.logs.turn(self.caller.key.id)
    }

    /// A segment of the path, decoded; empty if the path has none of this name.
    pub(in crate::http) fn path(&self, name: &str) -> &str {
        let found = self.path.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, text)| text.as_str())
    }

    /// Returns an account to delete, named beside the target. Fails unless it is below the target
    /// and in reach.
    pub(in crate::http) async fn below(&self, id: AccountId) -> Result<Account, Problem> {
        let found = self.reached(id, Need::write(TargetType::Any).administrators()).await?.account;
        let target = &self.target.account;
        if found.id == target.id || found.lineage.at(target.kind) != Some(target.id) {
            return Err(Denied::OutOfScope.into());
        }
        Ok(found)
    }

    /// Fails unless the caller manages this reseller or partner.
    pub(in crate::http) async fn manages(&self, id: AccountId) -> Result<(), Problem> {
        let need = Need::write(TargetType::Provider).administrators();
        self.reached(id, need.at_least(Level::ResellerAdmin)).await.map(drop)
    }

    /// Fails unless this is an Agent of the target's organization in the caller's reach. The error
    /// is that of an account out of reach, or 400 for one in reach that is no Agent.
    pub(in crate::http) async fn neighbour(&self, id: AccountId) -> Result<(), Problem> {
        let need = Need::read(TargetType::Level(AccountType::Agent));
        let found = self.reached(id, need).await?.account;
        let of = |account: &Account| account.lineage.organization;
        if of(&found) == of(self.account()) { Ok(()) } else { Err(Denied::OutOfScope.into()) }
    }

    /// Returns an Agent that a field names beside the target. The error is the same whether it is
    /// out of reach or missing.
    pub(in crate::http) async fn agent_named(
        &self,
        field: &str,
        id: AccountId,
    ) -> Result<Target, Problem> {
        let found = self.reached(id, Need::read(TargetType::Any)).await?;
        let level = self.target.account.kind;
        if found.account.lineage.at(level) != Some(self.target.account.id) {
            // The error of an account out of reach: it must not reveal that the account exists.
            return Err(Denied::OutOfScope.into());
        }
        if found.account.kind != AccountType::Agent {
            let detail = format!("{field} must be the id of an Agent (type \"account\")");
            return Err(Problem::invalid(detail));
        }
        Ok(found)
    }

    async fn reached(&self, id: AccountId, need: Need) -> Result<Target, Problem> {
        Ok(self.http.use_cases.access.target(&self.caller, Some(id), need).await?)
    }

    /// The request for a file of this message.
    pub(in crate::http) fn file_of(&self, message: MessageId) -> FileRequest<'_> {
        let (scope, conditions) = (&self.target.scope, &self.conditions);
        FileRequest { http: &self.http, message, scope, reader: self.reader(), conditions }
    }
}

/// A request opened by a signed link.
#[derive(Debug)]
pub struct Visit {
    pub(in crate::http) http: Arc<Http>,
    /// The message that the link opens.
    pub(in crate::http) message: MessageId,
    /// The scope of the message's Agent; nothing else can be read.
    pub(in crate::http) scope: Scope,
    /// The path segment that names a part; empty for an original.
    pub(in crate::http) filename: String,
    pub(in crate::http) reader: Reader,
    pub(in crate::http) query: Query,
    pub(in crate::http) conditions: Conditions,
}

impl Visit {
    /// The request for a file of the message that the link opens.
    pub(in crate::http) fn file(&self) -> FileRequest<'_> {
        let Self { http, message, scope, reader, conditions, .. } = self;
        FileRequest { http, message: *message, scope, reader: *reader, conditions }
    }
}

/// A request for the original of a message or for a part of it, with a key or by a signed link.
#[derive(Clone, Copy)]
pub(in crate::http) struct FileRequest<'r> {
    pub(in crate::http) http: &'r Http,
    pub(in crate::http) message: MessageId,
    pub(in crate::http) scope: &'r Scope,
    pub(in crate::http) reader: Reader,
    pub(in crate::http) conditions: &'r Conditions,
}
