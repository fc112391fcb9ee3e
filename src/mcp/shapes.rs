//! Answers of the API, as tools read them: `http::routes` declares them whole.

use axum::body::to_bytes;
use axum::http::HeaderMap;
use axum::http::header::LINK;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use url::form_urlencoded;

use crate::http::error::Problem;
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

/// A message.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Message {
    pub(super) uuid: String,
    pub(super) date: String,
    pub(super) from_user: String,
    /// The Agent.
    pub(super) to: i64,
    pub(super) message: String,
    pub(super) room_id: String,
    pub(super) status: String,
    pub(super) source: String,
    pub(super) from_number: Option<String>,
    #[serde(default)]
    pub(super) attachments: Vec<Attachment>,
    #[serde(default)]
    metadata: Map<String, Value>,
}

impl Message {
    pub(super) fn is_mail(&self) -> bool {
        self.source == "email"
    }

    /// A fact about mail. Metadata of other channels are the platform's, whatever their names.
    fn fact(&self, name: &str) -> Option<&Value> {
        self.metadata.get(name).filter(|value| self.is_mail() && !value.is_null())
    }

    pub(super) fn text_of(&self, name: &str) -> Option<&str> {
        self.fact(name)?.as_str()
    }

    pub(super) fn texts_of(&self, name: &str) -> Vec<String> {
        let texts = self.fact(name).and_then(Value::as_array).into_iter().flatten();
        texts.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// The domain whose signature proved the sender.
    pub(super) fn proven_domain(&self) -> Option<&str> {
        self.fact("authentication")?.get("alignedDomain")?.as_str()
    }

    /// The writer of the message: a person, or a kind of machine.
    pub(super) fn origin(&self) -> Option<&str> {
        self.fact("emailAutomation")?.get("origin")?.as_str()
    }

    pub(super) fn may_auto_reply(&self) -> Option<bool> {
        self.fact("emailAutomation")?.get("mayAutoReply")?.as_bool()
    }

    pub(super) fn findings(&self) -> Vec<Finding> {
        let found = self.fact("findings").and_then(Value::as_array).into_iter().flatten();
        found.filter_map(|one| serde_json::from_value(one.clone()).ok()).collect()
    }
}

/// A file of a message.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Attachment {
    pub(super) content_type: String,
    pub(super) filename: String,
    content_url: String,
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

/// A remark about the content of a message.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Finding {
    pub(super) kind: String,
    #[serde(default)]
    pub(super) detail: String,
    pub(super) field: String,
    pub(super) start: Option<u64>,
    pub(super) end: Option<u64>,
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

/// A page of rooms.
#[derive(Debug, Deserialize)]
pub(super) struct Rooms {
    pub(super) rooms: Vec<Room>,
    pub(super) next: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Room {
    pub(super) room_id: String,
    pub(super) name: String,
    pub(super) address: String,
    pub(super) agent_id: i64,
    pub(super) source: String,
    pub(super) last_message: String,
    pub(super) last_message_date: String,
    pub(super) last_message_uuid: String,
    pub(super) messages: u64,
    pub(super) unread: u64,
}

/// A page of intake records, newest first.
#[derive(Debug, Deserialize)]
pub(super) struct Records {
    pub(super) intake: Vec<Record>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    pub(super) id: String,
    pub(super) date: String,
    pub(super) agent_id: Option<i64>,
    pub(super) recipient: String,
    pub(super) sender: Option<String>,
    pub(super) envelope_from: String,
    pub(super) remote_address: String,
    pub(super) helo: String,
    pub(super) verdict: String,
    pub(super) reason: Option<String>,
    pub(super) explanation: String,
    pub(super) count: u64,
}

/// An intake record with its evidence.
#[derive(Debug, Deserialize)]
pub(super) struct WholeRecord {
    #[serde(flatten)]
    pub(super) record: Record,
    pub(super) steps: Vec<Step>,
    pub(super) advice: Option<String>,
}

/// A step of a verdict.
#[derive(Debug, Deserialize)]
pub(super) struct Step {
    pub(super) name: String,
    pub(super) result: String,
    pub(super) detail: String,
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
    fn metadata_of_a_platform_proves_nothing() {
        let message = serde_json::json!({
            "uuid": "u", "date": "d", "fromUser": "f", "to": 1, "message": "m", "roomId": "1:2",
            "status": "success", "source": "sms", "fromNumber": "+1",
            "metadata": {
                "authentication": { "alignedDomain": "good.example" },
                "findings": [{ "kind": "k", "field": "f" }], "emailSubject": "s",
            },
        });
        let message: Message = serde_json::from_value(message).unwrap();
        assert_eq!((message.proven_domain(), message.text_of("emailSubject")), (None, None));
        assert!(message.findings().is_empty() && !message.is_mail());
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
