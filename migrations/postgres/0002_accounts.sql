-- Accounts, who may act for them, and who did what.

CREATE TABLE accounts (
    id              BIGINT PRIMARY KEY,
    kind            TEXT COLLATE "C" NOT NULL CHECK (kind IN ('partner', 'reseller', 'organization', 'account')),
    name            TEXT COLLATE "C" NOT NULL,
    username        TEXT COLLATE "C" NOT NULL,
    parent_id       BIGINT REFERENCES accounts (id),
    partner_id      BIGINT NOT NULL,
    reseller_id     BIGINT,
    organization_id BIGINT,
    agent_id        BIGINT,
    active          BIGINT NOT NULL DEFAULT 1 CHECK (active IN (0, 1)),
    created_at      BIGINT NOT NULL,
    -- What an account is called elsewhere, what else is known of it (a JSON object), and when it was
    -- deleted: its row stays, so that its id is never used again and what it left can be explained.
    external_id     TEXT,
    details         TEXT,
    deleted_at      BIGINT,
    CHECK ((kind = 'partner') = (parent_id IS NULL))
);
CREATE UNIQUE INDEX one_partner ON accounts (kind) WHERE kind = 'partner';
CREATE INDEX accounts_by_parent ON accounts (parent_id, id);
CREATE INDEX accounts_by_kind ON accounts (kind, id);
CREATE UNIQUE INDEX accounts_by_external_id ON accounts (parent_id, external_id)
    WHERE deleted_at IS NULL AND external_id IS NOT NULL;
-- Found by it below a reseller or below an organization; below the partner by either.
CREATE INDEX accounts_external_by_reseller ON accounts (external_id, reseller_id, id)
    WHERE deleted_at IS NULL AND external_id IS NOT NULL;
CREATE INDEX accounts_external_by_organization ON accounts (external_id, organization_id, id)
    WHERE deleted_at IS NULL AND external_id IS NOT NULL;
-- The accounts of one level below another, however many others were deleted.
CREATE INDEX accounts_of_partner ON accounts (partner_id, kind, id) WHERE deleted_at IS NULL;
CREATE INDEX accounts_of_reseller ON accounts (reseller_id, kind, id) WHERE deleted_at IS NULL;
CREATE INDEX accounts_of_organization ON accounts (organization_id, kind, id)
    WHERE deleted_at IS NULL;
-- An Agent is found by its username, which others may have, too, in one range of an index.
CREATE INDEX accounts_called_in_partner ON accounts (partner_id, username, id) WHERE deleted_at IS NULL;
CREATE INDEX accounts_called_in_reseller ON accounts (reseller_id, username, id)
    WHERE deleted_at IS NULL;
CREATE INDEX accounts_called_in_organization ON accounts (organization_id, username, id)
    WHERE deleted_at IS NULL;

-- People with access to an account. `permitted` is a JSON array of Agents' ids; empty restricts
-- nothing. Deleting an Agent never shortens it.
CREATE TABLE members (
    id         BIGINT PRIMARY KEY,
    account_id BIGINT NOT NULL REFERENCES accounts (id),
    email      TEXT COLLATE "C" NOT NULL,
    role       TEXT NOT NULL CHECK (role IN ('admin', 'member')),
    permitted  TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    removed_at BIGINT
);
CREATE UNIQUE INDEX members_by_email ON members (account_id, email) WHERE removed_at IS NULL;
CREATE INDEX members_by_account ON members (account_id, id) WHERE removed_at IS NULL;

CREATE TABLE keys (
    id         UUID PRIMARY KEY,
    account_id BIGINT NOT NULL REFERENCES accounts (id),
    -- SHA-256 of the key; the key itself is nowhere.
    hash       BYTEA NOT NULL UNIQUE,
    last_four  TEXT COLLATE "C" NOT NULL,
    purpose    TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT,
    member_id       BIGINT REFERENCES members (id),
    expires_at      BIGINT,
    -- To the hour or so: it is not written with every request.
    last_used_at    BIGINT
);
CREATE INDEX keys_by_account ON keys (account_id, created_at);
-- Those in force, however many were revoked: one that expired is revoked when the next is made.
CREATE INDEX keys_of_member ON keys (member_id, created_at)
    WHERE revoked_at IS NULL AND member_id IS NOT NULL;
CREATE INDEX keys_of_account ON keys (account_id, created_at)
    WHERE revoked_at IS NULL AND member_id IS NULL;

-- What was done to an account, by whom: a row is written in the transaction of what it tells.
-- `changes` is a JSON array of [field, before, after].
CREATE TABLE audit_entries (
    id              UUID PRIMARY KEY,
    at              BIGINT NOT NULL,
    partner_id      BIGINT NOT NULL,
    reseller_id     BIGINT,
    organization_id BIGINT,
    agent_id        BIGINT,
    deed            TEXT NOT NULL,
    object          TEXT NOT NULL,
    changes         TEXT NOT NULL,
    actor           TEXT NOT NULL CHECK (actor IN ('operator', 'gateway', 'key')),
    actor_account   BIGINT,
    actor_member    BIGINT,
    key_id          UUID,
    remote_address  TEXT,
    request_id      UUID,
    count           BIGINT NOT NULL
);
CREATE INDEX audit_entries_by_partner ON audit_entries (partner_id, at, id);
CREATE INDEX audit_entries_by_reseller ON audit_entries (reseller_id, at, id);
CREATE INDEX audit_entries_by_organization ON audit_entries (organization_id, at, id);
CREATE INDEX audit_entries_by_agent ON audit_entries (agent_id, at, id);
-- Spelled as for events and records, which have 0 for no organization.
CREATE INDEX audit_entries_without_agent
    ON audit_entries (CAST(COALESCE(NULLIF(organization_id, 0), reseller_id, partner_id) AS BIGINT), at, id)
    WHERE agent_id IS NULL;
