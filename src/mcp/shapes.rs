//! Answers of the API as tools read them, beside those that pages of the console read, too.

use axum::body::to_bytes;
use axum::http::HeaderMap;
use axum::http::header::LINK;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::form_urlencoded;

use super::fence::lines;
use crate::http::error::Problem;
use crate::http::in_process::shapes::{Attachment, Message, Turn};
use crate::http::in_process::{Asked, InProcess};

/// A page of a list that is a bare array.
pub(super) struct Page<T> {
    pub(super) rows: Vec<T>,
    /// Send it as `before` to get the next page.
    pub(super) next: Option<String>,
}

/// Makes a request whose answer is a page.
pub(super) async fn page<T: DeserializeOwned>(
    api: &InProcess,
    asked: Asked,
) -> Result<Page<T>, Problem> {
    let answer = api.perform(asked).await?;
    let next = next(answer.headers());
    // The API bounds its pages (`limits.max_page_bytes`).
    let text = to_bytes(answer.into_body(), usize::MAX).await.map_err(Problem::internal)?;
    let rows = serde_json::from_slice(&text).map_err(Problem::internal)?;
    Ok(Page { rows, next })
}

/// The cursor of the next page in a `Link` header, as the API writes it.
fn next(headers: &HeaderMap) -> Option<String> {
    let links = headers.get(LINK)?.to_str().ok()?;
    let link = links.split(", <").find(|link| link.ends_with("rel=\"next\""))?;
    let (target, _) = link.split_once('>')?;
    let (_, query) = target.split_once('?')?;
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(name, _)| name == "before").map(|(_, value)| value.into_owned())
}

/// The proof of a sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proof<'m> {
    /// `dkim` or `arc`.
    pub(super) by: &'static str,
    /// The domain that signed, or that vouches.
    pub(super) domain: &'m str,
}

impl Message {
    /// The proof of the sender: an aligned signature, or else the trusted sealer of a chain that stands
    /// in for one.
    pub(super) fn proof(&self) -> Option<Proof<'_>> {
        let results = self.fact("authentication")?;
        if let Some(domain) = results.get("alignedDomain").and_then(Value::as_str) {
            return Some(Proof { by: "dkim", domain });
        }
        let chain = results.get("arc")?;
        let stands_in = chain.get("standsIn")?.as_bool()?;
        if !stands_in {
            return None;
        }
        Some(Proof { by: "arc", domain: chain.get("sealer")?.as_str()? })
    }

    /// The text. Behind it, or in its place where they begin with it, stand the turns of a dialog,
    /// as of a call, one a line.
    pub(super) fn text_with_dialog(&self) -> String {
        let turns = self.call_dialog.as_ref().or(self.chat_dialog.as_ref());
        let turns = turns.filter(|_| !self.is_mail() && !self.is_reply());
        let turns = turns.map(Vec::as_slice).unwrap_or_default();
        let repeats = turns.first().is_some_and(|first| first.content == self.message);
        if turns.is_empty() || turns.len() == 1 && repeats {
            return self.message.clone();
        }
        let text = Some(self.message.clone()).filter(|text| !text.is_empty() && !repeats);
        let turns = turns.iter().map(|Turn { role, content }| {
            // Further lines of a turn are no turns of their own.
            let turn = format!("{role}: {content}");
            lines(&turn).collect::<Vec<_>>().join("\n  ")
        });
        text.into_iter().chain(turns).collect::<Vec<_>>().join("\n")
    }

    /// The writer of the message: a person, or a kind of machine.
    pub(super) fn origin(&self) -> Option<&str> {
        self.fact("emailAutomation")?.get("origin")?.as_str()
    }

    pub(super) fn may_auto_reply(&self) -> Option<bool> {
        self.fact("emailAutomation")?.get("mayAutoReply")?.as_bool()
    }
}

impl Attachment {
    /// The number of the part; None for a file that lies elsewhere.
    pub(super) fn part(&self) -> Option<u32> {
        let own = self.content_url.strip_prefix("/api/v2/media/")?;
        let (_, place) = own.split_once('/')?;
        place.split_once('-')?.0.parse().ok()
    }

    /// Where a file lies that Gatepost has not read.
    pub(super) fn elsewhere(&self) -> Option<&str> {
        self.part().is_none().then_some(self.content_url.as_str())
    }
}

/// A page of accounts.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Accounts {
    pub(super) accounts: Vec<Account>,
    pub(super) next: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Account {
    pub(super) id: i64,
    pub(super) name: String,
    pub(super) username: String,
    pub(super) active: bool,
}

/// The addresses of an inbox.
#[derive(Debug, Deserialize)]
pub(super) struct Addresses {
    pub(super) addresses: Vec<Address>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Address {
    pub(super) address: String,
}

/// A page of the event log.
#[derive(Debug, Deserialize)]
pub(super) struct Events {
    pub(super) events: Vec<Event>,
    pub(super) next: Option<String>,
    pub(super) more: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event {
    pub(super) message_uuid: Option<String>,
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_next_page_is_read_of_its_link() {
        let next_of = |text: &'static str| {
            next(&HeaderMap::from_iter([(LINK, HeaderValue::from_static(text))]))
        };
        let both =
            "</api/v2/m?limit=2&before=a%2Cb>; rel=\"next\", </api/v2/m?after=c>; rel=\"prev\"";
        assert_eq!(next_of(both).as_deref(), Some("a,b"));
        assert_eq!(next_of("</api/v2/m?after=c>; rel=\"prev\""), None);
        assert_eq!(next(&HeaderMap::new()), None);
    }

    #[test]
    fn a_file_has_the_number_of_its_part_or_lies_elsewhere() {
        let file = |url: &str| Attachment {
            content_type: "a/b".into(),
            filename: "x".into(),
            content_url: url.into(),
        };
        assert_eq!(file("/api/v2/media/u/3-a.pdf").part(), Some(3));
        let there = file("https://elsewhere.example/3-a.pdf");
        assert_eq!(
            (there.part(), there.elsewhere()),
            (None, Some("https://elsewhere.example/3-a.pdf"))
        );
    }
}
