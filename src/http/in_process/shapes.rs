//! Answers of the API as pages of the console and tools of MCP read them: `routes` declares them whole.

use serde::Deserialize;
use serde_json::{Map, Value};

/// A message.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Message {
    pub(crate) uuid: String,
    pub(crate) date: String,
    from: i64,
    pub(crate) from_user: String,
    to: i64,
    pub(crate) to_user: String,
    pub(crate) message: String,
    pub(crate) room_id: String,
    pub(crate) status: String,
    pub(crate) source: String,
    pub(crate) from_number: Option<String>,
    direction: String,
    #[serde(default)]
    pub(crate) agent_outcome: Option<String>,
    #[serde(default)]
    pub(crate) agent_reply_count: u32,
    pub(crate) summary: Option<String>,
    pub(crate) ai_lead_rating: Option<u8>,
    pub(crate) ai_lead_rating_reason: Option<String>,
    pub(crate) ai_agent_override: Option<String>,
    pub(crate) duration: Option<u64>,
    #[serde(default)]
    pub(crate) missed_call: bool,
    pub(crate) chat_dialog: Option<Vec<Turn>>,
    pub(crate) call_dialog: Option<Vec<Turn>>,
    #[serde(default)]
    pub(crate) attachments: Vec<Attachment>,
    #[serde(default)]
    metadata: Map<String, Value>,
}

/// A turn of a dialog.
#[derive(Debug, Deserialize)]
pub(crate) struct Turn {
    pub(crate) role: String,
    pub(crate) content: String,
}

impl Message {
    /// Whether a stranger sent it as mail: a reply that was recorded is none.
    pub(crate) fn is_mail(&self) -> bool {
        self.source == "email" && !self.is_reply()
    }

    /// Whether it is a reply of the Agent, as it was recorded.
    pub(crate) fn is_reply(&self) -> bool {
        self.direction == "outbound"
    }

    /// The Agent.
    pub(crate) fn agent(&self) -> i64 {
        if self.is_reply() { self.from } else { self.to }
    }

    /// A fact about mail. Metadata of other channels are the platform's, whatever their names.
    pub(crate) fn fact(&self, name: &str) -> Option<&Value> {
        self.metadata.get(name).filter(|value| self.is_mail() && !value.is_null())
    }

    pub(crate) fn text_of(&self, name: &str) -> Option<&str> {
        self.fact(name)?.as_str()
    }

    pub(crate) fn texts_of(&self, name: &str) -> Vec<String> {
        let texts = self.fact(name).and_then(Value::as_array).into_iter().flatten();
        texts.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    pub(crate) fn findings(&self) -> Vec<Finding> {
        let found = self.fact("findings").and_then(Value::as_array).into_iter().flatten();
        found.filter_map(|one| Finding::deserialize(one).ok()).collect()
    }
}

/// A file of a message.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Attachment {
    pub(crate) content_type: String,
    pub(crate) filename: String,
    pub(crate) content_url: String,
}

/// A remark about the content of a message.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Finding {
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) detail: String,
    pub(crate) field: String,
    pub(crate) start: Option<u64>,
    pub(crate) end: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Room {
    pub(crate) room_id: String,
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) agent_id: i64,
    pub(crate) source: String,
    pub(crate) last_message: String,
    pub(crate) last_message_date: String,
    pub(crate) last_message_uuid: String,
    pub(crate) messages: u64,
    pub(crate) unread: u64,
}

/// A page of rooms, the latest message first.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rooms {
    pub(crate) total_rooms: u64,
    pub(crate) rooms: Vec<Room>,
    pub(crate) next: Option<String>,
}

/// An intake record.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    pub(crate) id: String,
    pub(crate) date: String,
    pub(crate) source: String,
    pub(crate) agent_id: Option<i64>,
    pub(crate) recipient: String,
    pub(crate) sender: Option<String>,
    pub(crate) envelope_from: String,
    pub(crate) remote_address: String,
    pub(crate) helo: String,
    pub(crate) verdict: String,
    pub(crate) reason: Option<String>,
    pub(crate) explanation: String,
    pub(crate) message_uuid: Option<String>,
    pub(crate) count: u64,
}

/// A page of intake records, newest first.
#[derive(Debug, Deserialize)]
pub(crate) struct Records {
    pub(crate) intake: Vec<Record>,
    pub(crate) next: Option<String>,
}

/// An intake record with its evidence.
#[derive(Debug, Deserialize)]
pub(crate) struct WholeRecord {
    #[serde(flatten)]
    pub(crate) record: Record,
    pub(crate) size: u64,
    pub(crate) sha256: Option<String>,
    pub(crate) headers: String,
    pub(crate) steps: Vec<Step>,
    pub(crate) advice: Option<String>,
}

/// A step of a verdict.
#[derive(Debug, Deserialize)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) result: String,
    pub(crate) detail: String,
    pub(crate) inputs: Map<String, Value>,
    pub(crate) dns: Vec<DnsAnswer>,
    pub(crate) micros: u64,
}

/// A DNS answer that a step used.
#[derive(Debug, Deserialize)]
pub(crate) struct DnsAnswer {
    pub(crate) name: String,
    #[serde(rename = "type", default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) ttl: Option<u64>,
    #[serde(default)]
    pub(crate) answer: Value,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_of_a_platform_proves_nothing() {
        let message = serde_json::json!({
            "uuid": "u", "date": "d", "from": 2, "direction": "inbound", "fromUser": "f", "to": 1, "toUser": "t", "message": "m",
            "roomId": "1:2", "status": "success", "source": "sms", "fromNumber": "+1",
            "metadata": {
                "authentication": { "alignedDomain": "good.example" },
                "findings": [{ "kind": "k", "field": "f" }], "emailSubject": "s",
            },
        });
        let message: Message = serde_json::from_value(message).unwrap();
        assert!(message.fact("authentication").is_none() && message.findings().is_empty());
        assert_eq!(message.text_of("emailSubject"), None);
        assert!(!message.is_mail() && message.texts_of("emailTo").is_empty());
    }
}
