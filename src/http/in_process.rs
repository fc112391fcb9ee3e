//! Requests that a page of the console, a tool of MCP, or an adapter's post makes to the API, in this
//! process. They take the steps of a request with a key, from the authenticated caller on: so none
//! of these has a right of its own, and input is checked once. [`shapes`] reads the answers.

pub(crate) mod shapes;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use axum::http::{Request, Uri};
use axum::response::Response;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::form_urlencoded::Serializer;

use crate::app::access::need::Need;
use crate::app::access::{Caller, Credential, Denied, Target};
use crate::app::delivery::Waiting;
use crate::domain::audit::Actor;
use crate::domain::id::AccountId;
use crate::http::answer::file;
use crate::http::error::{Code, Problem};
use crate::http::limits::downloads::{DownloadPlace, Reader};
use crate::http::operation::MatchedRequest;
use crate::http::passage::idempotency::{IDEMPOTENCY_KEY, IDEMPOTENCY_REPLAYED};
use crate::http::passage::observe::Trace;
use crate::http::passage::perform::{self, Client};
use crate::http::request::target::TARGET;
use crate::http::state::Http;
use crate::http::table::OPERATIONS;
use crate::http::verb::names;

/// An authenticated client that makes requests in this process.
#[derive(Clone)]
pub(crate) struct InProcess {
    http: Arc<Http>,
    pub(crate) caller: Caller,
    actor: Actor,
    credential: Credential,
}

/// A place among the downloads, for a page that shows texts of messages, or a tool that hands over a
/// file: it is held in memory as an answer of the API and once more, and a client may be slow to take
/// it.
pub(crate) struct PagePlace(DownloadPlace);

impl PagePlace {
    /// The page, which holds the place until it is sent.
    pub(crate) fn answer(self, text: String) -> Response {
        file::large("text/html; charset=utf-8", text, self.0)
    }

    /// Makes an answer, which is in memory whole, hold the place until it is sent.
    pub(crate) async fn hold(self, answer: Response) -> Result<Response, Problem> {
        let (mut parts, body) = answer.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.map_err(Problem::internal)?;
        parts.headers.insert(CONTENT_LENGTH, bytes.len().into());
        Ok(Response::from_parts(parts, file::held(bytes, self.0)))
    }
}

/// A request of one operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    operation: &'static str,
    segments: Vec<String>,
    query: Vec<(String, String)>,
    body: Option<Bytes>,
    once: Option<String>,
}

impl Asked {
    /// A request of the operation with this id (`listWebhooks`).
    pub(crate) fn of(operation: &'static str) -> Self {
        Self { operation, ..Self::default() }
    }

    /// Adds the next segment of the path that varies.
    #[must_use]
    pub(crate) fn at(mut self, segment: impl ToString) -> Self {
        self.segments.push(segment.to_string());
        self
    }

    /// Adds a parameter; an empty value adds none.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl ToString) -> Self {
        let value = value.to_string();
        if !value.is_empty() {
            self.query.push((name.to_owned(), value));
        }
        self
    }

    /// Acts on this account.
    #[must_use]
    pub(crate) fn on(self, account: i64) -> Self {
        self.with(TARGET, account)
    }

    #[must_use]
    pub(crate) fn sends(self, body: Value) -> Self {
        self.sends_octets(body.to_string().into())
    }

    /// Sends JSON as somebody wrote it, which is read as strictly as that of a client.
    #[must_use]
    pub(crate) fn sends_octets(self, body: Bytes) -> Self {
        Self { body: Some(body), ..self }
    }

    /// Carries a creation out once, however often a form with this name is sent.
    #[must_use]
    pub(crate) fn once(self, name: &str) -> Self {
        Self { once: (!name.is_empty()).then(|| name.to_owned()), ..self }
    }
}

impl InProcess {
    /// A client that this credential authenticated; `from` is its address.
    pub(crate) fn new(
        http: Arc<Http>,
        caller: Caller,
        credential: Credential,
        from: IpAddr,
        trace: &Trace,
    ) -> Self {
        trace.set_caller(caller.account.id);
        let actor = Actor { remote: Some(from), request: Some(trace.request()), ..caller.actor() };
        Self { http, caller, actor, credential }
    }

    /// Authorises and performs the request.
    pub(crate) async fn perform(&self, asked: Asked) -> Result<Response, Problem> {
        let operation = OPERATIONS.iter().find(|known| known.id == asked.operation);
        // No page and no tool hands a secret out (threats S6).
        let operation = operation.filter(|known| !known.need.worker);
        let operation = operation.ok_or_else(|| {
            Problem::internal(format!("this process asks for {}: no operation", asked.operation))
        })?;
        let named = names(operation.path).map(str::to_owned).zip(asked.segments);
        let query = Serializer::new(String::new()).extend_pairs(&asked.query).finish();
        let uri = Uri::try_from(format!("{}?{query}", operation.path.replace(['{', '}'], "")));
        let uri = uri.map_err(|_| Problem::invalid("a field is too long: shorten it"))?;
        let mut request = Request::builder().uri(uri);
        if let Some(name) = &asked.once {
            request = request.header(IDEMPOTENCY_KEY, name);
        }
        let body = asked.body.map_or_else(Body::empty, Body::from);
        let request = request
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(body)
            .map_err(Problem::invalid)?;
        let (parts, body) = request.into_parts();
        let segments = Some(named.collect());
        let request = MatchedRequest { operation, segments, parts, body };
        let Self { http, caller, actor, credential } = self.clone();
        perform::perform_for(http, request, Client { caller, actor, credential }).await
    }

    pub(crate) const fn actor(&self) -> &Actor {
        &self.actor
    }

    /// Authenticates the client again after a wait: from then on it has the rights that its caller
    /// has now.
    pub(crate) async fn authenticate_again(&mut self) -> Result<(), Denied> {
        self.caller = self.http.use_cases.access.authenticate(&self.credential).await?;
        Ok(())
    }

    /// Authorises something that is no operation, on an account or a member. The audit log counts a
    /// refusal under `name`.
    pub(crate) async fn target(&self, id: i64, need: Need, name: &str) -> Result<Target, Problem> {
        let id = AccountId::new(id).ok_or(Denied::OutOfScope)?;
        let target = self.http.use_cases.access.target(&self.caller, Some(id), need).await;
        let target = target.map_err(Problem::from);
        if target.as_ref().is_err_and(|problem| problem.code == Code::Forbidden) {
            self.http.use_cases.audit.denied(&self.actor, name);
        }
        target
    }

    /// A place among the readers of the event log, which bounds those who follow anything. `target` is
    /// the account that is followed.
    pub(crate) fn place(&self, target: &Target) -> Result<Waiting, Problem> {
        let (key, account) = (self.caller.key.id, self.caller.account.id);
        Ok(self.http.use_cases.events.wait(key, account, &target.scope)?)
    }

    /// Waits for a place for a large page. Fails with 429 if the key or its account has its share.
    pub(crate) async fn page_place(&self) -> Result<PagePlace, Problem> {
        let reader = Reader::Key(self.caller.key.id, self.caller.account.id);
        self.http.downloads.place(reader).await.map(PagePlace)
    }

    /// Performs the request, and reads the answer, which is JSON.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, asked: Asked) -> Result<T, Problem> {
        self.ask_once(asked).await.map(|(_, answer)| answer)
    }

    /// Like [`Self::ask`], and says whether the answer is that of an earlier request of the same
    /// name.
    pub(crate) async fn ask_once<T: DeserializeOwned>(
        &self,
        asked: Asked,
    ) -> Result<(bool, T), Problem> {
        let answer = self.perform(asked).await?;
        let is_earlier = answer.headers().contains_key(IDEMPOTENCY_REPLAYED);
        let text = to_bytes(answer.into_body(), usize::MAX).await.map_err(Problem::internal)?;
        Ok((is_earlier, serde_json::from_slice(&text).map_err(Problem::internal)?))
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcess")
    }
}
