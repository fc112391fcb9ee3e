-- Sessions of the web console.

-- A session opens what its API key opens, and nothing once the key is revoked or has expired. A ticket
-- is a link that is not opened yet: opening it makes it a session, once.
CREATE TABLE console_sessions (
    id         BLOB PRIMARY KEY,
    -- SHA-256 of the secret; the secret itself is nowhere.
    hash       BLOB NOT NULL UNIQUE,
    key_id     BLOB NOT NULL REFERENCES keys (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    ticket     INTEGER NOT NULL CHECK (ticket IN (0, 1)),
    remote     TEXT,
    client     TEXT
) STRICT;
CREATE INDEX console_sessions_by_key ON console_sessions (key_id, created_at);
CREATE INDEX console_sessions_by_expiry ON console_sessions (expires_at);
