//! Shortens the record of a message: to a summary, or until its event is short enough.

use crate::app::mailbox::record::{Dialog, MessageRecord, Metadata};

/// Bytes of text that stay when all else is cut.
const LEFT_OF_TEXT: usize = 1000;

/// Order of cuts: copies of the text, links, evidence and long lists, attachments, the text itself.
pub(super) const STEPS: &[fn(&mut MessageRecord<'_>)] = &[
    leave_dialogs,
    // Signed links: the link that needs a key stays.
    |record| record.attachments.iter_mut().for_each(|part| part.signed_url = None),
    |record| {
        if let Metadata::Mail(mail) = &mut record.metadata {
            mail.email_stripped_text = None;
            mail.findings = None;
            mail.authentication = None;
            mail.email_references = None;
            mail.email_in_reply_to = None;
            mail.email_reply_to = None;
            mail.email_cc = None;
            mail.email_to = None;
        }
    },
    count_attachments,
    |record| record.message = head(record.message, LEFT_OF_TEXT),
];

/// Reduces a record to the beginning of the text, without HTML and signed links. A number replaces
/// the attachments. Remarks keep kind and place, but not their detail, which quotes.
pub(super) fn summarise(record: &mut MessageRecord<'_>) {
    count_attachments(record);
    leave_dialogs(record);
    if let Metadata::Mail(mail) = &mut record.metadata {
        (mail.email_html, mail.email_stripped_text) = (None, None);
        let findings = mail.findings.iter_mut().flatten();
        findings.for_each(|finding| finding.detail = None);
    }
}

/// Cuts the text in all its copies, and sets `truncated`.
pub(super) fn cut_text(record: &mut MessageRecord<'_>, max: usize) {
    let stripped = match &record.metadata {
        Metadata::Mail(mail) => mail.email_stripped_text,
        Metadata::Received(_) | Metadata::Reply(_) => None,
    };
    let dialogs = [&record.chat_dialog, &record.call_dialog].into_iter().flatten();
    let octets = [record.message.len(), stripped.map_or(0, str::len)];
    if dialogs.map(Dialog::octets).chain(octets).all(|octets| octets <= max) {
        return;
    }
    record.message = head(record.message, max);
    leave_dialogs(record);
    if let Metadata::Mail(mail) = &mut record.metadata {
        record.chat_dialog = Some(Dialog::said(record.message));
        mail.email_stripped_text = stripped.map(|text| head(text, max));
    }
    record.truncated = true;
}

fn leave_dialogs(record: &mut MessageRecord<'_>) {
    (record.chat_dialog, record.call_dialog) = (None, None);
}

fn count_attachments(record: &mut MessageRecord<'_>) {
    record.attachment_count.get_or_insert(record.attachments.len());
    record.attachments.clear();
}

/// Returns at most `max` bytes, ending on a character.
fn head(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or_default()
}
