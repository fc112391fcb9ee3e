-- The session of a room, in which its next message comes: its id, when it began, and how many
-- messages came in it.
ALTER TABLE rooms ADD COLUMN session_id UUID;
ALTER TABLE rooms ADD COLUMN session_at BIGINT;
ALTER TABLE rooms ADD COLUMN session_messages BIGINT NOT NULL DEFAULT 0;
-- Rooms from before there were sessions have one from now on; what they hold came in none.
UPDATE rooms SET session_id = last_message_id, session_at = last_at;
-- The one that a message came in.
ALTER TABLE messages ADD COLUMN session_id UUID;

-- Sessions that were reset.
CREATE TABLE sessions (
    id         UUID PRIMARY KEY,
    contact_id BIGINT NOT NULL,
    agent_id   BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at   BIGINT NOT NULL,
    messages   BIGINT NOT NULL,
    reason     TEXT
);
CREATE INDEX sessions_of_room ON sessions (contact_id, agent_id, ended_at, id);

-- The computer of an Agent: what stands for the worker that takes its mail as work.
CREATE TABLE computers (
    agent_id        BIGINT PRIMARY KEY REFERENCES accounts (id),
    partner_id      BIGINT NOT NULL,
    reseller_id     BIGINT NOT NULL,
    organization_id BIGINT NOT NULL,
    name            TEXT,
    state           TEXT NOT NULL CHECK (state IN ('created', 'provisioned', 'deprovisioned')),
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    -- What made it what it is, and when.
    job_id          UUID,
    job_at          BIGINT,
    -- With a mask in the place of each secret; those are sealed.
    config          TEXT NOT NULL,
    secrets         BYTEA,
    -- Of the configuration alone.
    revision        BIGINT NOT NULL
);
CREATE INDEX computers_of_partner ON computers (partner_id, agent_id);
CREATE INDEX computers_of_reseller ON computers (reseller_id, agent_id);
CREATE INDEX computers_of_organization ON computers (organization_id, agent_id);
