-- The version of the answers to RCPT: another one, at random, is put here last of all by every
-- transaction that changes accounts, domains, addresses or modes. What a gateway remembers is good
-- for one version.
CREATE TABLE directory (
    single  INTEGER NOT NULL UNIQUE CHECK (single = 1),
    version INTEGER NOT NULL
) STRICT;
INSERT INTO directory (single, version) VALUES (1, 1);
