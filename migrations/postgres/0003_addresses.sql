-- Domains, the addresses of Agents, and whose mail they take.

CREATE TABLE domains (
    name       TEXT COLLATE "C" PRIMARY KEY,
    account_id BIGINT NOT NULL REFERENCES accounts (id),
    created_at BIGINT NOT NULL
);
CREATE INDEX domains_by_account ON domains (account_id, name);

-- Domains that accounts say are theirs, until a TXT record holds the challenge of one of them.
CREATE TABLE domain_claims (
    domain     TEXT COLLATE "C" NOT NULL,
    account_id BIGINT NOT NULL REFERENCES accounts (id),
    challenge  TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (domain, account_id)
);
CREATE INDEX domain_claims_by_account ON domain_claims (account_id, domain);

CREATE TABLE addresses (
    domain     TEXT COLLATE "C" NOT NULL REFERENCES domains (name),
    local      TEXT COLLATE "C" NOT NULL,
    agent_id   BIGINT NOT NULL REFERENCES accounts (id),
    catch_all  BIGINT NOT NULL DEFAULT 0 CHECK (catch_all IN (0, 1)),
    created_at BIGINT NOT NULL,
    PRIMARY KEY (domain, local)
);
CREATE INDEX addresses_by_agent ON addresses (agent_id, domain, local);
CREATE UNIQUE INDEX one_catch_all_per_domain ON addresses (domain) WHERE catch_all = 1;

CREATE TABLE inbound_policies (
    agent_id   BIGINT PRIMARY KEY REFERENCES accounts (id),
    mode       TEXT COLLATE "C" NOT NULL CHECK (mode IN ('allowlist', 'open')),
    -- Grows with every change of the mode or of the list; the commit of a message compares it.
    version    BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE allowed_senders (
    agent_id BIGINT NOT NULL REFERENCES accounts (id),
    address  TEXT COLLATE "C" NOT NULL,
    note     TEXT COLLATE "C",
    added_at BIGINT NOT NULL,
    PRIMARY KEY (agent_id, address)
);
