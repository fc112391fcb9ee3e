-- Times are milliseconds since the Unix epoch. Ids of accounts, members and contacts come from one
-- sequence; every other id is a UUIDv7 in 16 octets. Rows that belong to a tenant carry the ids of
-- the account and of all its ancestors, so that any level's list is one index range.

CREATE TABLE user_ids (
    last INTEGER NOT NULL
) STRICT;
INSERT INTO user_ids (last) VALUES (0);

CREATE TABLE accounts (
    id              INTEGER PRIMARY KEY,
    kind            TEXT NOT NULL CHECK (kind IN ('partner', 'reseller', 'organization', 'account')),
    name            TEXT NOT NULL,
    username        TEXT NOT NULL,
    parent_id       INTEGER REFERENCES accounts (id),
    partner_id      INTEGER NOT NULL,
    reseller_id     INTEGER,
    organization_id INTEGER,
    agent_id        INTEGER,
    active          INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1)),
    created_at      INTEGER NOT NULL,
    CHECK ((kind = 'partner') = (parent_id IS NULL))
) STRICT;
CREATE UNIQUE INDEX one_partner ON accounts (kind) WHERE kind = 'partner';
CREATE INDEX accounts_by_parent ON accounts (parent_id, id);
CREATE INDEX accounts_by_kind ON accounts (kind, id);

CREATE TABLE keys (
    id         BLOB PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    -- SHA-256 of the key; the key itself is nowhere.
    hash       BLOB NOT NULL UNIQUE,
    last_four  TEXT NOT NULL,
    purpose    TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;
CREATE INDEX keys_by_account ON keys (account_id, created_at);

CREATE TABLE domains (
    name       TEXT PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX domains_by_account ON domains (account_id, name);

CREATE TABLE addresses (
    domain     TEXT NOT NULL REFERENCES domains (name),
    local      TEXT NOT NULL,
    agent_id   INTEGER NOT NULL REFERENCES accounts (id),
    catch_all  INTEGER NOT NULL DEFAULT 0 CHECK (catch_all IN (0, 1)),
    created_at INTEGER NOT NULL,
    PRIMARY KEY (domain, local)
) STRICT;
CREATE INDEX addresses_by_agent ON addresses (agent_id, domain, local);
CREATE UNIQUE INDEX one_catch_all_per_domain ON addresses (domain) WHERE catch_all = 1;

CREATE TABLE inbound_policies (
    agent_id   INTEGER PRIMARY KEY REFERENCES accounts (id),
    mode       TEXT NOT NULL CHECK (mode IN ('allowlist', 'open')),
    -- Grows with every change of the mode or of the list; the commit of a message compares it.
    version    INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE allowed_senders (
    agent_id INTEGER NOT NULL REFERENCES accounts (id),
    address  TEXT NOT NULL,
    note     TEXT,
    added_at INTEGER NOT NULL,
    PRIMARY KEY (agent_id, address)
) STRICT;

CREATE TABLE contacts (
    id              INTEGER PRIMARY KEY,
    organization_id INTEGER NOT NULL REFERENCES accounts (id),
    address         TEXT NOT NULL,
    name            TEXT,
    first_seen      INTEGER NOT NULL,
    last_seen       INTEGER NOT NULL,
    UNIQUE (organization_id, address)
) STRICT;

-- Raw bytes as received, once for all recipients.
CREATE TABLE raw_messages (
    digest BLOB PRIMARY KEY,
    bytes  BLOB NOT NULL
) STRICT;

CREATE TABLE messages (
    id              BLOB PRIMARY KEY,
    partner_id      INTEGER NOT NULL,
    reseller_id     INTEGER NOT NULL,
    organization_id INTEGER NOT NULL,
    agent_id        INTEGER NOT NULL REFERENCES accounts (id),
    agent_username  TEXT NOT NULL,
    contact_id      INTEGER NOT NULL REFERENCES contacts (id),
    at              INTEGER NOT NULL,
    sender          TEXT NOT NULL,
    tag             TEXT,
    size            INTEGER NOT NULL,
    digest          BLOB NOT NULL REFERENCES raw_messages (digest),
    mail            TEXT NOT NULL,
    authentication  TEXT NOT NULL
) STRICT;
CREATE INDEX messages_by_partner ON messages (partner_id, at, id);
CREATE INDEX messages_by_reseller ON messages (reseller_id, at, id);
CREATE INDEX messages_by_organization ON messages (organization_id, at, id);
CREATE INDEX messages_by_agent ON messages (agent_id, at, id);
CREATE INDEX messages_by_room ON messages (contact_id, agent_id, at, id);
CREATE INDEX messages_by_digest ON messages (digest);

CREATE TABLE attachments (
    id         BLOB PRIMARY KEY,
    message_id BLOB NOT NULL REFERENCES messages (id),
    part       INTEGER NOT NULL
) STRICT;
CREATE INDEX attachments_by_message ON attachments (message_id);

-- The same message arriving again for the same Agent (contract §2.6).
CREATE TABLE arrivals (
    agent_id   INTEGER NOT NULL,
    key        BLOB NOT NULL,
    message_id BLOB NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (agent_id, key)
) STRICT;
CREATE INDEX arrivals_by_expiry ON arrivals (expires_at);

CREATE TABLE intake_records (
    id              BLOB PRIMARY KEY,
    at              INTEGER NOT NULL,
    partner_id      INTEGER NOT NULL,
    reseller_id     INTEGER,
    organization_id INTEGER,
    agent_id        INTEGER,
    recipient       TEXT NOT NULL,
    sender          TEXT,
    envelope_from   TEXT NOT NULL,
    remote_address  TEXT NOT NULL,
    helo            TEXT NOT NULL,
    verdict         TEXT NOT NULL CHECK (verdict IN ('accepted', 'refused', 'deferred')),
    reason          TEXT,
    explanation     TEXT NOT NULL,
    message_id      BLOB,
    size            INTEGER NOT NULL,
    digest          BLOB,
    headers         BLOB NOT NULL,
    steps           TEXT NOT NULL,
    count           INTEGER NOT NULL DEFAULT 1,
    -- network, reason, minute and owner of a counted refusal; null where each has its own record.
    counted_as      TEXT UNIQUE,
    CHECK ((verdict = 'accepted') = (reason IS NULL))
) STRICT;
CREATE INDEX intake_records_by_partner ON intake_records (partner_id, at, id);
CREATE INDEX intake_records_by_reseller ON intake_records (reseller_id, at, id);
CREATE INDEX intake_records_by_organization ON intake_records (organization_id, at, id);
CREATE INDEX intake_records_by_agent ON intake_records (agent_id, at, id);

CREATE TABLE events (
    id              BLOB PRIMARY KEY,
    name            TEXT NOT NULL,
    at              INTEGER NOT NULL,
    partner_id      INTEGER NOT NULL,
    reseller_id     INTEGER,
    organization_id INTEGER,
    agent_id        INTEGER,
    message_id      BLOB,
    contact_id      INTEGER
) STRICT;

CREATE TABLE destinations (
    id         BLOB PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    url        TEXT NOT NULL,
    category   TEXT NOT NULL,
    label      TEXT NOT NULL,
    secret     BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    removed_at INTEGER
) STRICT;
CREATE UNIQUE INDEX destinations_in_use ON destinations (account_id, category, url)
    WHERE removed_at IS NULL;

CREATE TABLE deliveries (
    id              BLOB PRIMARY KEY,
    event_id        BLOB NOT NULL REFERENCES events (id),
    destination_id  BLOB NOT NULL REFERENCES destinations (id),
    state           TEXT NOT NULL CHECK (state IN ('pending', 'delivered', 'exhausted', 'cancelled')),
    attempts        INTEGER NOT NULL DEFAULT 0,
    -- When the next attempt is due, and until when somebody is making it: two columns.
    next_attempt_at INTEGER NOT NULL,
    lease_until     INTEGER NOT NULL DEFAULT 0,
    -- Counts the claims: a result is taken from the latest claimant only.
    fence           INTEGER NOT NULL DEFAULT 0,
    created_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX deliveries_due ON deliveries (next_attempt_at, id) WHERE state = 'pending';
-- A claim steps from destination to destination: the backlog of a dead one costs nothing.
CREATE INDEX deliveries_waiting ON deliveries (destination_id, next_attempt_at, id)
    WHERE state = 'pending';
CREATE INDEX deliveries_by_destination ON deliveries (destination_id, state, created_at);
CREATE INDEX deliveries_by_event ON deliveries (event_id);

CREATE TABLE attempts (
    id          BLOB PRIMARY KEY,
    delivery_id BLOB NOT NULL REFERENCES deliveries (id),
    at          INTEGER NOT NULL,
    latency_ms  INTEGER NOT NULL,
    status      INTEGER,
    response    BLOB NOT NULL,
    error       TEXT
) STRICT;
CREATE INDEX attempts_by_delivery ON attempts (delivery_id, at);

CREATE TABLE audit (
    id         BLOB PRIMARY KEY,
    at         INTEGER NOT NULL,
    -- Who did it: "key:<id>", "operator" or "receiver".
    actor      TEXT NOT NULL,
    account_id INTEGER NOT NULL,
    action     TEXT NOT NULL,
    detail     TEXT NOT NULL
) STRICT;
CREATE INDEX audit_by_account ON audit (account_id, at, id);
