-- Apps, integrations and features of accounts.

-- What an account keeps of an app: an Agent, that it has installed it; any account, the data of its
-- integration. `settings` is a JSON object of what is no secret. `sealed` holds the secrets, which
-- the vault alone opens; `secret_names`, a JSON array, is what they are called.
CREATE TABLE app_records (
    account_id   INTEGER NOT NULL REFERENCES accounts (id),
    kind         TEXT NOT NULL CHECK (kind IN ('app', 'integration')),
    app_id       TEXT NOT NULL,
    version      TEXT NOT NULL,
    settings     TEXT NOT NULL,
    secret_names TEXT NOT NULL,
    sealed       BLOB,
    revision     INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    PRIMARY KEY (account_id, kind, app_id, version)
) STRICT;

-- Features that an account was given or denied; without a row it has what all have by default.
CREATE TABLE feature_grants (
    account_id INTEGER NOT NULL REFERENCES accounts (id),
    feature    TEXT NOT NULL,
    granted    INTEGER NOT NULL CHECK (granted IN (0, 1)),
    set_at     INTEGER NOT NULL,
    PRIMARY KEY (account_id, feature)
) STRICT;
