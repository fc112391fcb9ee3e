-- Ways in of adapters (`json`), beside those of providers. SQLite changes no CHECK, so the table is made anew,
-- with the indexes that it had.
CREATE TABLE inbound_ways_anew (
    id           BLOB PRIMARY KEY,
    account_id   INTEGER NOT NULL REFERENCES accounts (id),
    kind         TEXT NOT NULL CHECK (kind IN ('mailgun', 'sendgrid', 'postmark', 'ses', 'json')),
    key_hash     BLOB NOT NULL,
    key_sealed   BLOB NOT NULL,
    last_four    TEXT NOT NULL,
    verification BLOB NOT NULL,
    revision     INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    rotated_at   INTEGER
) STRICT;
INSERT INTO inbound_ways_anew (id, account_id, kind, key_hash, key_sealed, last_four, verification,
                               revision, created_at, rotated_at)
SELECT id, account_id, kind, key_hash, key_sealed, last_four, verification, revision, created_at,
       rotated_at
FROM inbound_ways;
DROP TABLE inbound_ways;
ALTER TABLE inbound_ways_anew RENAME TO inbound_ways;
CREATE UNIQUE INDEX inbound_ways_of_account ON inbound_ways (account_id, kind);
CREATE INDEX inbound_ways_by_key ON inbound_ways (key_hash);
