-- An Agent is found by its username, which others may have, too, in one range of an index.
CREATE INDEX accounts_called_in_partner ON accounts (partner_id, username, id) WHERE deleted_at IS NULL;
CREATE INDEX accounts_called_in_reseller ON accounts (reseller_id, username, id)
    WHERE deleted_at IS NULL;
CREATE INDEX accounts_called_in_organization ON accounts (organization_id, username, id)
    WHERE deleted_at IS NULL;

-- What is being erased: a contact, or an account that was deleted (their ids are of one sequence).
-- From then on its messages are nobody's to read; they go some at a time, and then this row.
CREATE TABLE erasures (
    subject         INTEGER PRIMARY KEY,
    kind            TEXT NOT NULL CHECK (kind IN ('contact', 'account')),
    asked_at        INTEGER NOT NULL,
    -- Of a contact: under what it wrote.
    organization_id INTEGER,
    handle          TEXT,
    -- How far the records of its organization, or of the account, have been looked at.
    seen_at         INTEGER NOT NULL DEFAULT 0,
    seen_id         BLOB
) STRICT;
-- Records of a contact are left out until they are blanked.
CREATE INDEX erasures_of_contact ON erasures (organization_id, handle);
INSERT INTO erasures (subject, kind, asked_at)
    SELECT id, 'account', deleted_at FROM accounts WHERE deleted_at IS NOT NULL;

-- When all that could tell who wrote what was taken out of a record.
ALTER TABLE intake_records ADD COLUMN erased_at INTEGER;
CREATE INDEX intake_records_by_message ON intake_records (message_id) WHERE message_id IS NOT NULL;
