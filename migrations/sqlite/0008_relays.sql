-- Hops through an account's own application, and ways in of providers.

-- A hop through the account's own application before a message is processed: one of a kind each.
-- `headers` and `secret` are sealed by the vault; `success_codes` is a JSON array, empty for 200-299.
CREATE TABLE relays (
    id            BLOB PRIMARY KEY,
    account_id    INTEGER NOT NULL REFERENCES accounts (id),
    kind          TEXT NOT NULL CHECK (kind IN ('mailgun', 'sendgrid', 'postmark', 'ses', 'smtp')),
    url           TEXT NOT NULL,
    timeout_ms    INTEGER NOT NULL,
    headers       BLOB NOT NULL,
    secret        BLOB NOT NULL,
    success_codes TEXT NOT NULL,
    revision      INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX relays_of_account ON relays (account_id, kind);

-- Where a provider posts what it received; it outlives its relay. The key is found by its SHA-256
-- and sealed, to be shown to its account again; `verification` is what proves the provider, sealed.
CREATE TABLE inbound_ways (
    id           BLOB PRIMARY KEY,
    account_id   INTEGER NOT NULL REFERENCES accounts (id),
    kind         TEXT NOT NULL CHECK (kind IN ('mailgun', 'sendgrid', 'postmark', 'ses')),
    key_hash     BLOB NOT NULL,
    key_sealed   BLOB NOT NULL,
    last_four    TEXT NOT NULL,
    verification BLOB NOT NULL,
    revision     INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    rotated_at   INTEGER
) STRICT;
CREATE UNIQUE INDEX inbound_ways_of_account ON inbound_ways (account_id, kind);
CREATE INDEX inbound_ways_by_key ON inbound_ways (key_hash);

-- What came of asking an application; the last ones of each relay.
CREATE TABLE relay_attempts (
    id         BLOB PRIMARY KEY,
    relay_id   BLOB NOT NULL REFERENCES relays (id) ON DELETE CASCADE,
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    at         INTEGER NOT NULL,
    outcome    TEXT NOT NULL CHECK (outcome IN ('passed', 'refused', 'deferred')),
    status     INTEGER,
    millis     INTEGER NOT NULL,
    error      TEXT
) STRICT;
CREATE INDEX relay_attempts_of_relay ON relay_attempts (relay_id, id);
