-- The session of a room, in which its next message comes: its id, when it began, and how many
-- messages came in it.
ALTER TABLE rooms ADD COLUMN session_id BLOB;
ALTER TABLE rooms ADD COLUMN session_at INTEGER;
ALTER TABLE rooms ADD COLUMN session_messages INTEGER NOT NULL DEFAULT 0;
-- Rooms from before there were sessions have one from now on; what they hold came in none.
UPDATE rooms SET session_id = last_message_id, session_at = last_at;
-- The one that a message came in.
ALTER TABLE messages ADD COLUMN session_id BLOB;

-- Sessions that were reset.
CREATE TABLE sessions (
    id         BLOB PRIMARY KEY,
    contact_id INTEGER NOT NULL,
    agent_id   INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    messages   INTEGER NOT NULL,
    reason     TEXT
) STRICT;
CREATE INDEX sessions_of_room ON sessions (contact_id, agent_id, ended_at, id);

-- The computer of an Agent: what stands for the worker that takes its mail as work.
CREATE TABLE computers (
    agent_id        INTEGER PRIMARY KEY REFERENCES accounts (id),
    partner_id      INTEGER NOT NULL,
    reseller_id     INTEGER NOT NULL,
    organization_id INTEGER NOT NULL,
    name            TEXT,
    state           TEXT NOT NULL CHECK (state IN ('created', 'provisioned', 'deprovisioned')),
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    -- What made it what it is, and when.
    job_id          BLOB,
    job_at          INTEGER,
    -- With a mask in the place of each secret; those are sealed.
    config          TEXT NOT NULL,
    secrets         BLOB,
    -- Of the configuration alone.
    revision        INTEGER NOT NULL
) STRICT;
CREATE INDEX computers_of_partner ON computers (partner_id, agent_id);
CREATE INDEX computers_of_reseller ON computers (reseller_id, agent_id);
CREATE INDEX computers_of_organization ON computers (organization_id, agent_id);
