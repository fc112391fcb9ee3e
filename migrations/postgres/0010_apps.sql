-- Apps, integrations and features of accounts.

-- What an account keeps of an app: an Agent, that it has installed it; any account, the data of its
-- integration. `settings` is a JSON object of what is no secret. `sealed` holds the secrets, which
-- the vault alone opens; `secret_names`, a JSON array, is what they are called.
CREATE TABLE app_records (
    account_id   BIGINT NOT NULL REFERENCES accounts (id),
    kind         TEXT NOT NULL CHECK (kind IN ('app', 'integration')),
    app_id       TEXT COLLATE "C" NOT NULL,
    version      TEXT COLLATE "C" NOT NULL,
    settings     TEXT NOT NULL,
    secret_names TEXT NOT NULL,
    sealed       BYTEA,
    revision     BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    PRIMARY KEY (account_id, kind, app_id, version)
);

-- Features that an account was given or denied; without a row it has what all have by default.
CREATE TABLE feature_grants (
    account_id BIGINT NOT NULL REFERENCES accounts (id),
    feature    TEXT NOT NULL,
    granted    BIGINT NOT NULL CHECK (granted IN (0, 1)),
    set_at     BIGINT NOT NULL,
    PRIMARY KEY (account_id, feature)
);
