-- What happened, in the order in which clients read it.

-- `arrived` grows with the commits of a room, whichever gateway makes them; `position` is the place
-- of a row's last event in the log that is read by clients: who has seen one has missed none before
-- it. PostgreSQL, where transactions end in another order than they take their numbers, gives it
-- after the commit; on SQLite the number is the place.

-- Where the log ends: no place is given twice, whatever is erased.
CREATE TABLE event_log (
    id            INTEGER PRIMARY KEY CHECK (id = 1),
    last_position INTEGER NOT NULL
) STRICT;
INSERT INTO event_log (id, last_position) VALUES (1, 0);

-- A row is all that one change announces: `names`, divided by spaces, in order. Beside its name an
-- event has an id of its own, that of the row with its number in the last four bits, and a place.
-- The row of a message has its id: whatever tells nothing itself (`told`) is about that.
CREATE TABLE events (
    id              BLOB NOT NULL,
    names           TEXT NOT NULL,
    at              INTEGER NOT NULL,
    partner_id      INTEGER NOT NULL,
    reseller_id     INTEGER,
    -- 0 where it is of no organization.
    organization_id INTEGER NOT NULL,
    agent_id        INTEGER,
    contact_id      INTEGER,
    -- The `data` of an event of `onboarding`, a JSON object: no row keeps what an account or a member
    -- was at that moment.
    told            TEXT,
    arrived         INTEGER NOT NULL DEFAULT 0,
    position        INTEGER,
    PRIMARY KEY (id, organization_id)
) STRICT;
CREATE INDEX events_by_agent ON events (agent_id, at, id) WHERE agent_id IS NOT NULL;
CREATE INDEX events_without_agent
    ON events (CAST(COALESCE(NULLIF(organization_id, 0), reseller_id, partner_id) AS BIGINT), at, id)
    WHERE agent_id IS NULL;
CREATE INDEX events_without_position ON events (arrived, id) WHERE position IS NULL;
CREATE INDEX events_log ON events (position) WHERE position IS NOT NULL;
-- The log of the partner, of whom a store has one, is the whole log.
CREATE INDEX events_log_of_reseller ON events (reseller_id, position) WHERE position IS NOT NULL;
CREATE INDEX events_log_of_organization ON events (organization_id, position)
    WHERE position IS NOT NULL;
CREATE INDEX events_log_of_agent ON events (agent_id, position) WHERE position IS NOT NULL;
