-- This installation: which database it is, its gateways and what they have in common.
--
-- Times are milliseconds since the Unix epoch. Ids of accounts, members and contacts come from one
-- sequence; every other id is a UUIDv7 in 16 octets. Rows that belong to a tenant carry the ids of
-- the account and of all its ancestors, so that any level's list is one index range.

CREATE TABLE user_ids (
    last INTEGER NOT NULL
) STRICT;
INSERT INTO user_ids (last) VALUES (0);

-- Which database this is, said by its only row: a copy is the same one. A blob store names its owner
-- by it, so that no other database takes objects away that it does not know.
CREATE TABLE identity (
    single INTEGER NOT NULL UNIQUE CHECK (single = 1),
    id     BLOB NOT NULL
) STRICT;

-- The gateways of this store. Each raises its beat about once a second; the others see that it lives
-- by that alone, whatever anybody's clock says. `steady` is the time by which everything waits, the
-- same for all: it goes on from here when a gateway starts, by as much as `wall` has since.
CREATE TABLE gateways (
    id     INTEGER PRIMARY KEY,
    beat   INTEGER NOT NULL,
    steady INTEGER NOT NULL,
    wall   INTEGER NOT NULL
) STRICT;

-- The version of the answers to RCPT: another one, at random, is put here last of all by every
-- transaction that changes accounts, domains, addresses or modes. What a gateway remembers is good
-- for one version.
CREATE TABLE directory (
    single  INTEGER NOT NULL UNIQUE CHECK (single = 1),
    version INTEGER NOT NULL
) STRICT;
INSERT INTO directory (single, version) VALUES (1, 1);

-- By what links to media are signed that open without a key: the same for all gateways, and in every
-- copy, so that links outlive a restart and a restore. Made when it is first asked for.
CREATE TABLE link_keys (
    single INTEGER NOT NULL UNIQUE CHECK (single = 1),
    secret BLOB NOT NULL
) STRICT;

-- Creations that carried an Idempotency-Key: the row is written in the transaction of what was
-- created, so that no request is carried out twice; `holder` is the request that did it. `answer`
-- comes after it, and is encrypted under the caller's API key, which is nowhere here.
CREATE TABLE idempotency_keys (
    digest     BLOB PRIMARY KEY,
    request    BLOB NOT NULL,
    holder     BLOB NOT NULL,
    expires_at INTEGER NOT NULL,
    answer     BLOB
) STRICT;
CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_at);
