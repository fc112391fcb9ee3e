-- By what links to media are signed that open without a key: the same for all gateways, and in every
-- copy, so that links outlive a restart and a restore. Made when it is first asked for.
CREATE TABLE link_keys (
    single BIGINT NOT NULL UNIQUE CHECK (single = 1),
    secret BYTEA NOT NULL
);
