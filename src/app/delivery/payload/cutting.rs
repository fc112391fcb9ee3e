//! Shortens the record of a message: to a summary, or until its event is short enough.

use crate::app::mailbox::record::{Dialog, MessageRecord, Metadata, head};

/// Bytes of text that stay when all else is cut.
const LEFT_OF_TEXT: usize = 1000;

/// Order of cuts: copies of the text, all replies but the newest, which may be the news, and that one,
/// links, evidence and long lists, attachments, the texts themselves.
pub(super) const STEPS: &[fn(&mut MessageRecord<'_>)] = &[
    |record| {
        record.chat_dialog = record.chat_dialog.take().and_then(Dialog::newest_reply);
        record.call_dialog = record.call_dialog.take().and_then(Dialog::newest_reply);
    },
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
    |record| {
        record.message = head(record.message, LEFT_OF_TEXT);
        record.summary = record.summary.map(|text| head(text, LEFT_OF_TEXT));
    },
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

/// Cuts the texts of a message, its summary and its replies, and sets `truncated`.
pub(super) fn cut_text(record: &mut MessageRecord<'_>, max: usize) {
    let mut is_cut = false;
    let mut cut = |text: &str| is_cut |= text.len() > max;
    cut(record.message);
    record.summary.into_iter().for_each(&mut cut);
    if let Metadata::Mail(mail) = &mut record.metadata {
        mail.email_stripped_text.into_iter().for_each(&mut cut);
        mail.email_stripped_text = mail.email_stripped_text.map(|text| head(text, max));
    }
    record.message = head(record.message, max);
    record.summary = record.summary.map(|text| head(text, max));
    for dialog in [&mut record.chat_dialog, &mut record.call_dialog] {
        // One that is left out is null, and not empty.
        if dialog.as_mut().is_some_and(|dialog| dialog.cut(max)) {
            is_cut = true;
            dialog.take_if(|dialog| dialog.is_empty());
        }
    }
    record.truncated |= is_cut;
}

fn leave_dialogs(record: &mut MessageRecord<'_>) {
    (record.chat_dialog, record.call_dialog) = (None, None);
}

fn count_attachments(record: &mut MessageRecord<'_>) {
    record.attachment_count.get_or_insert(record.attachments.len());
    record.attachments.clear();
}
