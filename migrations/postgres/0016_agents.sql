-- What an Agent is configured to be. Both rows are made at its first change: `staging` is worked on,
-- `default` is what was published; a revision of 0 says that nothing ever was. `config` is a JSON
-- object of the fields that somebody set.
CREATE TABLE agent_configs (
    id         UUID PRIMARY KEY,
    agent_id   BIGINT NOT NULL REFERENCES accounts (id),
    kind       TEXT NOT NULL CHECK (kind IN ('staging', 'default')),
    config     TEXT NOT NULL,
    revision   BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX agent_configs_of_agent ON agent_configs (agent_id, kind);

-- Configurations that are kept to come back to. `version_id` is the millisecond in which it was made,
-- or the next one that the Agent has no version of; `automatic` ones are made by publishing.
CREATE TABLE agent_versions (
    agent_id   BIGINT NOT NULL REFERENCES accounts (id),
    version_id BIGINT NOT NULL,
    title      TEXT NOT NULL,
    snapshot   TEXT NOT NULL,
    automatic  BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX agent_versions_of_agent ON agent_versions (agent_id, version_id);
