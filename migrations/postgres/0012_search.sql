-- By what messages are found.

-- Messages that have no entry yet: the commit writes this, a task behind it the entry. Without a foreign
-- key, as each insertion would lock its message for that; the row of a message that is gone goes with the next ones.
CREATE TABLE search_waiting (
    message_id UUID NOT NULL,
    organization_id BIGINT NOT NULL,
    PRIMARY KEY (message_id, organization_id)
);

-- What full-text search finds messages by: tokens that the program makes (src/domain/search), so
-- that both databases find the same. Not a twin: SQLite keeps them in an index of FTS5, PostgreSQL in
-- a tsvector. An entry goes with its message, its tokens with the entry.
CREATE TABLE search_entries (
    id       UUID NOT NULL,
    agent_id BIGINT NOT NULL,
    source   TEXT COLLATE "C" NOT NULL,
    at       BIGINT NOT NULL,
    tokens   TSVECTOR NOT NULL,
    organization_id BIGINT NOT NULL,
    PRIMARY KEY (id, organization_id),
    FOREIGN KEY (id, organization_id) REFERENCES messages (id, organization_id) ON DELETE CASCADE
);
-- There is one way to look for tokens, so that nothing is gained by knowing how frequent they are.
ALTER TABLE search_entries ALTER COLUMN tokens SET STATISTICS 0;
-- New tokens wait in a list that every search reads: a short one.
CREATE INDEX search_entries_by_tokens ON search_entries USING gin (tokens)
    WITH (fastupdate = on, gin_pending_list_limit = 1024);
