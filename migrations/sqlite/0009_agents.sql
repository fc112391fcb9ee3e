-- What Agents are configured to be.

-- What an Agent is configured to be. Both rows are made at its first change: `staging` is worked on,
-- `default` is what was published; a revision of 0 says that nothing ever was. `config` is a JSON
-- object of the fields that somebody set.
CREATE TABLE agent_configs (
    id         BLOB PRIMARY KEY,
    agent_id   INTEGER NOT NULL REFERENCES accounts (id),
    kind       TEXT NOT NULL CHECK (kind IN ('staging', 'default')),
    config     TEXT NOT NULL,
    revision   INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX agent_configs_of_agent ON agent_configs (agent_id, kind);

-- Configurations that are kept to come back to. `version_id` is the millisecond in which it was made,
-- or the next one that the Agent has no version of; `automatic` ones are made by publishing.
CREATE TABLE agent_versions (
    agent_id   INTEGER NOT NULL REFERENCES accounts (id),
    version_id INTEGER NOT NULL,
    title      TEXT NOT NULL,
    snapshot   TEXT NOT NULL,
    automatic  INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX agent_versions_of_agent ON agent_versions (agent_id, version_id);

-- Templates of what Agents are configured to be; each is a reseller's or a partner's. `config` is a
-- JSON object of some fields of a configuration, `fields` says which of these an Agent must leave as
-- they are, `integrations` names what must be set up. One that was deleted is nobody's to see; what
-- it leaves goes by and by.
CREATE TABLE templates (
    id           BLOB PRIMARY KEY,
    account_id   INTEGER NOT NULL REFERENCES accounts (id),
    name         TEXT NOT NULL,
    enabled      INTEGER NOT NULL,
    config       TEXT NOT NULL,
    fields       TEXT NOT NULL,
    integrations TEXT NOT NULL,
    revision     INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    deleted_at   INTEGER
) STRICT;
CREATE INDEX templates_of_account ON templates (account_id, id);
CREATE INDEX templates_deleted ON templates (id) WHERE deleted_at IS NOT NULL;

-- Agents that a template was applied to, each with what it got, field by field: what is staged and is
-- not that, its customer changed.
CREATE TABLE template_links (
    agent_id    INTEGER NOT NULL REFERENCES accounts (id),
    template_id BLOB NOT NULL REFERENCES templates (id),
    applied     TEXT NOT NULL,
    revision    INTEGER NOT NULL,
    linked_at   INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX template_links_of_agent ON template_links (agent_id);
CREATE INDEX template_links_of_template ON template_links (template_id, agent_id);

-- The last migration of each template: what it brings (`config`, of the revision at which it was asked
-- for), to whom, and the Agent that it has come to. Whichever gateway comes to it goes on from there.
CREATE TABLE template_migrations (
    template_id BLOB NOT NULL REFERENCES templates (id),
    revision    INTEGER NOT NULL,
    config      TEXT NOT NULL,
    sections    TEXT,
    approved    TEXT NOT NULL,
    targets     TEXT,
    asked_at    INTEGER NOT NULL,
    finished_at INTEGER,
    after_agent INTEGER NOT NULL,
    examined    INTEGER NOT NULL,
    changed     INTEGER NOT NULL,
    overridden  INTEGER NOT NULL,
    failed      INTEGER NOT NULL,
    last_failed INTEGER
) STRICT;
CREATE UNIQUE INDEX template_migrations_of_template ON template_migrations (template_id);
CREATE INDEX template_migrations_open ON template_migrations (template_id) WHERE finished_at IS NULL;
