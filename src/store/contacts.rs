//! The senders that an organization knows.

use super::accounts::next_user_id;
use super::commit::NewMessage;
use super::db::Transaction;
use super::error::StoreError;
use super::row::Columns;
use super::sql::{Row, sql};
use crate::domain::clock::Timestamp;
use crate::domain::contact::{Contact, ContactChange};
use crate::domain::id::ContactId;
use crate::domain::sender::Sender;

/// Finds or makes the sender's contact, and keeps its name up to date. The contact is locked until
/// the transaction ends.
pub(super) async fn greet(
    tx: &mut Transaction,
    message: &NewMessage,
) -> Result<(ContactId, ContactChange), StoreError> {
    if let Some(known) = known(tx, message).await? {
        return meet_again(tx, known, &message.mail.from, message.at).await;
    }
    if let Some(made) = make(tx, message).await? {
        return Ok((made, ContactChange::Created));
    }
    // Made by somebody else since we looked, who has committed meanwhile.
    let known = known(tx, message).await?.ok_or_else(|| StoreError::Corrupt {
        table: "contacts",
        detail: format!("{} is there and is not", message.mail.from.address),
    })?;
    meet_again(tx, known, &message.mail.from, message.at).await
}

async fn known(tx: &mut Transaction, message: &NewMessage) -> Result<Option<Contact>, StoreError> {
    let row = sql("SELECT * FROM contacts WHERE organization_id = $1 AND address = $2")
        .locking("FOR NO KEY UPDATE")
        .bind(message.organization)
        .bind(message.mail.from.address.to_string())
        .fetch_optional(tx.on())
        .await?;
    row.as_ref().map(contact).transpose()
}

async fn meet_again(
    tx: &mut Transaction,
    known: Contact,
    from: &Sender,
    at: Timestamp,
) -> Result<(ContactId, ContactChange), StoreError> {
    sql("UPDATE contacts SET name = COALESCE($2, name),
                last_seen = CASE WHEN last_seen > $3 THEN last_seen ELSE $3 END
         WHERE id = $1")
    .bind(known.id.get())
    .bind(from.name.clone())
    .bind(at)
    .execute(tx.on())
    .await?;
    let renamed = from.name.is_some() && from.name != known.name;
    Ok((known.id, if renamed { ContactChange::Renamed } else { ContactChange::Unchanged }))
}

/// A new contact, unless it is there by now.
async fn make(tx: &mut Transaction, message: &NewMessage) -> Result<Option<ContactId>, StoreError> {
    let id = next_user_id(tx).await?;
    let from = &message.mail.from;
    let row =
        sql("INSERT INTO contacts (id, organization_id, address, name, first_seen, last_seen)
         VALUES ($1, $2, $3, $4, $5, $5)
         ON CONFLICT (organization_id, address) DO NOTHING RETURNING id")
        .bind(id)
        .bind(message.organization)
        .bind(from.address.to_string())
        .bind(from.name.clone())
        .bind(message.at)
        .fetch_optional(tx.on())
        .await?;
    row.map(|row| Columns { table: "contacts", row: &row }.contact("id")).transpose()
}

/// A contact as its row says.
pub(super) fn contact(row: &Row) -> Result<Contact, StoreError> {
    let columns = Columns { table: "contacts", row };
    Ok(Contact {
        id: columns.contact("id")?,
        organization: columns.account("organization_id")?,
        address: columns.address("address")?,
        name: columns.optional_text("name")?,
        first_seen: columns.time("first_seen")?,
        last_seen: columns.time("last_seen")?,
    })
}
