-- The workers of Agents.

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
