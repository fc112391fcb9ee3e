//! Conditions that hide rows under erasure (`upkeep/erasure.rs`): the rows exist until they are
//! deleted, but nobody may read them.

/// Hides messages under erasure, by one look-up in a small table per message.
pub const PRESENT: &str = " AND NOT EXISTS (SELECT 1 FROM erasures
     WHERE subject IN (messages.contact_id, messages.agent_id))";

/// Hides rooms under erasure.
pub const PRESENT_ROOM: &str = " AND NOT EXISTS (SELECT 1 FROM erasures
     WHERE subject IN (rooms.contact_id, rooms.agent_id))";

/// Hides contacts under erasure, and all contacts of a deleted organization.
pub const PRESENT_CONTACT: &str = " AND NOT EXISTS (SELECT 1 FROM erasures
     WHERE subject IN (contacts.id, contacts.organization_id))";

/// Hides messages without a record, and records that wait for redaction
/// (`upkeep/erasure_redaction.rs`). The 60000 ms are its `CLOCKS`.
pub const PRESENT_RECORD: &str = " AND recorded = 1 AND NOT EXISTS (SELECT 1 FROM erasures
     WHERE subject IN (records.agent_id, records.organization_id, records.reseller_id)
       AND erased_at IS NULL)
 AND NOT EXISTS (SELECT 1 FROM erasures
     WHERE erasures.organization_id = records.organization_id
       AND handle IN (sender, LOWER(envelope_from)) AND at <= asked_at + 60000
       AND erased_at IS NULL)";
