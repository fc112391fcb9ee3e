-- Who is signed in to the console.

-- Bound to the API key that was typed: it opens nothing once the key does not. A ticket is the link of
-- an administrator, which nobody has opened yet.
CREATE TABLE console_sessions (
    id         UUID PRIMARY KEY,
    key_id     UUID NOT NULL REFERENCES keys (id),
    account_id BIGINT NOT NULL REFERENCES accounts (id),
    member_id  BIGINT REFERENCES members (id),
    -- SHA-256 of the secret; the secret itself is nowhere.
    hash       BYTEA NOT NULL UNIQUE,
    ticket     BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    remote_address TEXT COLLATE "C",
    client     TEXT COLLATE "C"
);
CREATE INDEX console_sessions_by_account ON console_sessions (account_id, created_at);
CREATE INDEX console_sessions_by_member ON console_sessions (member_id, created_at)
    WHERE member_id IS NOT NULL;
CREATE INDEX console_sessions_by_key ON console_sessions (key_id);
CREATE INDEX console_sessions_by_expiry ON console_sessions (expires_at);
