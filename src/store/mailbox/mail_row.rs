//! The JSON in which contents keep the parsed message and the proof of its sender. Fields may be
//! added with a default. No field may change its meaning, because old rows stay.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::address::{Address, AddressError};
use crate::domain::evidence::finding::Finding;
use crate::domain::evidence::results::Results;
use crate::domain::message::{Attachment, Mail};
use crate::domain::sender::Sender;

type Text<'m> = Cow<'m, str>;
type Texts<'m> = Cow<'m, [String]>;

#[derive(Serialize, Deserialize)]
pub struct MailRow<'m> {
    from: String,
    from_name: Option<Text<'m>>,
    text: Text<'m>,
    subject: Option<Text<'m>>,
    to: Texts<'m>,
    cc: Texts<'m>,
    reply_to: Texts<'m>,
    message_id: Option<Text<'m>>,
    in_reply_to: Texts<'m>,
    references: Texts<'m>,
    stripped_text: Text<'m>,
    auto_submitted: Option<Text<'m>>,
    disposition_notification_to: Option<Text<'m>>,
    attachments: Vec<AttachmentRow>,
    findings: Cow<'m, [Finding]>,
    authentication: Option<Cow<'m, Results>>,
}

#[derive(Serialize, Deserialize)]
struct AttachmentRow(#[serde(with = "AttachmentFields")] Attachment);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Attachment")]
struct AttachmentFields {
    part: u32,
    content_type: String,
    filename: String,
    size: u64,
    listed: bool,
}

impl<'m> MailRow<'m> {
    pub fn of(mail: &'m Mail, authentication: Option<&'m Results>) -> Self {
        let text = |text: &'m Option<String>| text.as_deref().map(Cow::Borrowed);
        Self {
            from: mail.from.address.to_string(),
            from_name: text(&mail.from.name),
            text: Cow::Borrowed(&mail.text),
            subject: text(&mail.subject),
            to: Cow::Borrowed(&mail.to),
            cc: Cow::Borrowed(&mail.cc),
            reply_to: Cow::Borrowed(&mail.reply_to),
            message_id: text(&mail.message_id),
            in_reply_to: Cow::Borrowed(&mail.in_reply_to),
            references: Cow::Borrowed(&mail.references),
            stripped_text: Cow::Borrowed(&mail.stripped_text),
            auto_submitted: text(&mail.auto_submitted),
            disposition_notification_to: text(&mail.disposition_notification_to),
            attachments: mail.attachments.iter().cloned().map(AttachmentRow).collect(),
            findings: Cow::Borrowed(&mail.findings),
            authentication: authentication.map(Cow::Borrowed),
        }
    }

    pub fn into_mail(self) -> Result<(Mail, Option<Arc<Results>>), AddressError> {
        let text = |text: Option<Text<'m>>| text.map(Cow::into_owned);
        let mail = Mail {
            from: Sender { address: Address::kept(&self.from)?, name: text(self.from_name) },
            text: self.text.into_owned(),
            subject: text(self.subject),
            to: self.to.into_owned(),
            cc: self.cc.into_owned(),
            reply_to: self.reply_to.into_owned(),
            message_id: text(self.message_id),
            in_reply_to: self.in_reply_to.into_owned(),
            references: self.references.into_owned(),
            stripped_text: self.stripped_text.into_owned(),
            auto_submitted: text(self.auto_submitted),
            disposition_notification_to: text(self.disposition_notification_to),
            attachments: self.attachments.into_iter().map(|row| row.0).collect(),
            findings: self.findings.into_owned(),
        };
        Ok((mail, self.authentication.map(|results| Arc::new(results.into_owned()))))
    }
}
