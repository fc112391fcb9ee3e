-- Hops through an account's own application, and ways in of providers.

-- A hop through the account's own application before a message is processed: one of a kind each.
-- `headers` and `secret` are sealed by the vault; `success_codes` is a JSON array, empty for 200-299.
CREATE TABLE relays (
    id            UUID PRIMARY KEY,
    account_id    BIGINT NOT NULL REFERENCES accounts (id),
    kind          TEXT NOT NULL CHECK (kind IN ('mailgun', 'sendgrid', 'postmark', 'ses', 'smtp')),
    url           TEXT NOT NULL,
    timeout_ms    BIGINT NOT NULL,
    headers       BYTEA NOT NULL,
    secret        BYTEA NOT NULL,
    success_codes TEXT NOT NULL,
    revision      BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL
);
CREATE UNIQUE INDEX relays_of_account ON relays (account_id, kind);

-- Where a provider posts what it received; it outlives its relay. The key is found by its SHA-256
-- and sealed, to be shown to its account again; `verification` is what proves the provider, sealed.
CREATE TABLE inbound_ways (
    id           UUID PRIMARY KEY,
    account_id   BIGINT NOT NULL REFERENCES accounts (id),
    kind         TEXT NOT NULL CHECK (kind IN ('mailgun', 'sendgrid', 'postmark', 'ses')),
    key_hash     BYTEA NOT NULL,
    key_sealed   BYTEA NOT NULL,
    last_four    TEXT NOT NULL,
    verification BYTEA NOT NULL,
    revision     BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    rotated_at   BIGINT
);
CREATE UNIQUE INDEX inbound_ways_of_account ON inbound_ways (account_id, kind);
CREATE INDEX inbound_ways_by_key ON inbound_ways (key_hash);

-- What came of asking an application; the last ones of each relay.
CREATE TABLE relay_attempts (
    id         UUID PRIMARY KEY,
    relay_id   UUID NOT NULL REFERENCES relays (id) ON DELETE CASCADE,
    account_id BIGINT NOT NULL REFERENCES accounts (id),
    at         BIGINT NOT NULL,
    outcome    TEXT NOT NULL CHECK (outcome IN ('passed', 'refused', 'deferred')),
    status     BIGINT,
    millis     BIGINT NOT NULL,
    error      TEXT
);
CREATE INDEX relay_attempts_of_relay ON relay_attempts (relay_id, id);
