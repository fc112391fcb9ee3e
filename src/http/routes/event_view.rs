//! The requested part of the log of events, and the part allowed at the moment.

use std::sync::Arc;

use crate::app::access::{Caller, Denied, Target};
use crate::domain::clock::Timestamp;
use crate::domain::event::{Category, EventName};
use crate::domain::scope::Scope;
use crate::http::error::Problem;
use crate::http::request::call::{AccessCheck, Call};
use crate::http::state::Http;
use crate::store::EventFilter;

/// The part of the log that a request may see now.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct View {
    pub(super) scope: Scope,
    pub(super) filter: EventFilter,
}

/// The requested events, allowed or not.
#[derive(Clone, Debug)]
pub(super) struct WantedEvents {
    category: Option<Category>,
    name: Option<EventName>,
    filter: EventFilter,
}

impl WantedEvents {
    pub(super) fn of(
        category: Option<Category>,
        name: Option<EventName>,
        since: Option<Timestamp>,
    ) -> Result<Self, Problem> {
        if let (Some(category), Some(name)) = (category, name)
            && name.category() != category
        {
            let (event, own) = (name.as_str(), name.category().as_str());
            let detail = format!("event {event} is of type {own}: send that type, or none");
            return Err(Problem::invalid(detail));
        }
        let filter = EventFilter { since, ..EventFilter::ALL };
        Ok(Self { category, name, filter })
    }

    /// The part that this caller may see of this target: events about accounts and members are for
    /// administrators.
    fn view(&self, caller: &Caller, target: Target) -> Result<View, Denied> {
        let hidden = |name: &EventName| {
            name.category() == Category::Onboarding && !caller.is_administrator()
        };
        let asks_for_hidden = self.category == Some(Category::Onboarding)
            || self.name.is_some_and(|name| name.category() == Category::Onboarding);
        if asks_for_hidden && !caller.is_administrator() {
            return Err(Denied::NotAdministrator);
        }
        let is_wanted = |name: &&EventName| {
            self.category.is_none_or(|category| name.category() == category)
                && self.name.is_none_or(|wanted| wanted == **name)
                && !hidden(name)
        };
        let names: Vec<EventName> = EventName::ALL.iter().filter(is_wanted).copied().collect();
        let names = (names.len() < EventName::ALL.len()).then_some(names);
        Ok(View { scope: target.scope, filter: EventFilter { names, ..self.filter.clone() } })
    }
}

/// The events that a waiting or streaming request follows.
pub(super) struct FollowedEvents {
    pub(super) http: Arc<Http>,
    access_check: AccessCheck,
    wanted: WantedEvents,
    pub(super) view: View,
}

impl FollowedEvents {
    /// Fails unless the caller may see the wanted events.
    pub(super) fn of(call: &Call, wanted: WantedEvents) -> Result<Self, Denied> {
        let view = wanted.view(&call.caller, call.target.clone())?;
        let (http, access_check) = (Arc::clone(&call.http), call.access_check.clone());
        Ok(Self { http, access_check, wanted, view })
    }

    /// Computes the view again, with the current rights.
    pub(super) async fn current_view(&self) -> Result<View, Denied> {
        let (caller, target) = self.access_check.repeat(&self.http).await?;
        self.wanted.view(&caller, target)
    }
}
