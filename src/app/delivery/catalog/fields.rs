//! The fields of events, each explained once.

use serde_json::{Map, Value, json};

use crate::mail::findings::KINDS;

/// A field. `kind` is a type of JSON Schema, or a list of them; `?` behind the name says that it may
/// be missing.
pub(super) struct Field {
    pub(super) name: &'static str,
    kinds: &'static [&'static str],
    optional: bool,
    about: &'static str,
}

impl Field {
    /// Its schema.
    pub(super) fn schema(&self) -> Value {
        let kind = match self.kinds {
            [one] => json!(one),
            several => json!(several),
        };
        let mut schema = json!({ "type": kind, "description": self.about });
        if self.kinds.contains(&"array") {
            let items = match self.name {
                "attachments" => object("One of them.", ATTACHMENT),
                "chatDialog" | "callDialog" => object("One turn.", TURN),
                "findings" => finding(),
                "permittedAccountIds" => json!({ "type": "integer" }),
                _ => json!({ "type": "string" }),
            };
            put(&mut schema, "items", items);
        }
        if self.kinds.contains(&"object") {
            let inner = match self.name {
                "emailAutomation" => Some(AUTOMATION),
                "emailDeliveryMarker" => Some(MARKER),
                "webhook" => Some(WEBHOOK),
                "member" => Some(MEMBER),
                "invitedBy" => Some(INVITER),
                _ => None,
            };
            match inner.map(|fields| object(self.about, fields)) {
                Some(Value::Object(inner)) => {
                    for name in ["properties", "required"] {
                        let of_inner = inner.get(name).cloned().unwrap_or_default();
                        put(&mut schema, name, of_inner);
                    }
                }
                _ => put(&mut schema, "additionalProperties", json!(true)),
            }
        }
        schema
    }
}

/// A remark on a message.
fn finding() -> Value {
    let mut schema = object("One of them.", FINDING);
    if let Some(kind) = schema.pointer_mut("/properties/kind") {
        put(kind, "enum", json!(KINDS));
    }
    schema
}

/// Gives an object a field, in the place of one of this name.
pub(super) fn put(object: &mut Value, name: &str, value: Value) {
    if let Value::Object(fields) = object {
        fields.insert(name.to_owned(), value);
    }
}

/// An object with these fields.
pub(super) fn object(about: &str, fields: &[Field]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|field| (field.name.to_owned(), field.schema())).collect();
    let required = fields.iter().filter(|field| !field.optional).map(|field| field.name);
    json!({
        "type": "object",
        "description": about,
        "properties": properties,
        "required": required.collect::<Vec<_>>(),
    })
}

/// `name: type|type "what it is";` where `?` before the colon says that it may be missing.
macro_rules! fields {
    ($($list:ident = { $($name:literal $(? $optional:ident)? : $($kind:ident)|+ , $about:literal;)* })*) => {
        $(pub(super) const $list: &[Field] = &[$(Field {
            name: $name,
            kinds: &[$(stringify!($kind)),+],
            optional: fields!(@ $($optional)?),
            about: $about,
        },)*];)*
    };
    (@) => { false };
    (@ $optional:ident) => { true };
}

fields! {
ENVELOPE = {
    "id": string, "The event's id: the same on every attempt and in every list. Deduplicate by it.";
    "timestamp": string, "When it happened, ISO 8601.";
    "truncated" ?may: boolean, "Something was cut: read the whole at url, if there is one.";
    "url" ?may: string, "Where the whole can be read; relative to the API, without a token.";
}
THIN = {
    "accountId": integer, "The account that it happened to.";
    "roomId" ?may: string, "The conversation: contact and Agent.";
    "messageUuid" ?may: string, "The message.";
    "contactId" ?may: integer, "The contact.";
    "memberId" ?may: integer, "The member.";
    "webhookId" ?may: string, "The webhook.";
    "erased" ?may: boolean, "What it was about has been erased since.";
}
ERASED = {
    "erased": boolean, "Always true.";
    "messageUuid": string|null, "The message that was erased.";
    "contactId": integer|null, "The contact that it came from.";
}
SESSION = {
    "sessionKey": string|null, "The session of the conversation that the message came in; null once it is erased, and of messages from before there were sessions.";
}
EMAIL_RECEIVED = {
    "roomId": string|null, "The conversation; null once the message is erased.";
    "messageUuid": string|null, "The message.";
    "messageTimestamp": integer|null, "When it came, in Unix seconds.";
    "targetAccountId": integer|null, "The Agent that it came for.";
    "from": string|null, "The address, of mail proven; null where it is not shown.";
    "subject": string|null, "Its subject; null where it has none, or it is not shown.";
}
CONTACT = {
    "id": integer, "Of the contact.";
    "name": string|null, "The display name that it used last.";
    "email": string|null, "Its mailbox, proven; null of one that does not write by mail.";
    "address": string, "Under what it writes: the mailbox, a telephone number, a name.";
    "source": string, "By which way it writes: email, sms, chat or call.";
    "organizationId": integer, "Whose contact it is.";
    "firstSeen": string, "When it first wrote, ISO 8601.";
    "lastSeen": string, "When it last wrote, ISO 8601.";
}
PUBLISHED = {
    "accountId": integer, "The Agent.";
    "campaignId": string, "The id of its live configuration, which GET /agent/{agentConfigId} shows.";
    "revision": integer, "Of the live configuration, now.";
    "changed": array, "The names of the fields that are others now.";
    "versionId": integer|null, "The version that was restored; null where it is what was staged.";
    "previousVersionId": integer|null, "The version that holds what was in force before, if anything was.";
}
REVERTED = {
    "accountId": integer, "The Agent.";
    "campaignId": string, "The id of its live configuration.";
    "revision": integer, "Of what is staged, now.";
    "changed": array, "The names of the fields that are others now.";
}
POLICY = {
    "accountId": integer, "The Agent.";
    "mode": string, "allowlist or open.";
    "allowlistCount": integer, "How many senders are on the list now.";
    "added": integer, "How many were added by this change.";
    "removed": integer, "How many were removed by this change.";
}
INVITATION = {
    "member": object, "Who was invited.";
    "redirectUrl": string|null, "Where the invitation should lead.";
    "sendWelcomeEmail": boolean|null, "Whether a welcome was asked for.";
    "invitedBy": object|null, "Who invited; null if it was the operator.";
}
MEMBER = {
    "id": integer, "Of the member.";
    "accountType": string, "Always user.";
    "username": string, "Its address.";
    "email": string, "Its address.";
    "role": string, "admin or member.";
    "permittedAccountIds": array, "The Agents that it is restricted to; empty for all.";
    "accountId": integer, "The account that it belongs to.";
    "organizationId": integer|null, "The same, as v2 has it.";
    "resellerId": integer|null, "The reseller above.";
    "partnerId": integer|null, "The partner above.";
    "timestamp": integer, "When it was invited, in Unix milliseconds.";
    "createdAt": string, "The same, ISO 8601.";
}
INVITER = {
    "accountId": integer, "The account whose key invited.";
    "memberId": integer|null, "The member, if it was the key of a member of the same account; members of accounts above are not named.";
}
WEBHOOK = {
    "id": string, "Of the webhook.";
    "origin": string, "Scheme, host and port of its URL.";
    "label": string, "What it is called.";
    "type": string, "The category that it gets.";
}
TEST = {
    "accountId": integer, "Whose webhook it is.";
    "webhook": object, "The webhook.";
}
DISABLED = {
    "accountId": integer, "Whose webhook it is.";
    "webhook": object, "The webhook.";
    "reason": string, "Why nothing is sent any more.";
    "failingSince": string|null, "Since when every attempt failed, ISO 8601.";
    "lastStatus": integer|null, "The HTTP status that it answered last, if it answered.";
    "error": string|null, "What went wrong last, in plain words.";
}
ACCOUNT = {
    "id": integer, "Of the account.";
    "username": string, "Unique among accounts.";
    "accountType": string, "partner, reseller, organization or account (an Agent).";
    "name": string, "What it is called.";
    "accountName": string, "The same, as v2 has it.";
    "organizationId": integer|null, "The organization that it is or belongs to.";
    "resellerId": integer|null, "The reseller that it is or belongs to.";
    "partnerId": integer|null, "The partner that it is or belongs to.";
    "parentId": integer|null, "The account directly above.";
    "superAdmin": boolean, "Always false.";
    "active": boolean, "Its own switch.";
    "externalAccountId": string|null, "What its application calls it.";
    "timestamp": integer, "When it was created, in Unix milliseconds.";
}
ROOM = {
    "roomId": string, "The conversation: contact and Agent.";
    "message": object, "The Message record.";
}
ATTACHMENT = {
    "content-type": string, "As the message declares it.";
    "filename": string, "Cleaned.";
    "content-url": string, "Where to read it; relative to the API, without a token, or elsewhere.";
    "signed-url" ?may: string, "Where to read it until signedUrlsExpire, with no key at all.";
    "attachmentType": string, "email, or what the platform calls it.";
}
TURN = {
    "role": string, "Who said it: user, or as the platform has it.";
    "content": string, "The text.";
}
AUTOMATION = {
    "origin": string, "What wrote it: a person, or which kind of machine.";
    "mayAutoReply": boolean, "Whether an automatic answer may be sent (RFC 3834).";
    "signs": array, "The header fields that say so.";
}
FINDING = {
    "kind": string, "What is remarkable; the README explains each.";
    "detail": string, "In words.";
    "field": string, "The key of the record, or of its metadata, that is meant.";
    "start": integer|null, "The first character in it, in Unicode code points; null for all of it.";
    "end": integer|null, "The one behind the last.";
    "charset" ?may: string, "By which emailHtml is decoded to count in it.";
}
MARKER = {
    "name": string, "The header field to add when the message is sent on.";
    "value": string, "Its value: so it is known when it comes back.";
}
RECORD = {
    "from": integer, "The contact.";
    "fromUser": string, "The sender's display name, or address.";
    "to": integer, "The Agent.";
    "toUser": string, "The Agent's username.";
    "timestamp": integer, "When it was received, in Unix seconds.";
    "date": string, "The same, ISO 8601.";
    "message": string, "The text of the body, cut where truncated says so.";
    "content-type": string, "Of the text: text/plain.";
    "disposition-notification": null, "Not for mail.";
    "roomId": string, "The conversation: contact and Agent.";
    "status": string, "success; unreadable of one that is damaged here, of which lists show what is known.";
    "attachments": array, "What came with it; empty where only their number is shown.";
    "attachmentCount" ?may: integer, "How many there are, where they are not listed.";
    "isLive": boolean, "Always false.";
    "aiAgent": boolean, "Always true.";
    "aiLeadRating": null, "Not for mail.";
    "aiLeadRatingReason": null, "Not for mail.";
    "aiAgentOverride": null, "Not for mail.";
    "source": string, "By which way it came: email, sms, chat or call.";
    "uuid": string, "The message's id.";
    "fromNumber": string|null, "The telephone number that it came from.";
    "toNumber": string|null, "The number or name that it was sent to.";
    "notify": boolean, "Always true.";
    "targetInbox": string, "inbox or junk.";
    "type": string, "The same as source.";
    "duration": integer|null, "Of a call, in seconds.";
    "direction": string, "Always inbound.";
    "missedCall": boolean, "A call that nobody took.";
    "bypassAgent": boolean, "Always false.";
    "cnamSpam": boolean, "A call from a known nuisance.";
    "selfCall": boolean, "Always false.";
    "callingUserIsContact": boolean, "Always true.";
    "agentOutcome": string|null, "Of a call, what came of it.";
    "summary": string|null, "Of a call, in short.";
    "callDialog": array|null, "Of a call, turn by turn; null where it is not shown.";
    "chatDialog": array|null, "The text as a dialogue; null where the text is not shown whole.";
    "agentReplyCount": integer, "Always 0.";
    "campaign": boolean, "Always false.";
    "diversion": string|null, "Of a call, the number that it was diverted from.";
    "voicemailRecording": string|null, "Of a call, where a recording lies.";
    "eventType": string, "inbound- and the source.";
    "forcedCampaign": boolean, "Always false.";
    "metadata": object, "What belongs to mail, or what the platform gave.";
    "truncated" ?may: boolean, "Something of this record was cut.";
}
RECEIVED = {
    "receivedContext": object, "The context that the platform gave.";
    "receivedThreadId": string|null, "What the platform calls the thread.";
    "receivedOutboundMessageWebhookUrl": string|null, "Where it wants answers; nothing is sent there.";
    "receivedSize": integer, "Octets of what was posted.";
    "receivedRawUrl": string, "Where that can be read; relative, without a token.";
}
METADATA = {
    "threadId": string, "The thread: messages of a room that answer each other.";
    "emailSubject": string|null, "The subject, decoded.";
    "emailFrom": string, "The address that was proven.";
    "emailTo": array|null, "To, as written.";
    "emailCc": array|null, "Cc, as written.";
    "emailReplyTo": array|null, "Reply-To, as written.";
    "emailMessageId": string|null, "Message-ID.";
    "emailInReplyTo": array|null, "In-Reply-To.";
    "emailReferences": array|null, "References.";
    "emailHtml": string|null, "Where the HTML can be read; relative to the API, without a token.";
    "emailStrippedText": string|null, "The text without what it quotes.";
    "emailTag": string|null, "The tag of the address, behind +.";
    "emailAutoSubmitted": string|null, "Auto-Submitted.";
    "emailAutomation": object|null, "Whether a machine wrote it.";
    "emailDeliveryMarker": object|null, "What to add when the message is sent on.";
    "emailDispositionNotificationTo": string|null, "Who wants a receipt.";
    "emailSize": integer, "Octets of the raw message.";
    "emailRawUrl": string, "Where the raw message can be read; relative, without a token.";
    "emailHtmlSignedUrl" ?may: string|null, "The HTML, until signedUrlsExpire, with no key at all.";
    "emailRawSignedUrl" ?may: string, "The raw message, in the same way.";
    "signedUrlsExpire" ?may: string, "Until when signed links open, ISO 8601.";
    "authentication": object|null, "What proved the sender; null where it was cut.";
    "findings": array|null, "Remarks on the message; null where they were cut.";
}
}
