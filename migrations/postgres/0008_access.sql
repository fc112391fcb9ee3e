-- What an account is called elsewhere, what else is known of it (a JSON object), and when it was
-- deleted: its row stays, so that its id is never used again and what it left can be explained.
ALTER TABLE accounts ADD COLUMN external_id TEXT;
ALTER TABLE accounts ADD COLUMN details TEXT;
ALTER TABLE accounts ADD COLUMN deleted_at BIGINT;
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

ALTER TABLE keys ADD COLUMN member_id BIGINT REFERENCES members (id);
ALTER TABLE keys ADD COLUMN expires_at BIGINT;
-- To the hour or so: it is not written with every request.
ALTER TABLE keys ADD COLUMN last_used_at BIGINT;
-- Those in force, however many were revoked: one that expired is revoked when the next is made.
CREATE INDEX keys_of_member ON keys (member_id, created_at)
    WHERE revoked_at IS NULL AND member_id IS NOT NULL;
CREATE INDEX keys_of_account ON keys (account_id, created_at)
    WHERE revoked_at IS NULL AND member_id IS NULL;

-- Domains that accounts say are theirs, until a TXT record holds the challenge of one of them.
CREATE TABLE domain_claims (
    domain     TEXT COLLATE "C" NOT NULL,
    account_id BIGINT NOT NULL REFERENCES accounts (id),
    challenge  TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (domain, account_id)
);
CREATE INDEX domain_claims_by_account ON domain_claims (account_id, domain);

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
CREATE INDEX audit_entries_without_agent
    ON audit_entries (CAST(COALESCE(organization_id, reseller_id, partner_id) AS BIGINT), at, id)
    WHERE agent_id IS NULL;
INSERT INTO audit_entries (id, at, partner_id, reseller_id, organization_id, agent_id, deed, object,
                           changes, actor, count)
    SELECT audit.id, audit.at, partner_id, reseller_id, organization_id, agent_id, action, detail, '[]',
           'gateway', 1
    FROM audit JOIN accounts ON accounts.id = audit.account_id;
DROP TABLE audit;

-- Creations that carried an Idempotency-Key: the row is written in the transaction of what was
-- created, so that no request is carried out twice; `holder` is the request that did it. `answer`
-- comes after it, and is encrypted under the caller's API key, which is nowhere here.
CREATE TABLE idempotency_keys (
    digest     BYTEA PRIMARY KEY,
    request    BYTEA NOT NULL,
    holder     UUID NOT NULL,
    expires_at BIGINT NOT NULL,
    answer     BYTEA
);
CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_at);

-- Of an event of `onboarding`, its `data` as a JSON object: no row keeps what an account or a member
-- was at that moment.
ALTER TABLE events ADD COLUMN told TEXT;
