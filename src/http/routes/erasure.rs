//! `DELETE /messages/{messageUuid}` and `DELETE /contacts/{id}`: permanent erasure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::id::{ContactId, MessageId};
use crate::http::typed::{Call, Either, Problem, successes};
use crate::wire::{Id, Named, Number};

/// Erases a message for good
///
/// Erases the original, too, and the message's details in intake records. Also served at
/// /messages/{messageUuid}.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// The message.
    message_uuid: Id,
}

/// The erased message.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct ErasedMessage {
    /// The message.
    message_uuid: Id,
}

pub async fn message(call: Call, request: Message) -> Result<MessageGone, Problem> {
    let id = MessageId(request.message_uuid.0);
    if !call.erasures().message(&call.target.scope, id).await? {
        return Err(Problem::not_found("message"));
    }
    Ok(MessageGone { erased: ErasedMessage { message_uuid: request.message_uuid } })
}

/// Erases a contact with all messages
///
/// Nothing of the contact can be read after the answer.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Contact {
    /// The contact.
    id: Named<ContactId>,
}

/// The erased contact.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct ErasedContact {
    /// The contact.
    contact_id: Number,
    /// False while parts are still being deleted.
    complete: bool,
}

successes! {
    MessageGone {
        /// The erased message.
        erased: ErasedMessage
    } = OK "message erased";
    ContactGone {
        /// The erased contact.
        erased: ErasedContact
    } = OK "contact erased";
    ContactGoing {
        /// The contact being erased.
        erased: ErasedContact
    } = ACCEPTED "contact erased; its remaining parts are being deleted";
}

pub async fn contact(
    call: Call,
    request: Contact,
) -> Result<Either<ContactGone, ContactGoing>, Problem> {
    let Named(id) = request.id;
    let erased = call.erasures().contact(&call.target.scope, id).await?;
    let complete = erased.ok_or_else(|| Problem::not_found("contact"))?;
    let erased = ErasedContact { contact_id: id.into(), complete };
    Ok(match complete {
        true => Either::This(ContactGone { erased }),
        false => Either::That(ContactGoing { erased }),
    })
}
