-- The twin of migrations/sqlite, column by column. Text is compared octet by octet, as there.
--
-- Times are milliseconds since the Unix epoch. Ids of accounts, members and contacts come from one
-- sequence; every other id is a UUIDv7. Rows that belong to a tenant carry the ids of the account
-- and of all its ancestors, so that any level's list is one index range.

-- Gaps are no harm; waiting for whoever took the number before would be.
CREATE SEQUENCE user_ids MAXVALUE 9007199254740991;

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
    CHECK ((kind = 'partner') = (parent_id IS NULL))
);
CREATE UNIQUE INDEX one_partner ON accounts (kind) WHERE kind = 'partner';
CREATE INDEX accounts_by_parent ON accounts (parent_id, id);
CREATE INDEX accounts_by_kind ON accounts (kind, id);

CREATE TABLE keys (
    id         UUID PRIMARY KEY,
    account_id BIGINT NOT NULL REFERENCES accounts (id),
    -- SHA-256 of the key; the key itself is nowhere.
    hash       BYTEA NOT NULL UNIQUE,
    last_four  TEXT COLLATE "C" NOT NULL,
    purpose    TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT
);
CREATE INDEX keys_by_account ON keys (account_id, created_at);

CREATE TABLE domains (
    name       TEXT COLLATE "C" PRIMARY KEY,
    account_id BIGINT NOT NULL REFERENCES accounts (id),
    created_at BIGINT NOT NULL
);
CREATE INDEX domains_by_account ON domains (account_id, name);

CREATE TABLE addresses (
    domain     TEXT COLLATE "C" NOT NULL REFERENCES domains (name),
    local      TEXT COLLATE "C" NOT NULL,
    agent_id   BIGINT NOT NULL REFERENCES accounts (id),
    catch_all  BIGINT NOT NULL DEFAULT 0 CHECK (catch_all IN (0, 1)),
    created_at BIGINT NOT NULL,
    PRIMARY KEY (domain, local)
);
CREATE INDEX addresses_by_agent ON addresses (agent_id, domain, local);
CREATE UNIQUE INDEX one_catch_all_per_domain ON addresses (domain) WHERE catch_all = 1;

CREATE TABLE inbound_policies (
    agent_id   BIGINT PRIMARY KEY REFERENCES accounts (id),
    mode       TEXT COLLATE "C" NOT NULL CHECK (mode IN ('allowlist', 'open')),
    -- Grows with every change of the mode or of the list; the commit of a message compares it.
    version    BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE allowed_senders (
    agent_id BIGINT NOT NULL REFERENCES accounts (id),
    address  TEXT COLLATE "C" NOT NULL,
    note     TEXT COLLATE "C",
    added_at BIGINT NOT NULL,
    PRIMARY KEY (agent_id, address)
);

CREATE TABLE contacts (
    id              BIGINT PRIMARY KEY,
    organization_id BIGINT NOT NULL REFERENCES accounts (id),
    address         TEXT COLLATE "C" NOT NULL,
    name            TEXT COLLATE "C",
    first_seen      BIGINT NOT NULL,
    last_seen       BIGINT NOT NULL,
    UNIQUE (organization_id, address)
);

-- Raw bytes as received, once for all recipients.
CREATE TABLE raw_messages (
    digest BYTEA PRIMARY KEY,
    bytes  BYTEA NOT NULL
);

CREATE TABLE messages (
    id              UUID PRIMARY KEY,
    partner_id      BIGINT NOT NULL,
    reseller_id     BIGINT NOT NULL,
    organization_id BIGINT NOT NULL,
    agent_id        BIGINT NOT NULL REFERENCES accounts (id),
    agent_username  TEXT COLLATE "C" NOT NULL,
    contact_id      BIGINT NOT NULL REFERENCES contacts (id),
    at              BIGINT NOT NULL,
    sender          TEXT COLLATE "C" NOT NULL,
    tag             TEXT COLLATE "C",
    size            BIGINT NOT NULL,
    digest          BYTEA NOT NULL REFERENCES raw_messages (digest),
    mail            TEXT COLLATE "C" NOT NULL,
    authentication  TEXT COLLATE "C" NOT NULL
);
CREATE INDEX messages_by_partner ON messages (partner_id, at, id);
CREATE INDEX messages_by_reseller ON messages (reseller_id, at, id);
CREATE INDEX messages_by_organization ON messages (organization_id, at, id);
CREATE INDEX messages_by_agent ON messages (agent_id, at, id);
CREATE INDEX messages_by_room ON messages (contact_id, agent_id, at, id);
CREATE INDEX messages_by_digest ON messages (digest);

CREATE TABLE attachments (
    id         UUID PRIMARY KEY,
    message_id UUID NOT NULL REFERENCES messages (id),
    part       BIGINT NOT NULL
);
CREATE INDEX attachments_by_message ON attachments (message_id);

-- The same message arriving again for the same Agent (contract §2.6).
CREATE TABLE arrivals (
    agent_id   BIGINT NOT NULL,
    key        BYTEA NOT NULL,
    message_id UUID NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (agent_id, key)
);
CREATE INDEX arrivals_by_expiry ON arrivals (expires_at);

CREATE TABLE intake_records (
    id              UUID PRIMARY KEY,
    at              BIGINT NOT NULL,
    partner_id      BIGINT NOT NULL,
    reseller_id     BIGINT,
    organization_id BIGINT,
    agent_id        BIGINT,
    recipient       TEXT COLLATE "C" NOT NULL,
    sender          TEXT COLLATE "C",
    envelope_from   TEXT COLLATE "C" NOT NULL,
    remote_address  TEXT COLLATE "C" NOT NULL,
    helo            TEXT COLLATE "C" NOT NULL,
    verdict         TEXT COLLATE "C" NOT NULL CHECK (verdict IN ('accepted', 'refused', 'deferred')),
    reason          TEXT COLLATE "C",
    explanation     TEXT COLLATE "C" NOT NULL,
    message_id      UUID,
    size            BIGINT NOT NULL,
    digest          BYTEA,
    headers         BYTEA NOT NULL,
    steps           TEXT COLLATE "C" NOT NULL,
    count           BIGINT NOT NULL DEFAULT 1,
    -- network, reason, minute and owner of a counted refusal; null where each has its own record.
    counted_as      TEXT COLLATE "C" UNIQUE,
    CHECK ((verdict = 'accepted') = (reason IS NULL))
);
CREATE INDEX intake_records_by_partner ON intake_records (partner_id, at, id);
CREATE INDEX intake_records_by_reseller ON intake_records (reseller_id, at, id);
CREATE INDEX intake_records_by_organization ON intake_records (organization_id, at, id);
CREATE INDEX intake_records_by_agent ON intake_records (agent_id, at, id);

CREATE TABLE events (
    id              UUID PRIMARY KEY,
    name            TEXT COLLATE "C" NOT NULL,
    at              BIGINT NOT NULL,
    partner_id      BIGINT NOT NULL,
    reseller_id     BIGINT,
    organization_id BIGINT,
    agent_id        BIGINT,
    message_id      UUID,
    contact_id      BIGINT
);

CREATE TABLE destinations (
    id         UUID PRIMARY KEY,
    account_id BIGINT NOT NULL REFERENCES accounts (id),
    url        TEXT COLLATE "C" NOT NULL,
    category   TEXT COLLATE "C" NOT NULL,
    label      TEXT COLLATE "C" NOT NULL,
    secret     BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    removed_at BIGINT
);
CREATE UNIQUE INDEX destinations_in_use ON destinations (account_id, category, url)
    WHERE removed_at IS NULL;

CREATE TABLE deliveries (
    id              UUID PRIMARY KEY,
    event_id        UUID NOT NULL REFERENCES events (id),
    destination_id  UUID NOT NULL REFERENCES destinations (id),
    state           TEXT COLLATE "C" NOT NULL CHECK (state IN ('pending', 'delivered', 'exhausted', 'cancelled')),
    attempts        BIGINT NOT NULL DEFAULT 0,
    -- When the next attempt is due, and until when somebody is making it: two columns.
    next_attempt_at BIGINT NOT NULL,
    lease_until     BIGINT NOT NULL DEFAULT 0,
    -- Counts the claims: a result is taken from the latest claimant only.
    fence           BIGINT NOT NULL DEFAULT 0,
    created_at      BIGINT NOT NULL
);
CREATE INDEX deliveries_due ON deliveries (next_attempt_at, id) WHERE state = 'pending';
-- A claim steps from destination to destination: the backlog of a dead one costs nothing.
CREATE INDEX deliveries_waiting ON deliveries (destination_id, next_attempt_at, id)
    WHERE state = 'pending';
CREATE INDEX deliveries_by_destination ON deliveries (destination_id, state, created_at);
CREATE INDEX deliveries_by_event ON deliveries (event_id);

CREATE TABLE attempts (
    id          UUID PRIMARY KEY,
    delivery_id UUID NOT NULL REFERENCES deliveries (id),
    at          BIGINT NOT NULL,
    latency_ms  BIGINT NOT NULL,
    status      BIGINT,
    response    BYTEA NOT NULL,
    error       TEXT COLLATE "C"
);
CREATE INDEX attempts_by_delivery ON attempts (delivery_id, at);

CREATE TABLE audit (
    id         UUID PRIMARY KEY,
    at         BIGINT NOT NULL,
    -- Who did it: "key:<id>", "operator" or "receiver".
    actor      TEXT COLLATE "C" NOT NULL,
    account_id BIGINT NOT NULL,
    action     TEXT COLLATE "C" NOT NULL,
    detail     TEXT COLLATE "C" NOT NULL
);
CREATE INDEX audit_by_account ON audit (account_id, at, id);
