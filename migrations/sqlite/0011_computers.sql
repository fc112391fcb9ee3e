-- The workers of Agents.

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
