-- Sessions of the web console.

-- A session opens what its API key opens, and nothing once the key is revoked or has expired. A ticket
-- is a link that is not opened yet: opening it makes it a session, once.
CREATE TABLE console_sessions (
    id         UUID PRIMARY KEY,
    -- SHA-256 of the secret; the secret itself is nowhere.
    hash       BYTEA NOT NULL UNIQUE,
    key_id     UUID NOT NULL REFERENCES keys (id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    ticket     BIGINT NOT NULL CHECK (ticket IN (0, 1)),
    remote     TEXT COLLATE "C",
    client     TEXT COLLATE "C"
);
CREATE INDEX console_sessions_by_key ON console_sessions (key_id, created_at);
CREATE INDEX console_sessions_by_expiry ON console_sessions (expires_at);
