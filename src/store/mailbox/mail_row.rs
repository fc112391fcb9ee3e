//! The JSON in which `mails.mail` keeps what was read out of a message. Fields may be added
//! with a default; none may change its meaning, because old rows stay as they are.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::address::{Address, AddressError};
use crate::domain::message::{Attachment, Mail};
use crate::domain::sender::Sender;

#[derive(Serialize, Deserialize)]
pub struct MailRow {
    from: String,
    from_name: Option<String>,
    text: String,
    subject: Option<String>,
    to: Vec<String>,
    cc: Vec<String>,
    reply_to: Vec<String>,
    message_id: Option<String>,
    in_reply_to: Vec<String>,
    references: Vec<String>,
    stripped_text: String,
    auto_submitted: Option<String>,
    disposition_notification_to: Option<String>,
    attachments: Vec<AttachmentRow>,
    findings: Value,
}

#[derive(Serialize, Deserialize)]
struct AttachmentRow {
    part: u32,
    content_type: String,
    filename: String,
    size: u64,
    listed: bool,
}

impl From<&Mail> for MailRow {
    fn from(mail: &Mail) -> Self {
        let mail = mail.clone();
        Self {
            from: mail.from.address.to_string(),
            from_name: mail.from.name,
            text: mail.text,
            subject: mail.subject,
            to: mail.to,
            cc: mail.cc,
            reply_to: mail.reply_to,
            message_id: mail.message_id,
            in_reply_to: mail.in_reply_to,
            references: mail.references,
            stripped_text: mail.stripped_text,
            auto_submitted: mail.auto_submitted,
            disposition_notification_to: mail.disposition_notification_to,
            attachments: mail.attachments.into_iter().map(AttachmentRow::from).collect(),
            findings: mail.findings,
        }
    }
}

impl TryFrom<MailRow> for Mail {
    type Error = AddressError;

    fn try_from(row: MailRow) -> Result<Self, AddressError> {
        Ok(Self {
            from: Sender { address: Address::kept(&row.from)?, name: row.from_name },
            text: row.text,
            subject: row.subject,
            to: row.to,
            cc: row.cc,
            reply_to: row.reply_to,
            message_id: row.message_id,
            in_reply_to: row.in_reply_to,
            references: row.references,
            stripped_text: row.stripped_text,
            auto_submitted: row.auto_submitted,
            disposition_notification_to: row.disposition_notification_to,
            attachments: row.attachments.into_iter().map(Attachment::from).collect(),
            findings: row.findings,
        })
    }
}

impl From<Attachment> for AttachmentRow {
    fn from(from: Attachment) -> Self {
        Self {
            part: from.part,
            content_type: from.content_type,
            filename: from.filename,
            size: from.size,
            listed: from.listed,
        }
    }
}

impl From<AttachmentRow> for Attachment {
    fn from(row: AttachmentRow) -> Self {
        Self {
            part: row.part,
            content_type: row.content_type,
            filename: row.filename,
            size: row.size,
            listed: row.listed,
        }
    }
}
