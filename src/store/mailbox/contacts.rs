//! The senders that an organization knows.

use std::collections::{BTreeMap, HashMap};

use super::entry::Arrived;
use crate::domain::clock::Timestamp;
use crate::domain::contact::{Contact, ContactChange};
use crate::domain::id::{AccountId, ContactId};
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, Row, Value};
use crate::store::tenancy::accounts::next_user_ids;

/// An organization, and a mailbox that wrote to it.
type Who = (AccountId, String);

/// Finds or makes the contact of each sender, and keeps its name up to date; answers them in the
/// order of the messages. The contacts are locked until the transaction ends, so nobody else
/// begins the same conversation at this moment.
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
        // The others were made by somebody else since we looked, who has committed meanwhile.
        let missed = strangers.iter().map(|(who, _)| *who).filter(|who| !made.contains_key(*who));
        known.extend(self::known(tx, missed).await?);
    }
    meet_again(tx, &letters, &known).await?;

    let mut changes: HashMap<Who, (ContactId, std::vec::IntoIter<ContactChange>)> = HashMap::new();
    for (who, letters) in &letters {
        let contact = known.get(who);
        let id = contact.map(|contact| contact.id).or_else(|| made.get(who).copied());
        let id = id.ok_or_else(|| StoreError::Corrupt {
            table: "contacts",
            detail: format!("{} is there and is not", who.1),
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

/// What a contact is after some letters, and what each of them changed.
struct Impression {
    name: Option<String>,
    last_seen: Timestamp,
    changes: Vec<ContactChange>,
}

impl Impression {
    fn of(known: Option<&Contact>, letters: &[&Arrived]) -> Self {
        let mut name = known.and_then(|contact| contact.name.clone());
        let mut last_seen = known.map_or(Timestamp::from_millis(0), |contact| contact.last_seen);
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
            last_seen = last_seen.max(letter.at);
        }
        Self { name, last_seen, changes }
    }
}

async fn known(
    tx: &mut Transaction,
    who: impl Iterator<Item = &Who>,
) -> Result<HashMap<Who, Contact>, StoreError> {
    let rows = who.map(|(organization, address)| {
        vec![Value::from(*organization), Value::from(address.as_str())]
    });
    let found = many(
        "WITH given (organization, mailbox) AS ({rows})
         SELECT contacts.id, organization_id, contacts.address, contacts.name, first_seen, last_seen
         FROM given CROSS JOIN contacts
         WHERE organization_id = given.organization AND contacts.address = given.mailbox",
        rows.collect(),
    )
    .locking("ORDER BY organization_id, contacts.address FOR NO KEY UPDATE OF contacts")
    .fetch_all(tx.on())
    .await?;
    let mut known = HashMap::with_capacity(found.len());
    for row in &found {
        let contact = contact(row)?;
        known.insert((contact.organization, contact.handle.to_string()), contact);
    }
    Ok(known)
}

/// New contacts, but for those that are there by now.
async fn make(
    tx: &mut Transaction,
    strangers: &[(&Who, &Vec<&Arrived>)],
) -> Result<HashMap<Who, ContactId>, StoreError> {
    let ids = next_user_ids(tx, strangers.len()).await?;
    let mut rows = Vec::with_capacity(strangers.len());
    for ((who, letters), id) in strangers.iter().zip(ids) {
        let impression = Impression::of(None, letters);
        let first = letters.first().map_or(impression.last_seen, |letter| letter.at);
        let lineage = letters.first().map(|letter| letter.lineage).unwrap_or_default();
        rows.push(vec![
            id.into(),
            who.0.into(),
            who.1.as_str().into(),
            impression.name.into(),
            first.into(),
            impression.last_seen.into(),
            lineage.partner.into(),
            lineage.reseller.into(),
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

async fn meet_again(
    tx: &mut Transaction,
    letters: &BTreeMap<Who, Vec<&Arrived>>,
    known: &HashMap<Who, Contact>,
) -> Result<(), StoreError> {
    let rows = letters.iter().filter_map(|(who, letters)| {
        let contact = known.get(who)?;
        let impression = Impression::of(Some(contact), letters);
        let id = contact.id.get();
        Some(vec![id.into(), impression.name.into(), impression.last_seen.into()])
    });
    many(
        "WITH given (contact, called, seen) AS ({rows})
         UPDATE contacts SET name = given.called, last_seen = given.seen FROM given
         WHERE contacts.id = given.contact",
        rows.collect(),
    )
    .execute(tx.on())
    .await?;
    Ok(())
}

/// These contacts, in no particular order.
pub async fn by_ids(
    on: Connection<'_>,
    ids: impl Iterator<Item = ContactId>,
) -> Result<Vec<Row>, StoreError> {
    many(
        "WITH given (contact) AS ({rows})
         SELECT id, organization_id, address, name, first_seen, last_seen
         FROM given CROSS JOIN contacts WHERE id = given.contact
           AND NOT EXISTS (SELECT 1 FROM erasures
                           WHERE subject IN (contacts.id, contacts.organization_id))",
        ids.map(|id| vec![id.get().into()]).collect(),
    )
    .fetch_all(on)
    .await
}

/// A contact as its row says.
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
