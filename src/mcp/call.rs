//! A call of a tool: the caller's requests of the API, the bounds of arguments, and the result.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolResult, ContentBlock, JsonObject, ProgressNotificationParam, ProgressToken,
};
use rmcp::{Peer, RoleServer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

use super::fence::Fence;
use crate::domain::account::AccountType;
use crate::domain::fault::{Fault, sentence};
use crate::http::Http;
use crate::http::error::Problem;
use crate::http::in_process::{Asked, InProcess, PagePlace};

/// An authenticated call.
pub(super) struct Call {
    pub(super) http: Arc<Http>,
    /// Makes requests of operations, as the caller of the key.
    pub(super) api: InProcess,
    /// Whether tools may change anything: the operator or the key lets them.
    pub(super) changes: bool,
    pub(super) fence: Fence,
    pub(super) held: Held,
    /// When the connection is dropped at the latest.
    pub(super) end: Option<Instant>,
    pub(super) progress: Option<Progress>,
}

impl Call {
    /// The id of the caller's account, which everything in reach lies below.
    pub(super) fn home(&self) -> i64 {
        self.api.caller.account.id.get()
    }

    /// A request of this operation on an inbox, or on all in reach.
    pub(super) fn on(&self, operation: &'static str, inbox: Option<i64>) -> Asked {
        Asked::of(operation).on(inbox.unwrap_or_else(|| self.home()))
    }

    /// How many rows a page may have: a number between 1 and `most`, or `usual`. The operator may
    /// have lowered the most.
    pub(super) fn rows(&self, sent: Option<u32>, usual: u32, most: u32) -> Result<u32, Problem> {
        let rows = within("limit", sent, usual, most)?;
        Ok(rows.min(self.http.rules.limits.max_page))
    }

    /// The inbox of a tool that acts on one: without a name, that of the key.
    pub(super) fn one_inbox(&self, named: Option<i64>) -> Result<i64, Problem> {
        let own = || (self.api.caller.account.kind == AccountType::Agent).then(|| self.home());
        named.or_else(own).ok_or_else(|| {
            Problem::invalid("this key reaches several inboxes: send inbox, from list_inboxes")
        })
    }
}

/// The place among the downloads that the answer to a request holds, if it hands over a file.
#[derive(Clone, Default)]
pub(super) struct Held(Arc<Mutex<Option<PagePlace>>>);

impl Held {
    pub(super) fn put(&self, place: PagePlace) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
    }

    pub(super) fn take(&self) -> Option<PagePlace> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Where a client wants to hear how far a call is.
pub(super) struct Progress {
    pub(super) token: ProgressToken,
    pub(super) peer: Peer<RoleServer>,
}

impl Progress {
    /// Tells the client. It may be gone: then the call is cancelled elsewhere.
    pub(super) async fn tell(&self, done: Duration, total: Duration, words: &str) {
        let told = ProgressNotificationParam::new(self.token.clone(), done.as_secs_f64().round())
            .with_total(total.as_secs_f64())
            .with_message(words);
        let _gone = self.peer.notify_progress(told).await;
    }
}

/// The result of a tool: text for a model, files, and the same as JSON.
pub(super) struct Answer<T> {
    pub(super) text: String,
    pub(super) files: Vec<ContentBlock>,
    pub(super) structured: T,
}

impl<T> Answer<T> {
    pub(super) fn of(text: String, structured: T) -> Self {
        Self { text, files: Vec::new(), structured }
    }
}

impl<T: Serialize> Answer<T> {
    /// A result of facts that no stranger wrote: the text is the JSON.
    pub(super) fn plain(structured: T) -> Result<Self, Problem> {
        let text = serde_json::to_string_pretty(&structured).map_err(Problem::internal)?;
        Ok(Self::of(text, structured))
    }

    pub(super) fn result(self) -> Result<CallToolResult, Problem> {
        let structured = serde_json::to_value(self.structured).map_err(Problem::internal)?;
        let mut result = CallToolResult::success(vec![ContentBlock::text(self.text)]);
        result.content.extend(self.files);
        result.structured_content = Some(structured);
        Ok(result)
    }
}

/// A refusal of the API with the names of a tool's arguments in place of its own: `names` has pairs of
/// both, the longer before one that it begins with.
pub(super) fn renamed(
    names: &'static [(&'static str, &'static str)],
) -> impl Fn(Problem) -> Problem {
    move |mut problem| {
        let argued = |fault: &Fault| {
            let own = fault.pointer.trim_start_matches('/');
            let named = names.iter().find(|(name, _)| *name == own);
            let pointer = named.map_or(own, |(_, argument)| argument).to_owned();
            Fault { pointer, detail: fault.detail.clone() }
        };
        let faults: Vec<Fault> = problem.faults.iter().map(argued).collect();
        if !faults.is_empty() {
            problem.detail = sentence(&faults);
        }
        // Names of two words are no words of a sentence.
        for (own, argument) in names.iter().filter(|(own, _)| own.contains(char::is_uppercase)) {
            problem.detail = problem.detail.replace(own, argument);
        }
        problem
    }
}

/// Reads the arguments of a call. An argument that the tool does not have is refused by name.
pub(super) fn arguments<T: DeserializeOwned>(sent: JsonObject) -> Result<T, Problem> {
    serde_json::from_value(Value::Object(sent))
        .map_err(|error| Problem::invalid(format!("the arguments are refused: {error}")))
}

/// A number between 1 and `most`, or `usual`.
pub(super) fn within(name: &str, sent: Option<u32>, usual: u32, most: u32) -> Result<u32, Problem> {
    let number = sent.unwrap_or(usual);
    if (1..=most).contains(&number) {
        return Ok(number);
    }
    Err(Problem::invalid(format!("{name} must be a whole number from 1 to {most}")))
}
