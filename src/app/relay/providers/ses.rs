//! Amazon SES: a receipt rule with an SNS action, whose message has the mail in `content`
//! (docs.aws.amazon.com/ses: Contents of notifications for Amazon SES email receiving). In base64
//! the mail is complete, byte by byte; SES' default, UTF-8, changes bytes that are not UTF-8. At
//! most 150 KB: larger mail bounces at SES.
//!
//! Rules with other actions (S3, Lambda) announce mail without its content.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::{Broken, OtherMode, ProviderMail, Refusal, hops, path};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Notification {
    notification_type: Option<String>,
    mail: Option<Mail>,
    receipt: Option<Receipt>,
    content: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mail {
    #[serde(default)]
    source: String,
    #[serde(default)]
    headers: Vec<Field>,
}

#[derive(Deserialize)]
struct Field {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct Receipt {
    #[serde(default)]
    recipients: Vec<String>,
    action: Option<Action>,
}

#[derive(Deserialize)]
struct Action {
    encoding: Option<String>,
}

/// Reads the mail in a message of a topic, which SNS has signed; `pinned` if the account named the
/// topic.
pub fn read(message: &str, pinned: bool) -> Result<ProviderMail, Refusal> {
    let read: Result<Notification, _> = serde_json::from_str(message);
    let found = read.map_err(|_| OtherMode::Ses)?;
    let received = found.notification_type.as_deref() == Some("Received");
    let (Some(mail), Some(receipt), Some(content), true) =
        (found.mail, found.receipt, found.content, received)
    else {
        return Err(OtherMode::Ses.into());
    };
    let encoding = receipt.action.and_then(|action| action.encoding);
    let is_base64 = match encoding {
        Some(encoding) => encoding.eq_ignore_ascii_case("base64"),
        // All mail contains a colon; base64 does not.
        None => !content.contains(':'),
    };
    let raw = if is_base64 {
        let packed: Vec<u8> = content.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        STANDARD.decode(packed).map_err(|_| Broken::Content)?
    } else {
        content.into_bytes()
    };
    let received = mail.headers.iter().find(|field| field.name.eq_ignore_ascii_case("Received"));
    let hop = received.and_then(|field| hops::of_received(&field.value));
    Ok(ProviderMail {
        raw: raw.into(),
        reverse_path: path(&mail.source),
        recipients: receipt.recipients.iter().map(|to| path(to)).collect(),
        client: hop.as_ref().map(|(_, address)| *address),
        helo: hop.map(|(helo, _)| helo),
        proof: if pinned {
            "signed by Amazon SNS, for the topic that is set here"
        } else {
            "signed by Amazon SNS, for any topic: no topicArn is set"
        },
        token: None,
    })
}
