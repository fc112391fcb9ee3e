//! The senders that an organization knows. The time of the last message is in the rooms, so that a
//! message does not change the contact's row; the row keeps it when messages are deleted.

use std::collections::{BTreeMap, HashMap};

use super::entry::Arrived;
use crate::domain::contact::{Contact, ContactChange};
use crate::domain::id::{AccountId, ContactId};
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, Row, Value};
use crate::store::tenancy::accounts::next_user_ids;

/// An organization, and the address of a sender that wrote to it.
type Who = (AccountId, String);

/// Finds or creates the contact of each sender and updates its name. Returns them in the order of
/// the messages. Locks them until the transaction ends: no other gateway begins their rooms.
pub async fn greet(
    tx: &mut Transaction,
    arrived: &[&Arrived],
) -> Result<Vec<(ContactId, ContactChange)>, StoreError> {
    let who = |one: &Arrived| (one.organization, one.handle.to_string());
    let mut letters: BTreeMap<Who, Vec<&Arrived>> = BTreeMap::new();
    for one in arrived {
        letters.entry(who(one)).or_default().push(one);
    }
    let mut known = known(tx, letters.keys()).await?;
    let strangers: Vec<_> = letters.iter().filter(|(who, _)| !known.contains_key(*who)).collect();
    let made = make(tx, &strangers).await?;
    if made.len() < strangers.len() {
        // Another gateway created the missing ones after the read above, and has committed since.
        let missed = strangers.iter().map(|(who, _)| *who).filter(|who| !made.contains_key(*who));
        known.extend(self::known(tx, missed).await?);
    }
    rename(tx, &letters, &known);

    let mut changes: HashMap<Who, (ContactId, std::vec::IntoIter<ContactChange>)> = HashMap::new();
    for (who, letters) in &letters {
        let contact = known.get(who);
        let id = contact.map(|contact| contact.id).or_else(|| made.get(who).copied());
        let id = id.ok_or_else(|| StoreError::Corrupt {
            table: "contacts",
            detail: format!("{} exists but cannot be found", who.1),
        })?;
        let impression = Impression::of(contact, letters);
        changes.insert(who.clone(), (id, impression.changes.into_iter()));
    }
    let met = arrived.iter().filter_map(|one| {
        let (id, changes) = changes.get_mut(&who(one))?;
        Some((*id, changes.next()?))
    });
    Ok(met.collect())
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
    fn of(known: Option<&KnownContact>, letters: &[&Arrived]) -> Self {
        let mut name = known.and_then(|contact| contact.name.clone());
        let mut changes = Vec::with_capacity(letters.len());
        for (place, letter) in letters.iter().enumerate() {
            let renamed = letter.name.is_some() && letter.name != name;
            changes.push(match (known, place) {
                (None, 0) => ContactChange::Created,
                _ if renamed => ContactChange::Renamed,
                _ => ContactChange::Unchanged,
            });
            if renamed {
                name.clone_from(&letter.name);
            }
        }
        Self { name, changes }
    }
}

async fn known(
    tx: &mut Transaction,
    who: impl Iterator<Item = &Who>,
) -> Result<HashMap<Who, KnownContact>, StoreError> {
    let rows = who.map(|(organization, address)| {
        vec![Value::from(*organization), Value::from(address.as_str())]
    });
    let found = many(
        "WITH given (organization, mailbox) AS ({rows})
         SELECT contacts.id, organization_id, contacts.address, contacts.name
         FROM given CROSS JOIN contacts
         WHERE organization_id = given.organization AND contacts.address = given.mailbox",
        rows.collect(),
    )
    .locking("ORDER BY organization_id, contacts.address FOR NO KEY UPDATE OF contacts")
    .fetch_all(tx.on())
    .await?;
    let mut known = HashMap::with_capacity(found.len());
    for row in &found {
        let columns = Columns { table: "contacts", row };
        let who = (columns.account("organization_id")?, columns.text("address")?);
        let (id, name) = (columns.contact("id")?, columns.optional_text("name")?);
        known.insert(who, KnownContact { id, name });
    }
    Ok(known)
}

/// Inserts new contacts. Returns only those that no other gateway has inserted before.
async fn make(
    tx: &mut Transaction,
    strangers: &[(&Who, &Vec<&Arrived>)],
) -> Result<HashMap<Who, ContactId>, StoreError> {
    let ids = next_user_ids(tx, strangers.len()).await?;
    let mut rows = Vec::with_capacity(strangers.len());
    for ((who, letters), id) in strangers.iter().zip(ids) {
        let impression = Impression::of(None, letters);
        let Some(first) = letters.first() else { continue };
        rows.push(vec![
            id.into(),
            who.0.into(),
            who.1.as_str().into(),
            impression.name.into(),
            first.at.into(),
            first.at.into(),
            first.lineage.partner.into(),
            first.lineage.reseller.into(),
        ]);
    }
    let made = many(
        "INSERT INTO contacts (id, organization_id, address, name, first_seen, last_seen,
             partner_id, reseller_id) {rows}
         ON CONFLICT (organization_id, address) DO NOTHING RETURNING id, organization_id, address",
        rows,
    )
    .fetch_all(tx.on())
    .await?;
    let mut by_who = HashMap::with_capacity(made.len());
    for row in &made {
        let columns = Columns { table: "contacts", row };
        let who = (columns.account("organization_id")?, columns.text("address")?);
        by_who.insert(who, columns.contact("id")?);
    }
    Ok(by_who)
}

/// Writes changed names with the commit.
fn rename(
    tx: &mut Transaction,
    letters: &BTreeMap<Who, Vec<&Arrived>>,
    known: &HashMap<Who, KnownContact>,
) {
    let rows = letters.iter().filter_map(|(who, letters)| {
        let contact = known.get(who)?;
        let name = Impression::of(Some(contact), letters).name;
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
