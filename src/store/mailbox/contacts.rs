//! The senders that an organization knows. The time of a contact's last message is in its rooms, so
//! that a message does not change the contact's row. The row gets it when the message is deleted.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::entry::{Arrived, FiledMessage};
use crate::domain::contact::{Contact, ContactChange};
use crate::domain::id::{AccountId, ContactId, SessionId, ThreadId};
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::many::{Many, many};
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, Row};
use crate::store::tenancy::accounts::next_user_ids;

/// A sender that wrote to an organization.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct SenderKey {
    organization: AccountId,
    address: String,
}

type MessagesBySender<'a> = BTreeMap<SenderKey, Vec<&'a Arrived>>;

/// Asks for the contacts of these messages. Locks them until the transaction ends: no other gateway
/// begins their rooms.
pub fn known(arrived: &[&Arrived]) -> Many {
    let senders: BTreeSet<SenderKey> = arrived.iter().map(|one| sender(one)).collect();
    find(senders.iter())
}

/// Finds or creates the contact of each message and updates its name. Returns the messages in the
/// same order, each in a thread and a session of its own. Others among the known do not matter.
pub async fn find_or_create<'a>(
    tx: &mut Transaction,
    arrived: &[&'a Arrived],
    known: &[Row],
) -> Result<Vec<FiledMessage<'a>>, StoreError> {
    let mut messages = MessagesBySender::new();
    for one in arrived {
        messages.entry(sender(one)).or_default().push(one);
    }
    let mut known = read(known)?;
    known.retain(|sender, _| messages.contains_key(sender));
    let created = create(tx, &messages, &known).await?;
    if known.len() + created.len() < messages.len() {
        // Another gateway created the missing ones after the read above, and has committed since.
        let missed = messages
            .keys()
            .filter(|sender| !known.contains_key(*sender) && !created.contains_key(*sender));
        let missed: Vec<_> = missed.collect();
        known.extend(read(&find(missed.into_iter()).fetch_all(tx.on()).await?)?);
    }
    rename(tx, &messages, &known);

    let mut found = HashMap::new();
    for (sender, messages) in &messages {
        let contact = known.get(sender);
        let id = contact.map(|contact| contact.id).or_else(|| created.get(sender).copied());
        let id = id.ok_or_else(|| StoreError::Corrupt {
            table: "contacts",
            detail: format!("{} exists but cannot be found", sender.address),
        })?;
        let changes = Impression::of(contact, messages).changes;
        found.insert(sender, (id, changes.into_iter()));
    }
    let filed = arrived.iter().filter_map(|&message| {
        let (contact, changes) = found.get_mut(&sender(message))?;
        Some(FiledMessage {
            message,
            contact: *contact,
            change: changes.next()?,
            thread: ThreadId(message.id.0),
            session: SessionId(message.id.0),
        })
    });
    Ok(filed.collect())
}

struct KnownContact {
    id: ContactId,
    name: Option<String>,
}

/// The name of a contact after several messages, and the change that each message made.
struct Impression {
    name: Option<String>,
    changes: Vec<ContactChange>,
}

impl Impression {
    fn of(known: Option<&KnownContact>, messages: &[&Arrived]) -> Self {
        let mut name = known.and_then(|contact| contact.name.clone());
        let mut changes = Vec::with_capacity(messages.len());
        for (place, message) in messages.iter().enumerate() {
            let renamed = message.name.is_some() && message.name != name;
            changes.push(match (known, place) {
                (None, 0) => ContactChange::Created,
                _ if renamed => ContactChange::Renamed,
                _ => ContactChange::Unchanged,
            });
            if renamed {
                name.clone_from(&message.name);
            }
        }
        Self { name, changes }
    }
}

fn sender(one: &Arrived) -> SenderKey {
    SenderKey { organization: one.organization, address: one.handle.to_string() }
}

fn find<'s>(senders: impl Iterator<Item = &'s SenderKey>) -> Many {
    let rows = senders
        .map(|sender| vec![sender.organization.into(), sender.address.as_str().into()])
        .collect();
    many(
        "WITH given (organization, mailbox) AS ({rows})
         SELECT contacts.id, organization_id, contacts.address, contacts.name
         FROM given CROSS JOIN contacts
         WHERE organization_id = given.organization AND contacts.address = given.mailbox",
        rows,
    )
    .locking("ORDER BY organization_id, contacts.address FOR NO KEY UPDATE OF contacts")
}

fn read(found: &[Row]) -> Result<HashMap<SenderKey, KnownContact>, StoreError> {
    let contact = |row| {
        let columns = Columns { table: "contacts", row };
        let (id, name) = (columns.contact("id")?, columns.optional_text("name")?);
        Ok((sender_key(&columns)?, KnownContact { id, name }))
    };
    found.iter().map(contact).collect()
}

/// Inserts the contacts that are not known. Returns only those that no other gateway has inserted
/// before.
async fn create(
    tx: &mut Transaction,
    messages: &MessagesBySender<'_>,
    known: &HashMap<SenderKey, KnownContact>,
) -> Result<HashMap<SenderKey, ContactId>, StoreError> {
    let ids = next_user_ids(tx, messages.len() - known.len()).await?;
    let strangers = messages.iter().filter(|(sender, _)| !known.contains_key(*sender));
    let mut rows = Vec::with_capacity(ids.len());
    for ((sender, messages), id) in strangers.zip(ids) {
        let Some(first) = messages.first() else { continue };
        rows.push(vec![
            id.into(),
            sender.organization.into(),
            sender.address.as_str().into(),
            Impression::of(None, messages).name.into(),
            first.at.into(),
            first.at.into(),
            first.lineage.partner.into(),
            first.lineage.reseller.into(),
        ]);
    }
    let created = many(
        "INSERT INTO contacts (id, organization_id, address, name, first_seen, last_seen,
             partner_id, reseller_id) {rows}
         ON CONFLICT (organization_id, address) DO NOTHING RETURNING id, organization_id, address",
        rows,
    )
    .fetch_all(tx.on())
    .await?;
    let contact = |row| {
        let columns = Columns { table: "contacts", row };
        Ok((sender_key(&columns)?, columns.contact("id")?))
    };
    created.iter().map(contact).collect()
}

fn sender_key(columns: &Columns<'_>) -> Result<SenderKey, StoreError> {
    let (organization, address) = (columns.account("organization_id")?, columns.text("address")?);
    Ok(SenderKey { organization, address })
}

/// Writes changed names with the commit.
fn rename(
    tx: &mut Transaction,
    messages: &MessagesBySender<'_>,
    known: &HashMap<SenderKey, KnownContact>,
) {
    let rows = messages.iter().filter_map(|(sender, messages)| {
        let contact = known.get(sender)?;
        let name = Impression::of(Some(contact), messages).name;
        (name != contact.name).then(|| vec![contact.id.get().into(), name.into()])
    });
    tx.later(many(
        "WITH given (contact, called) AS ({rows})
         UPDATE contacts SET name = given.called FROM given WHERE contacts.id = given.contact",
        rows.collect(),
    ));
}

/// The time when a contact wrote last: the later one of its rooms' latest and its own row's.
pub const LAST_SEEN: &str = "(SELECT CASE WHEN MAX(last_at) > contacts.last_seen THEN MAX(last_at)
                  ELSE contacts.last_seen END
      FROM rooms WHERE rooms.contact_id = contacts.id)";

/// Selects the columns of contacts; `rest` is the FROM clause without its keyword.
pub fn select(rest: &str) -> String {
    let own = "SELECT id, organization_id, address, name, first_seen";
    format!("{own}, {LAST_SEEN} AS last_seen FROM {rest}")
}

/// Returns these contacts in no particular order, without those under erasure.
pub async fn by_ids(
    on: Connection<'_>,
    ids: impl Iterator<Item = ContactId>,
) -> Result<Vec<Row>, StoreError> {
    let present = "WHERE id = given.contact
           AND NOT EXISTS (SELECT 1 FROM erasures
                           WHERE subject IN (contacts.id, contacts.organization_id))";
    let found = select("given CROSS JOIN contacts ");
    many(
        format!("WITH given (contact) AS ({{rows}}) {found}{present}"),
        ids.map(|id| vec![id.get().into()]).collect(),
    )
    .fetch_all(on)
    .await
}

pub fn contact(row: &Row) -> Result<Contact, StoreError> {
    let columns = Columns { table: "contacts", row };
    Ok(Contact {
        id: columns.contact("id")?,
        organization: columns.account("organization_id")?,
        handle: columns.word("address")?,
        name: columns.optional_text("name")?,
        first_seen: columns.time("first_seen")?,
        last_seen: columns.time("last_seen")?,
    })
}
