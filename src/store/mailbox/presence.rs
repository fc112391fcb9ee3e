//! Conditions that leave out what is being erased (`upkeep/erasure.rs`): it is there until its rows
//! are gone, and nobody reads it any more.

/// Goes on with the condition that leaves out messages that are being erased. One look at a small
/// table for each message that is shown.
pub const PRESENT: &str = " AND NOT EXISTS (SELECT 1 FROM erasures
     WHERE subject IN (messages.contact_id, messages.agent_id))";

/// The same of rooms.
pub const PRESENT_ROOM: &str = " AND NOT EXISTS (SELECT 1 FROM erasures
     WHERE subject IN (rooms.contact_id, rooms.agent_id))";

/// The same of contacts: of a deleted organization all are.
pub const PRESENT_CONTACT: &str = " AND NOT EXISTS (SELECT 1 FROM erasures
     WHERE subject IN (contacts.id, contacts.organization_id))";

/// Goes on with the condition that leaves out messages without a record, and records that wait to be blanked
/// (`upkeep/erasure_redaction.rs`); how many milliseconds it allows for clocks is `CLOCKS` there.
pub const PRESENT_RECORD: &str = " AND recorded = 1 AND NOT EXISTS (SELECT 1 FROM erasures
     WHERE subject IN (records.agent_id, records.organization_id, records.reseller_id)
       AND erased_at IS NULL)
 AND NOT EXISTS (SELECT 1 FROM erasures
     WHERE erasures.organization_id = records.organization_id
       AND handle IN (sender, LOWER(envelope_from)) AND at <= asked_at + 60000
       AND erased_at IS NULL)";
