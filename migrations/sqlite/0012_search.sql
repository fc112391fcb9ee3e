-- By what messages are found.

-- Messages that have no entry yet: the commit writes this, a task behind it the entry. Without a foreign
-- key, as each insertion would lock its message for that; the row of a message that is gone goes with the next ones.
CREATE TABLE search_waiting (
    message_id BLOB NOT NULL,
    organization_id INTEGER NOT NULL,
    PRIMARY KEY (message_id, organization_id)
) STRICT, WITHOUT ROWID;

-- What full-text search finds messages by: tokens that the program makes (src/domain/search), so
-- that both databases find the same. Not a twin: SQLite keeps them in an index of FTS5, PostgreSQL in
-- a tsvector. An entry goes with its message, its tokens with the entry. Its number is the row of
-- the index: an implicit one might change.
CREATE TABLE search_entries (
    number   INTEGER PRIMARY KEY,
    id       BLOB NOT NULL,
    agent_id INTEGER NOT NULL,
    source   TEXT NOT NULL,
    at       INTEGER NOT NULL,
    organization_id INTEGER NOT NULL,
    UNIQUE (id, organization_id),
    FOREIGN KEY (id, organization_id) REFERENCES messages (id, organization_id) ON DELETE CASCADE
) STRICT;
CREATE TRIGGER search_entries_gone AFTER DELETE ON search_entries
    BEGIN DELETE FROM search_words WHERE rowid = old.number;
    UPDATE search_words_gone SET waiting = 1 WHERE id = 1 AND waiting = 0; END;

-- Tokens are told apart by spaces and are of no other ASCII than letters, digits and colons. With
-- detail 'none', FTS5 would read a frequent token's list from its beginning.
CREATE VIRTUAL TABLE search_words USING fts5 (
    tokens, content = '', contentless_delete = 1, detail = 'column',
    tokenize = "ascii tokenchars ':'"
);
-- As many segments of a kind are merged at once: a third fewer pages are written than with 4, and a search
-- looks into about as many.
INSERT INTO search_words (search_words, rank) VALUES ('automerge', 8);

-- A deleted row's tokens stay in the index's segments until these are merged: whether some wait for
-- that, and whether a merge is under way.
CREATE TABLE search_words_gone (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    waiting INTEGER NOT NULL,
    merging INTEGER NOT NULL
) STRICT;
INSERT INTO search_words_gone (id, waiting, merging) VALUES (1, 0, 0);
