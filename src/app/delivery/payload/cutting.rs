//! Makes the record of a message shorter: to its summary, or until its event is short enough.

use crate::app::mailbox::record::{Dialog, MessageRecord, Metadata};

/// Octets of text that are kept when all else has gone.
const LEFT_OF_TEXT: usize = 1000;

/// What goes first: copies of the text, links, evidence and long lists, attachments, the text itself.
pub(super) const STEPS: &[fn(&mut MessageRecord<'_>)] = &[
    leave_dialogs,
    // A link to each attachment that needs no key, beside the one that does.
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

/// No text but its beginning, no HTML, no link that needs no key, the number of attachments in their
/// place, and of remarks only their kind and place: remarks quote.
pub(super) fn summarise(record: &mut MessageRecord<'_>) {
    count_attachments(record);
    leave_dialogs(record);
    if let Metadata::Mail(mail) = &mut record.metadata {
        (mail.email_html, mail.email_stripped_text) = (None, None);
        let findings = mail.findings.iter_mut().flatten();
        findings.for_each(|finding| finding.detail = None);
    }
}

/// Cuts the text wherever the record holds it, and says so.
pub(super) fn cut_text(record: &mut MessageRecord<'_>, max: usize) {
    let stripped = match &record.metadata {
        Metadata::Mail(mail) => mail.email_stripped_text,
        Metadata::Received(_) => None,
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

/// At most `max` octets, ending on a character.
fn head(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or_default()
}
